// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"net"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/regcred/regcred/internal/agent"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/hostrun"
)

// agentFlags are the flags of "regcred agent run".
type agentFlags struct {
	agent.Options
	owner    objectName
	hostWork string
	listen   string
}

func (a *app) agentRunCmd() *cobra.Command {
	r := &agentFlags{listen: ":9476"}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Install what the chart configures on this pod's node, and keep it installed",
		Long: `run works on the node of its pod until it is ended, which changes nothing there.
It changes nothing itself: it has the node's systemd run "regcred install",
"status" and "uninstall" on the node. It installs, looks every --interval if all
is as it was installed, and installs again where it is not. If the file of
--state says "absent", it takes everything off.

An install or uninstall that restarted the kubelet and went back is not tried
again by this pod, also if its container is started anew; what failed otherwise
is, ever more rarely. How the node stands it says as a line of JSON on standard
output, for "regcred agent ready", and as metrics.`,
		Example: `  regcred agent run --node $NODE --owner regcred/regcred --revision regcred-1a2b \
    --host-work /var/lib/kubelet/pods/$POD_UID/volumes/kubernetes.io~empty-dir/work --restart`,
		Args: exactly(),
	}
	r.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := r.complete(); err != nil {
			return err
		}
		return a.agentRun(cmd.Context(), r)
	}
	return cmd
}

func (r *agentFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.Node, "node", "", "`name` of the node")
	f.Var(&r.owner, "owner", "the chart's `NAMESPACE/RELEASE`: what another has installed is left alone")
	f.StringVar(&r.Revision, "revision", "", "`name` of the ConfigMap with the configuration")
	f.StringVar(&r.Config, "config", "/config", "`path` of the configuration")
	f.StringVar(&r.State, "state", "/state/state", "`file` that says present or absent; nothing is changed while it says neither")
	f.StringVar(&r.Plugins, "plugins", "/plugins", "`directory` with plugins of other images; what the configuration names is looked for there first")
	f.StringVar(&r.ImagePlugins, "image-plugins", "/plugins", "`directory` with the plugins of this image")
	f.StringVar(&r.Work, "work", agentWork, "`directory` that the node sees at --host-work, and that a restart of the container keeps")
	f.StringVar(&r.hostWork, "host-work", "", "`path` on the node of the directory --work")
	i := &r.Install
	f.BoolVar(&i.DryRun, "dry-run", false, "say what would change, and change nothing")
	f.BoolVar(&i.Restart, "restart", false, "the kubelet may be restarted, if it has to be; running containers go on")
	f.StringVar(&i.Probe, "probe", "", "`image` that is pulled after each change; if it cannot be, the node goes back")
	f.StringArrayVar(&i.Reserve, "reserve", nil, "`pattern` that the kubelet's entries have beside those of the providers; may be repeated")
	f.BoolVar(&i.AnyImage, "any-image", false, "the kubelet's entries have patterns for every image")
	f.DurationVar(&i.MaxStale, "max-stale", generation.DefaultMaxStale, "the longest `time` that a kubelet may keep an answer")
	f.IntVar(&i.Keep, "keep", 5, "`number` of generations that stay")
	f.StringVar(&i.StateDir, "state-dir", generation.DefaultDir, "`directory` on the node where the generations are")
	f.BoolVar(&i.Reapplied, "reapplied", false, "install although the node's system undoes it: this agent installs again")
	f.DurationVar(&i.Timeout, "timeout", 4*time.Minute, "the longest `time` until a restarted kubelet is healthy; after that the node goes back")
	f.DurationVar(&r.Interval, "interval", time.Minute, "`time` between two looks at the node")
	// Not a string: an empty one is a value.
	f.Func("listen", "`address` of /metrics and /healthz (default \""+r.listen+"\"); \"\" for none", func(v string) error { r.listen = v; return nil })
}

// complete checks flags, and fills in what is not one.
func (r *agentFlags) complete() (err error) {
	for _, f := range []given{{"node", r.Node}, {"owner", r.owner.String()}, {"revision", r.Revision}, {"host-work", r.hostWork}} {
		if f.value == "" {
			return usageError("", "--%s is missing", f.flag)
		}
	}
	switch i := r.Install; {
	case !path.IsAbs(r.hostWork):
		return usageError("", "--host-work %q: it is the node's, and so absolute", r.hostWork)
	case !path.IsAbs(i.StateDir):
		return usageError("", "--state-dir %q: it is the node's, and so absolute", i.StateDir)
	case r.Interval < time.Second:
		return usageError("", "--interval is %v; it must be a second or more", r.Interval)
	case i.Keep < 1:
		return usageError("", "--keep is %d; it must be 1 or more", i.Keep)
	case i.MaxStale <= 0 || i.Timeout <= 0:
		return usageError("", "--max-stale is %v and --timeout %v; they must be more than 0", i.MaxStale, i.Timeout)
	}
	r.Owner = r.owner.String()
	if r.Work, err = filepath.Abs(r.Work); err != nil {
		return err
	}
	if r.Executable, err = os.Executable(); err != nil {
		return err
	}
	if r.Dispatcher = besideUs(generation.Dispatcher); r.Dispatcher == "" {
		return usageError("the image of the chart has it", "there is no %s next to regcred", generation.Dispatcher)
	}
	return nil
}

func (a *app) agentRun(ctx context.Context, r *agentFlags) error {
	worker := &agent.Agent{
		Options: r.Options,
		Host:    agent.HostOf(hostrun.Runner{Unit: agent.UnitName}, r.Options, r.hostWork, a.Stderr),
		Print:   a.WriteRaw,
		Say:     func(text string) { a.Note("%s", text) },
	}
	if r.listen == "" {
		return worker.Run(ctx)
	}
	metrics, err := worker.Metrics(buildVersion())
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", r.listen)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return worker.Serve(ctx, listener, metrics) })
	group.Go(func() error { return worker.Run(ctx) })
	return group.Wait()
}
