// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/plugins"
)

// benchSubject is a plugin that is measured against a fake of its cloud on loopback.
type benchSubject struct {
	label string // label in the rows
	name  string // name of the plugin
	image string
	cloud func() (*plugins.Cloud, error)
	token bool // whether requests have a service account token

	// recorded holds the upstream plugin's earlier figures if it cannot be built, because
	// its module is not on the Go proxy. It is nil otherwise.
	recorded *figures

	// time and the following fields are targets, as fractions of the upstream plugin's
	// figures.
	time, memory, size float64
	calls              int // target number of calls; 0 means as many as the upstream plugin makes
}

// figures are the measurements of a plugin.
type figures struct {
	time   time.Duration // time from exec to response
	memory int64         // peak resident memory in bytes
	size   int64         // size of the executable in bytes
	calls  int           // remote calls per response
}

// recordedECR is the recorded time from exec to response of AWS's plugin. Its time on this machine
// is compared with recordedECR to scale the other recorded figures.
const recordedECR = 5400 * time.Microsecond

// ecrImage and the following constants are the requested images.
const (
	ecrImage    = "111122223333.dkr.ecr.us-west-2.amazonaws.com/team/app"
	googleImage = "europe-docker.pkg.dev/project/team/app"
	azureImage  = "team.azurecr.io/app"
)

// benchSubjects returns the plugins to measure and their targets. The recorded figures are
// medians of 60 runs of cloud-provider-gcp 4e245312 and cloud-provider-azure 7b31c76c,
// built with the same flags, against clouds on loopback.
func benchSubjects() []benchSubject {
	instance := func() (*plugins.Cloud, error) { return plugins.NewAWS() }
	gcr := figures{3100 * time.Microsecond, 14e6, 9.1e6, 2}
	acr := figures{6600 * time.Microsecond, 22.5e6, 27.6e6, 3}
	acrPod := acr
	acrPod.calls = 5
	return []benchSubject{
		{label: "ECR, keys in the environment", name: plugins.ECR, image: ecrImage, cloud: plugins.NewAWSWithKeys, time: 0.7, memory: 0.75, size: 0.75},
		{label: "ECR, role of the instance", name: plugins.ECR, image: ecrImage, cloud: instance, time: 0.7, memory: 0.75, size: 0.75},
		{label: "ECR, service account", name: plugins.ECR, image: ecrImage, cloud: instance, token: true, time: 0.7, memory: 0.75, size: 0.75},
		{label: "GCR", name: plugins.GCR, image: googleImage, cloud: plugins.NewGoogle, recorded: &gcr, time: 0.8, memory: 0.75, size: 0.8, calls: 1},
		{label: "ACR", name: plugins.ACR, image: azureImage, cloud: plugins.NewAzure, recorded: &acr, time: 0.5, memory: 0.6, size: 0.4},
		{label: "ACR, service account", name: plugins.ACR, image: azureImage, cloud: plugins.NewAzure, token: true, recorded: &acrPod, time: 0.5, memory: 0.6, size: 0.4, calls: 4},
	}
}

// program is an executable to run against a cloud.
type program struct {
	label  string
	path   string
	args   []string // nil means the cloud's arguments
	times  []time.Duration
	memory []int64
}

// benchPlugins measures this repository's cloud plugins, and compares the ECR plugin with
// AWS's.
func benchPlugins(b *bench) ([]row, error) {
	upstream, err := plugins.BuildUpstreamECR(b.dir)
	if err != nil {
		return nil, err
	}
	version, err := plugins.UpstreamVersion(upstream)
	if err != nil {
		return nil, err
	}
	vmhwm, err := plugins.BuildInRepository(b.dir, "bench/vmhwm")
	if err != nil {
		return nil, err
	}
	var rows []row
	var speed float64 // speed of this machine relative to the machine on which the figures were recorded
	for _, s := range benchSubjects() {
		path, err := plugins.Build(b.dir, s.name)
		if err != nil {
			return nil, err
		}
		paths := []string{path}
		if s.recorded == nil {
			paths = append(paths, upstream)
		}
		measured, err := s.measureFigures(vmhwm, paths, b.runs)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.label, err)
		}
		if s.recorded == nil {
			rows = append(rows, s.rows(measured[0], measured[1], "")...)
			if speed == 0 {
				speed = float64(measured[1].time) / float64(recordedECR)
				rows[0].Notes = []string{fmt.Sprintf("upstream is cloud-provider-aws %s; medians of %d runs", version, b.runs)}
			}
			continue
		}
		theirs := *s.recorded
		theirs.time = time.Duration(float64(theirs.time) * speed)
		own := s.rows(measured[0], theirs, " (recorded)")
		own[0].Notes = []string{fmt.Sprintf("recorded were %s, on a machine on which the real ECR plugin took %s and not %s",
			formatThreeDigits(s.recorded.time), formatThreeDigits(recordedECR), formatThreeDigits(time.Duration(float64(recordedECR)*speed)))}
		rows = append(rows, own...)
	}
	return rows, nil
}

