// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/terminal"
)

// doctorFlags are the flags of "regcred doctor".
type doctorFlags struct {
	output *choice
	kube   bool
	pod    objectName
	kubeFlags
}

func (a *app) doctorCmd() *cobra.Command {
	d := &doctorFlags{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what on this node would stop a pull, and say how to mend it",
		Long: `doctor looks at what a pull on this node depends on: the configuration, the
executables, who may change them, and the node's docker config files; where a
plugin is told that the runtime never asks a mirrored name's own host, also at
containerd's configuration. It runs no plugin.

With --kube it looks at the cluster too: whether the API server answers, whom it
takes this identity for, and whether that may read what a pull needs and request
tokens for the audiences of the configuration. With --pod it asks for such
tokens, as a dry run.

The exit code is 0 if nothing fails, and 1 otherwise.`,
		Example: `  sudo regcred doctor --as-kubelet
  sudo regcred doctor --as-kubelet --kube --pod team/app-1
  regcred doctor --config providers.yaml --bin-dir /opt/plugins -o json`,
		Args: atMost(),
	}
	d.output = addOutputFlag(cmd, "text", "json")
	f := cmd.Flags()
	f.BoolVar(&d.kube, "kube", false, "check the cluster too")
	f.Var(&d.pod, "pod", "check the cluster for this pod too, and request tokens for it as a dry run")
	d.kubeFlags.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.doctor(cmd.Context(), d)
	}
	return cmd
}

func (a *app) doctor(ctx context.Context, d *doctorFlags) error {
	r := &doctor.Report{Checks: []doctor.Check{}}
	o, err := a.resolve("", true)
	if e, ok := errors.AsType[*node.Error](err); ok && e.Usage {
		return err
	}
	cfg := &config.Config{}
	if err != nil {
		r.Fail("config", err, "")
	} else if found := r.Node(ctx, a.node(), o, nodeDockerConfig(o)); found != nil {
		cfg = found
	}
	if d.kube || d.pod.given() || d.kubeFlags != (kubeFlags{}) {
		a.doctorCluster(ctx, r, o, cfg, d)
	}
	r.Healthy = r.Count()[doctor.Fail] == 0 && ctx.Err() == nil
	if err := a.print(d.output, r, func(t *terminal.Text) { renderDoctor(t, r) }); err != nil || r.Healthy {
		return err
	}
	return cmp.Or(ctx.Err(), exit(exitFailed))
}

// doctorCluster checks the cluster, also where origin and configuration are
// missing. In place of a kubelet that is not found it asks as nobody else: what
// another identity may do is no answer to --as-kubelet.
func (a *app) doctorCluster(ctx context.Context, r *doctor.Report, o *node.Origin, cfg *config.Config, d *doctorFlags) {
	if o == nil && a.asKubelet != "" && d.kubeconfig == "" {
		r.Add("api-server", doctor.Skip, "give the kubelet's own --kubeconfig, such as /etc/kubernetes/kubelet.conf", "not asked, since there is no kubelet to ask as")
		return
	}
	if o == nil {
		o = &node.Origin{Environ: a.environ, Dir: a.dir}
	}
	clock := &doctor.Clock{Now: a.Now}
	c, err := a.connect(ctx, o, d.kubeFlags, clock.Watch)
	if err != nil {
		r.Fail("api-server", err, "")
		return
	}
	check := &doctor.Cluster{
		Report: r, Client: c.Client, From: c.from, Clock: clock,
		Config: cfg, ConfigPath: o.Config, Namespace: d.pod.namespace, PodName: d.pod.name,
	}
	check.Check(ctx)
}

func renderDoctor(t *terminal.Text, r *doctor.Report) {
	for _, c := range r.Checks {
		t.Line(c.Result, c.Check+": "+c.Message)
		if c.Fix != "" {
			t.Below("fix: " + c.Fix)
		}
	}
	t.Blank()
	counts := r.Count()
	sum := fmt.Sprintf("%s: %s", terminal.Count(len(r.Checks), "check"), terminal.Tally(counts))
	switch {
	case !r.Healthy:
		t.Line(terminal.Error, sum)
	case counts[doctor.Warn] > 0:
		t.Line(terminal.Warning, sum)
	default:
		t.Line(terminal.OK, sum)
	}
}
