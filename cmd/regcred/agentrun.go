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

// agentFlags holds the flags of "regcred agent run".
type agentFlags struct {
	agent.Options
	owner       objectNameFlag
	hostWorkDir string
	listen      string
}

func (a *app) agentRunCmd() *cobra.Command {
	r := &agentFlags{listen: ":9476"}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Install the chart's configuration on this pod's node and keep it installed",
		Long: `Keep regcred installed on this pod's node. Stopping the process changes nothing
on the node. The pod itself does not change the node: it asks the node's systemd
to run "regcred install", "status" and "uninstall" on the node. Every
--interval, the agent checks whether the node still matches what was installed,
and reinstalls regcred if it does not. If the --state file contains "absent",
the agent uninstalls regcred.

This pod does not retry an installation or uninstallation that restarted the
kubelet and was rolled back, even if the pod's container restarts. Other
failures are retried with increasing delays. The node's state is printed to
stdout as a line of JSON, for "regcred agent ready", and exported as metrics.`,
		Example: `  regcred agent run --node $NODE --owner regcred/regcred --revision regcred-1a2b \
    --host-work /var/lib/kubelet/pods/$POD_UID/volumes/kubernetes.io~empty-dir/work --restart`,
		Args: requireArgs(),
	}
	r.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := r.validateAndComplete(); err != nil {
			return err
		}
		return a.agentRun(cmd.Context(), r)
	}
	return cmd
}

func (r *agentFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.Node, "node", "", "`name` of the node")
	f.Var(&r.owner, "owner", "the chart's `NAMESPACE/RELEASE`; installations by other releases are not changed")
	f.StringVar(&r.Revision, "revision", "", "`name` of the ConfigMap with the configuration")
	f.StringVar(&r.Config, "config", "/config", "`path` of the configuration")
	f.StringVar(&r.StateFile, "state", "/state/state", "`file` that contains present or absent; nothing is changed while the file contains anything else")
	f.StringVar(&r.Plugins, "plugins", "/plugins", "`directory` with plugins from other images; it is searched before --image-plugins")
	f.StringVar(&r.ImagePlugins, "image-plugins", "/plugins", "`directory` that contains this image's plugins")
	f.StringVar(&r.WorkDir, "work", defaultAgentWorkDir, "`directory` where the node's --host-work directory is mounted; its content survives container restarts")
	f.StringVar(&r.hostWorkDir, "host-work", "", "`path` of the --work directory on the node")
	i := &r.Install
	f.BoolVar(&i.DryRun, "dry-run", false, "show what would change without changing anything")
	f.BoolVar(&i.Restart, "restart", false, "allow a kubelet restart if one is needed; running containers are not affected")
	f.StringVar(&i.Probe, "probe", "", "`image` to pull after each change; if the pull fails, the change is rolled back")
	f.StringArrayVar(&i.Reserve, "reserve", nil, "additional `pattern` to include in the kubelet's provider entries; may be repeated")
	f.BoolVar(&i.AnyImage, "any-image", false, "make the kubelet's provider entries match every image")
	f.DurationVar(&i.MaxStale, "max-stale", generation.DefaultMaxStaleness, "maximum `time` that the kubelet may cache a response")
	f.IntVar(&i.Keep, "keep", 5, "`number` of generations to keep")
	f.StringVar(&i.StateDir, "state-dir", generation.DefaultDir, "`directory` on the node where generations are stored")
	f.BoolVar(&i.Reapplied, "reapplied", false, "install even if the node's operating system reverts the change at boot; the agent reapplies the change each time")
	f.DurationVar(&i.Timeout, "timeout", 4*time.Minute, "maximum `time` for a restarted kubelet to become healthy before the change is rolled back")
	f.DurationVar(&r.Interval, "interval", time.Minute, "`time` between checks of the node")
	// f.Func is used instead of f.StringVar, because rejectEmptyFlags would reject an empty
	// --listen.
	f.Func("listen", "`address` of /metrics and /healthz (default \""+r.listen+"\"); \"\" for none", func(v string) error { r.listen = v; return nil })
}

// validateAndComplete validates the flags and fills in the options that have no flag.
func (r *agentFlags) validateAndComplete() (err error) {
	for _, f := range []flagValue{{"node", r.Node}, {"owner", r.owner.String()}, {"revision", r.Revision}, {"host-work", r.hostWorkDir}} {
		if f.value == "" {
			return usageError("", "--%s is missing", f.flag)
		}
	}
	switch i := r.Install; {
	case !path.IsAbs(r.hostWorkDir):
		return usageError("", "--host-work is %q; it must be an absolute path on the node", r.hostWorkDir)
	case !path.IsAbs(i.StateDir):
		return usageError("", "--state-dir is %q; it must be an absolute path on the node", i.StateDir)
	case r.Interval < time.Second:
		return usageError("", "--interval is %v; it must be at least 1s", r.Interval)
	case i.Keep < 1:
		return usageError("", "--keep is %d; it must be 1 or more", i.Keep)
	case i.MaxStale <= 0 || i.Timeout <= 0:
		return usageError("", "--max-stale is %v and --timeout is %v; both must be greater than 0", i.MaxStale, i.Timeout)
	}
	r.Owner = r.owner.String()
	if r.WorkDir, err = filepath.Abs(r.WorkDir); err != nil {
		return err
	}
	if r.RegcredPath, err = os.Executable(); err != nil {
		return err
	}
	if r.DispatcherPath = nextToProgram(generation.DispatcherName); r.DispatcherPath == "" {
		return usageError("use the chart's image, which contains regcred and this executable", "there is no %s next to regcred", generation.DispatcherName)
	}
	return nil
}

func (a *app) agentRun(ctx context.Context, r *agentFlags) error {
	worker := &agent.Agent{
		Options:     r.Options,
		Host:        agent.NewSystemdHost(hostrun.Runner{Unit: agent.UnitName}, r.Options, r.hostWorkDir, a.Stderr),
		PrintStatus: a.WriteRaw,
		Log:         func(text string) { a.Note("%s", text) },
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
