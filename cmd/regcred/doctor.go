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
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
)

// doctorFlags are the flags of "regcred doctor".
type doctorFlags struct {
	output *choice
	kube   bool
	pod    objectName
	rules  report.Filter
	kubeFlags
	imageFlags
}

func (a *app) doctorCmd() *cobra.Command {
	d := &doctorFlags{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out why pulls fail on this node, and how to fix them",
		Long: `Check everything that a pull on this node depends on: the configuration, the
plugins, their file permissions, the docker config files, and the running
kubelet's flags and start time. If the kubelet keeps failing, doctor reads the
reason from systemd or OpenRC and from the last lines of the kubelet's log.
Plugins are run only with --image.

With --image, trace one image to its registry and stop at the first step that
fails. The steps are the reference, the matching providers, the credentials
(plugins are run), the runtime's mirror hosts and, for each host, the
DNS lookup, connection, TLS handshake, auth challenge, token request and
manifest request, trying each credential in turn.
The runtime's proxies and CA certificates are used. Nothing is pulled.

With --kube, also check the cluster: whether the API server responds, which
identity it sees, and whether this identity can read the objects that a pull
needs and request tokens for the configured audiences. With --pod, request the
pod's tokens in dry-run mode. With both --pod and --image, look up the image for
this pod.

The exit code is 0 if no check fails, and 1 otherwise.`,
		Example: `  sudo regcred doctor --as-kubelet
  sudo regcred doctor --as-kubelet --kube --pod team/app-1
  sudo regcred doctor --as-kubelet --image registry.example/team/app:1.2 --pod team/app-1
  regcred doctor --config providers.yaml --bin-dir /opt/plugins -o json`,
		Args: atMost(),
	}
	d.output = addOutputFlag(cmd, "text", "json")
	f := cmd.Flags()
	f.BoolVar(&d.kube, "kube", false, "check the cluster too")
	f.Var(&d.pod, "pod", "also check the cluster for this pod, and request tokens for the pod as a dry run")
	addRuleFlags(cmd, &d.rules)
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
	r := &doctor.Report{Checks: []doctor.Check{}, Rules: d.rules}
	n := a.node().Read()
	o, err := a.resolveOrNone(ctx, n, true)
	if e, ok := errors.AsType[*node.Error](err); ok && e.Usage {
		return err
	}
	k := a.doctorKubelet(ctx, n, o)
	if err != nil {
		r.Fail("config", err, "")
	}
	r.Node(ctx, k)
	valid, cfg := k.Config, cmp.Or(k.Config, &config.Config{})
	r.Kubelet(ctx, k)
	r.Mirrors(findRuntime(ctx, n, o), cfg)
	r.Installed(ctx, k)
	if ctx.Err() != nil {
		return context.Cause(ctx) // perhaps no kubelet has answered: what was cut short says nothing
	}
	if d.kube || d.pod.given() || d.kubeFlags != (kubeFlags{}) {
		a.doctorCluster(ctx, r, o, cfg, d)
	}
	if d.image != "" {
		a.doctorImage(ctx, r, n, o, valid, d)
	}
	r.Healthy = r.Count()[doctor.Fail] == 0 && ctx.Err() == nil
	if err := a.print(d.output, r, func(t *terminal.Text) { renderDoctor(t, r) }); err != nil || r.Healthy {
		return err
	}
	return cmp.Or(ctx.Err(), exit(exitFailed))
}

// doctorKubelet is the kubelet of this node. What is no node's machine is not asked.
func (a *app) doctorKubelet(ctx context.Context, n *node.Reading, o *node.Origin) *doctor.Kubelet {
	k := &doctor.Kubelet{Node: n, Origin: o}
	if o == nil && a.asKubelet == "" {
		k.Caller = &node.Origin{Environ: a.environ, Dir: a.dir, RootDir: cmp.Or(a.rootDir, node.DefaultRootDir)}
	}
	setup, err := k.Node.Setup(ctx)
	if err != nil {
		return k // no system of nodes, or interrupted
	}
	k.Setup = setup
	if k.Node.IsHost() {
		k.Service = new(kubeletService(setup))
	}
	return k
}

// doctorCluster checks the cluster, also where origin and configuration are
// missing. In place of a kubelet that is not found it asks as nobody else: what
// another identity may do is no answer to --as-kubelet.
func (a *app) doctorCluster(ctx context.Context, r *doctor.Report, o *node.Origin, cfg *config.Config, d *doctorFlags) {
	if o == nil && a.asKubelet != "" && d.kubeconfig == "" {
		r.Add("api-server", doctor.Skip, "use the kubelet's own --kubeconfig, for example /etc/kubernetes/kubelet.conf", "not checked, because the current identity is not that of a kubelet")
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
