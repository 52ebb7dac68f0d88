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
	imageFlags
}

func (a *app) doctorCmd() *cobra.Command {
	d := &doctorFlags{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what prevents pulls on this node, and how to fix it",
		Long: `doctor looks at what a pull on this node depends on: the configuration, the
executables, who may change them, and the node's docker config files; where a
plugin is told that the runtime never asks a mirrored name's own host, also at
containerd's configuration. It runs no plugin, but with --image.

It holds that against the kubelet that runs: its flags, and when it was started.
Of one that does not stay up it asks systemd or OpenRC, and says why, from the
last lines of its log.

With --image it goes the whole way of an image, and stops at the step that
fails: the reference, the providers that match, the credentials that a kubelet
would have (here plugins are run, as by explain), the hosts that the runtime's
mirrors lead to, and at each of these, with the runtime's proxies and
authorities, the name, the connection, TLS, the challenge, the token and the
manifest, with each credential in turn. Nothing is pulled.

With --kube it looks at the cluster too: whether the API server answers, whom it
takes this identity for, and whether that may read what a pull needs and request
tokens for the audiences of the configuration. With --pod it asks for such
tokens, as a dry run; with --image too, the image is looked up as for that pod.

The exit code is 0 if nothing fails, and 1 otherwise.`,
		Example: `  sudo regcred doctor --as-kubelet
  sudo regcred doctor --as-kubelet --kube --pod team/app-1
  sudo regcred doctor --as-kubelet --image registry.example/team/app:1.2 --pod team/app-1
  regcred doctor --config providers.yaml --bin-dir /opt/plugins -o json`,
		Args: atMost(),
	}
	d.output = addOutputFlag(cmd, "text", "json")
	f := cmd.Flags()
	f.BoolVar(&d.kube, "kube", false, "check the cluster too")
	f.Var(&d.pod, "pod", "check the cluster for this pod too, and request tokens for it as a dry run")
	d.kubeFlags.register(cmd)
	d.imageFlags.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.doctor(cmd.Context(), d)
	}
	return cmd
}

func (a *app) doctor(ctx context.Context, d *doctorFlags) error {
	if err := d.check(); err != nil {
		return err
	}
	r := &doctor.Report{Checks: []doctor.Check{}}
	o, err := a.resolveOrNone(true)
	if e, ok := errors.AsType[*node.Error](err); ok && e.Usage {
		return err
	}
	k := a.doctorKubelet(ctx, o)
	if err != nil {
		r.Fail("config", err, "")
	}
	r.Node(ctx, k)
	valid, cfg := k.Config, cmp.Or(k.Config, &config.Config{})
	r.Kubelet(ctx, k)
	r.Mirrors(a.findRuntime(ctx, o), cfg)
	r.Installed(ctx, k)
	if ctx.Err() != nil {
		return context.Cause(ctx) // perhaps no kubelet has answered: what was cut short says nothing
	}
	if d.kube || d.pod.given() || d.kubeFlags != (kubeFlags{}) {
		a.doctorCluster(ctx, r, o, cfg, d)
	}
	if d.image != "" {
		a.doctorImage(ctx, r, o, valid, d)
	}
	r.Healthy = r.Count()[doctor.Fail] == 0 && ctx.Err() == nil
	if err := a.print(d.output, r, func(t *terminal.Text) { renderDoctor(t, r) }); err != nil || r.Healthy {
		return err
	}
	return cmp.Or(ctx.Err(), exit(exitFailed))
}

// doctorKubelet is the kubelet of this node. What is no node's machine is not asked.
func (a *app) doctorKubelet(ctx context.Context, o *node.Origin) *doctor.Kubelet {
	k := &doctor.Kubelet{Node: a.node(), Origin: o}
	if o == nil && a.asKubelet == "" {
		k.Caller = &node.Origin{Environ: a.environ, Dir: a.dir, RootDir: cmp.Or(a.rootDir, node.DefaultRootDir)}
	}
	setup, err := k.Node.Setup(ctx)
	if err != nil {
		return k // no system of nodes, or interrupted
	}
	k.Setup = setup
	if k.Node.Here() {
		k.Service = new(kubeletService(setup))
	}
	return k
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
		for _, line := range c.Log {
			t.Below("log: " + line)
		}
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