// measureFigures runs the programs alternately against one cloud and returns their figures.
func (s benchSubject) measureFigures(vmhwm string, paths []string, runs int) ([]figures, error) {
	c, err := s.cloud()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	token := ""
	if s.token {
		token = canary.TokenSecret
	}
	req := newRequest(c, s.image, token)
	programs := make([]program, len(paths))
	out := make([]figures, len(paths))
	for i, path := range paths {
		programs[i].path = path
		before := len(c.Requests())
		if _, err := programs[i].timeRun(c, req); err != nil { // warms up the page cache
			return nil, err
		}
		out[i].calls = len(c.Requests()) - before
		if out[i].size, err = fileSize(path); err != nil {
			return nil, err
		}
	}
	if err := alternatePrograms(c, req, programs, runs, vmhwm); err != nil {
		return nil, err
	}
	for i, p := range programs {
		out[i].time, out[i].memory = median(p.times), median(p.memory)
	}
	return out, nil
}

// alternatePrograms runs the programs alternately and records their times. If vmhwm is set, it also
// records their peak memory.
func alternatePrograms(c *plugins.Cloud, req *plugin.Request, programs []program, runs int, vmhwm string) error {
	for n := range runs {
		for i := range programs {
			p := &programs[(i+n)%len(programs)] // each program is first equally often
			d, err := p.timeRun(c, req)
			if err != nil {
				return err
			}
			p.times = append(p.times, d)
			if vmhwm == "" {
				continue
			}
			m, err := p.peakMemory(c, req, vmhwm)
			if err != nil {
				return err
			}
			p.memory = append(p.memory, m)
		}
	}
	return nil
}

// newRequest returns a request for an image. If token is empty, the plugin uses the node's
// identity.
func newRequest(c *plugins.Cloud, image, token string) *plugin.Request {
	req := &plugin.Request{APIVersion: plugin.V1, Image: image, ServiceAccountAnnotations: c.Annotations}
	if token != "" {
		req.ServiceAccountToken = plugin.NewSecret(token)
	}
	return req
}

func (p program) cloudArgs(c *plugins.Cloud) []string {
	if p.args != nil {
		return p.args
	}
	return c.Args
}

// timeRun runs a plugin once and returns the time until its response.
func (p program) timeRun(c *plugins.Cloud, req *plugin.Request) (time.Duration, error) {
	cmd := plugin.Command{Path: p.path, Args: plugin.NewSecrets(p.cloudArgs(c)...), Environ: c.Environ, APIVersion: plugin.V1}
	start := time.Now()
	resp, err := cmd.GetCredentials(context.Background(), req)
	d := time.Since(start)
	if err == nil && len(resp.Auth) == 0 {
		err = fmt.Errorf("%s answers without credentials", p.path)
	}
	return d, err
}

// peakMemory runs a plugin once and returns its peak resident memory.
func (p program) peakMemory(c *plugins.Cloud, req *plugin.Request, vmhwm string) (int64, error) {
	stdin, err := plugin.EncodeRequest(req)
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(vmhwm, append([]string{p.path}, p.cloudArgs(c)...)...)
	cmd.Env, cmd.Stdin = c.Environ, bytes.NewReader(stdin)
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", p.path, err)
	}
	kib, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	return kib << 10, err
}

func fileSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (s benchSubject) rows(ours, theirs figures, how string) []row {
	line := func(what, ours, theirs string, ratio, target float64) row {
		return row{
			What: s.label + ": " + what, Regcred: ours, Upstream: theirs + how,
			Ratio: fmt.Sprintf("%.2f×", ratio), Target: fmt.Sprintf("≤ %.2g×", target), Met: ratio <= target,
		}
	}
	share := func(a, b int64) float64 { return float64(a) / float64(b) }
	list := []row{
		line("exec to answer", formatThreeDigits(ours.time), formatThreeDigits(theirs.time), share(int64(ours.time), int64(theirs.time)), s.time),
		line("most memory", formatMegabytes(ours.memory), formatMegabytes(theirs.memory), share(ours.memory, theirs.memory), s.memory),
		line("executable", formatMegabytes(ours.size), formatMegabytes(theirs.size), share(ours.size, theirs.size), s.size),
	}
	want := s.targetCalls(theirs)
	return append(list, row{
		What: s.label + ": remote calls for one answer", Regcred: fmt.Sprint(ours.calls), Upstream: fmt.Sprint(theirs.calls) + how,
		Target: fmt.Sprintf("≤ %d", want), Met: ours.calls <= want,
	})
}

func (s benchSubject) targetCalls(theirs figures) int {
	if s.calls == 0 {
		return theirs.calls
	}
	return s.calls
}

func formatMegabytes(n int64) string { return fmt.Sprintf("%.2f MB", float64(n)/1e6) }
