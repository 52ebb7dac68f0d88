// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command regcred-controller keeps image pull secrets fresh with credential provider plugins, for
// clusters whose nodes cannot be changed. See docs/pull-secrets.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/pullsecret/controller"
	"github.com/regcred/regcred/internal/pullsecret/pluginhost"
)

// version is set by the linker in release builds: -ldflags "-X main.version=v1.2.3".
var version = "devel"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

const usage = `Keep image pull secrets fresh with credential provider plugins.

Usage:
  regcred-controller --config PATH --pull-secrets PATH (--bin-dir DIR | --plugin-socket PATH)
  regcred-controller plugins --config PATH --bin-dir DIR --plugin-socket PATH

The first form is the controller. The second form runs the plugins for it, in a
container without the controller's API token.

Flags:
`

type options struct {
	controller.Options
	kubeconfig, socket string
	qps                float32
}

// run is main without global state.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := pflag.NewFlagSet("regcred-controller", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.SortFlags = false
	flags.StringVar(&o.Providers, "config", "", "`path` of the CredentialProviderConfig, a file or a directory")
	flags.StringVar(&o.PullSecrets, "pull-secrets", "", "`path` of the PullSecretConfig")
	flags.StringVar(&o.BinDir, "bin-dir", "", "`directory` of the plugins")
	flags.StringVar(&o.socket, "plugin-socket", "", "`path` of the socket to the container that runs the plugins")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "`path` of a kubeconfig (default: the pod's service account)")
	flags.StringVar(&o.LeaderElectionNamespace, "leader-election-namespace", "", "`namespace` of the Lease; empty disables leader election")
	flags.StringVar(&o.MetricsAddress, "metrics-address", "0", "`address` of the metrics, such as :9477; 0 disables them")
	flags.StringVar(&o.HealthAddress, "health-address", "", "`address` of /healthz and /readyz; empty disables them")
	flags.DurationVar(&o.ReloadInterval, "reload-interval", 0, "how often the configuration files are read (default 10s)")
	flags.Float32Var(&o.qps, "kube-api-qps", 50, "maximum number of API requests per second")
	help := flags.BoolP("help", "h", false, "print this help")
	showVersion := flags.Bool("version", false, "print the version")
	if err := flags.Parse(args); err != nil {
		return usageError(stderr, err)
	}
	switch {
	case *help:
		fmt.Fprint(stdout, usage+flags.FlagUsages())
		return 0
	case *showVersion:
		fmt.Fprintln(stdout, "regcred-controller "+version)
		return 0
	}
	o.Logger = slog.New(slog.NewJSONHandler(stderr, nil))
	f := o.runController
	if flags.NArg() == 1 && flags.Arg(0) == "plugins" {
		f = o.runPlugins
	} else if flags.NArg() > 0 {
		return usageError(stderr, fmt.Errorf("unexpected argument %q", flags.Arg(0)))
	}
	err := f(ctx)
	if _, ok := errors.AsType[missingFlagError](err); ok {
		return usageError(stderr, err)
	}
	if err != nil {
		fmt.Fprintf(stderr, "error: %v\n", err)
		return 1
	}
	return 0
}

func usageError(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "error: %v\nhint: regcred-controller --help\n", err)
	return 2
}

type missingFlagError struct{ text string }

func (e missingFlagError) Error() string { return e.text }

func (o *options) runController(ctx context.Context) error {
	switch {
	case o.Providers == "":
		return missingFlagError{"--config is required"}
	case o.PullSecrets == "":
		return missingFlagError{"--pull-secrets is required"}
	case (o.BinDir == "") == (o.socket == ""):
		return missingFlagError{"one of --bin-dir and --plugin-socket is required"}
	}
	cfg, err := o.restConfig()
	if err != nil {
		return err
	}
	cfg.QPS, cfg.Burst = o.qps, max(int(2*o.qps), 1)
	cfg.UserAgent = "regcred-controller/" + version
	if o.socket != "" {
		o.Plugin = pluginhost.Client{Socket: o.socket}.Provider
		o.BinDir = ""
	}
	return controller.Run(ctx, cfg, o.Options)
}

func (o *options) restConfig() (*rest.Config, error) {
	if o.kubeconfig != "" {
		return clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	}
	return rest.InClusterConfig()
}

func (o *options) runPlugins(ctx context.Context) error {
	if o.Providers == "" || o.BinDir == "" || o.socket == "" {
		return missingFlagError{"--config, --bin-dir and --plugin-socket are required"}
	}
	load := func() (*config.Config, error) {
		c, err := config.Load(o.Providers)
		if err == nil {
			err = c.Validate()
		}
		return c, err
	}
	if _, err := load(); err != nil {
		return err
	}
	return pluginhost.Serve(ctx, o.socket, load, o.BinDir)
}
