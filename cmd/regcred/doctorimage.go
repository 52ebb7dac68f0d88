// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/probe"
)

// imageFlags are the flags of "regcred doctor" about an image.
type imageFlags struct {
	image       string
	pullSecrets []string
	offline     bool
	hostTimeout time.Duration
}

func (i *imageFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&i.image, "image", "", "`image` to trace from its reference to its manifest in the registry")
	f.StringArrayVar(&i.pullSecrets, "pull-secret", nil, "with --image: `file` with an image pull secret: a Secret manifest or a docker config.json; may be repeated")
	f.BoolVar(&i.offline, "offline", false, "with --image: do not run plugins or contact hosts")
	f.DurationVar(&i.hostTimeout, "timeout", 20*time.Second, "with --image: maximum `time` for contacting all hosts")
}

// check refuses flags that do not go together.
func (d *doctorFlags) check() error {
	given := whichGiven(given{"pull-secret", strings.Join(d.pullSecrets, ",")})
	if d.offline {
		given = append(given, "--offline")
	}
	switch {
	case d.image == "" && given != nil:
		return usageError("", "%s requires --image", strings.Join(given, " "))
	case d.offline && (d.kube || d.pod.given()):
		return usageError("", "--offline sends no requests: omit --kube and --pod")
	case d.hostTimeout <= 0:
		return usageError("", "--timeout is %s; it must be greater than 0", d.hostTimeout)
	}
	return nil
}

// doctorImage goes the way of an image. cfg is nil if there is none that is valid.
func (a *app) doctorImage(ctx context.Context, r *doctor.Report, n *node.Reading, o *node.Origin, cfg *config.Config, d *doctorFlags) {
	found := findRuntime(ctx, n, o)
	if o == nil { // it could not be found out
		o = &node.Origin{Environ: a.environ, Dir: a.dir}
	}
	image := &doctor.Image{
		Report: r, Reference: d.image, Config: cfg,
		Remedy:  func(at regcred.Attempt) string { return doctor.AttemptRemedy(at, d.pod.given(), o.Config) },
		Route:   found.Route,
		Prober:  probe.Prober{Runtime: found.Probe(a.environ), Platform: "linux/" + runtime.GOARCH},
		Offline: d.offline, Timeout: d.hostTimeout,
	}
	if !d.offline {
		image.Lookup = func(ctx context.Context) (*regcred.Result, bool, error) { return a.lookUpImage(ctx, o, cfg, d) }
	}
	image.Check(ctx)
}

// lookUpImage looks the image up as for the pod, if one is given.
func (a *app) lookUpImage(ctx context.Context, o *node.Origin, cfg *config.Config, d *doctorFlags) (*regcred.Result, bool, error) {
	l := &lookupFlags{pullSecrets: d.pullSecrets, pod: d.pod, kubeFlags: d.kubeFlags}
	s, err := a.newSession(ctx, cmp.Or(cfg, &config.Config{}), o, l)
	if err != nil {
		return nil, false, fmt.Errorf("not looked up: %w", err)
	}
	defer s.Close()
	return s.lookup(ctx, target{image: d.image})
}

// findRuntime finds the runtime of the kubelet that is known, or else that of
// this node.
func findRuntime(ctx context.Context, n *node.Reading, o *node.Origin) *doctor.Runtime {
	if o == nil {
		o = &node.Origin{}
	}
	endpoint, err := n.RuntimeEndpoint(node.AutoEndpoint, o)
	if err != nil { // there is none, or several: what runs, and the files, tell
		endpoint = ""
	}
	return doctor.FindRuntime(ctx, n, endpoint)
}
