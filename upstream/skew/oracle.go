// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/regcred/regcred/upstream/release"
	"github.com/regcred/regcred/upstream/skew/protocol"
)

// kubeletProcess is a running oracle: a process that contains one release of the kubelet.
type kubeletProcess struct {
	version string // for example "v1.33.13"
	minor   int    // for example 33
	build   protocol.Build
	gates   []protocol.Gate

	cmd       *exec.Cmd
	stdin     io.WriteCloser
	responses *json.Decoder
}

// startKubeletProcess builds the oracle of a release in dir and starts it.
func startKubeletProcess(ctx context.Context, r *release.Release, dir string) (*kubeletProcess, error) {
	o := &kubeletProcess{version: r.Version}
	o.minor, _ = strconv.Atoi(strings.Split(r.Version, ".")[1])
	path := filepath.Join(dir, "oracle")
	if err := r.Build(ctx, path, "./skew/oracle", "-tags="+buildTag(o.minor)); err != nil {
		return nil, err
	}
	if err := o.startProcess(ctx, path); err != nil {
		return nil, err
	}
	if err := o.queryBuild(r); err != nil {
		return nil, errors.Join(fmt.Errorf("the oracle of Kubernetes %s: %w", r.Version, err), o.close())
	}
	return o, nil
}

// buildTag returns the build tag with which package kubelet supports a minor release.
func buildTag(minor int) string {
	if minor <= 33 {
		return "kubelet133"
	}
	return ""
}

func (o *kubeletProcess) startProcess(ctx context.Context, path string) (err error) {
	o.cmd = exec.CommandContext(ctx, path)
	o.cmd.Stderr = os.Stderr
	// The kubelet must not inherit GODEBUG, GOTRACEBACK and the like.
	o.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + filepath.Dir(path)}
	if o.stdin, err = o.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	o.responses = json.NewDecoder(out)
	return o.cmd.Start()
}

// queryBuild gets the oracle's build information and feature gates. The oracle must be built with
// release r.
func (o *kubeletProcess) queryBuild(r *release.Release) error {
	if err := o.query(protocol.Query{Kind: protocol.BuildQuery}, &o.build); err != nil {
		return err
	}
	if o.build.Kubelet != r.Version {
		return fmt.Errorf("it is built with %s", o.build.Kubelet)
	}
	if r.GODEBUG != "" {
		o.build.GODEBUG = "default=" + r.GODEBUG
	}
	return o.query(protocol.Query{Kind: protocol.GatesQuery}, &o.gates)
}

// query sends a query to the oracle and decodes the vector in the response.
func (o *kubeletProcess) query(q protocol.Query, vector any) error {
	data, err := json.Marshal(q)
	if err != nil {
		return err
	}
	if _, err := o.stdin.Write(append(data, '\n')); err != nil {
		return o.exitError(err)
	}
	var a protocol.Response
	if err := o.responses.Decode(&a); err != nil {
		return o.exitError(err)
	}
	if a.Error != "" {
		return fmt.Errorf("kubelet %s, asked about %s: %s", o.version, q.Kind, a.Error)
	}
	return json.Unmarshal(a.Vector, vector)
}

// queryVector returns the oracle's vector for a case.
func queryVector[V any](o *kubeletProcess, kind string, c any, tokensOff bool) (v V, err error) {
	data, err := json.Marshal(c)
	if err != nil {
		return v, err
	}
	err = o.query(protocol.Query{Kind: kind, Case: data, TokensOff: tokensOff}, &v)
	return v, err
}

// exitError returns the error if the oracle has exited, for example because the kubelet has called
// klog.Fatal. The exit status is in the error of close.
func (o *kubeletProcess) exitError(err error) error {
	return fmt.Errorf("the oracle of kubelet %s answers no more: %w", o.version, err)
}

// close stops the oracle.
func (o *kubeletProcess) close() error {
	o.stdin.Close()
	return o.cmd.Wait()
}

// featureGate returns the kubelet's feature gate with this name. If the kubelet does not have the
// gate, Gone is set.
func (o *kubeletProcess) featureGate(name string) protocol.Gate {
	for _, g := range o.gates {
		if g.Name == name {
			return g
		}
	}
	return protocol.Gate{Name: name, Gone: true}
}
