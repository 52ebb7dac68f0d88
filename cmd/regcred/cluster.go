// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/regcred/regcred/internal/fleet"
	"github.com/regcred/regcred/internal/kubeconfig"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/kube"
)

// kubeFlags select the API server and the identity to use.
type kubeFlags struct {
	kubeconfig, context string
	caFile              caFile
}

func (k *kubeFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&k.kubeconfig, "kubeconfig", "",
		"kubeconfig `file` for the API server (default: with --as-kubelet, the kubelet's kubeconfig; otherwise KUBECONFIG, the pod's service account, or ~/.kube/config)")
	f.StringVar(&k.context, "context", "", "`name` of the kubeconfig context to use")
	k.caFile.register(cmd)
	inGroup(cmd, groupCluster, "kubeconfig", "context", "ca-file")
}

// given returns the names of the flags that are set.
func (k *kubeFlags) given() []string {
	return whichGiven(given{"kubeconfig", k.kubeconfig}, given{"context", k.context}, given{"ca-file", string(k.caFile)})
}

// cluster is a client of an API server, and the origin of its configuration.
type cluster struct {
	*kube.Client
	from string // where the address and the identity were found
}

// connect returns a client for the API server that the flags select, or that o has from
// a running kubelet. It does not call the API server. If wrap is not nil, it wraps the
// transport.
func (a *app) connect(ctx context.Context, o *node.Origin, k kubeFlags, wrap func(http.RoundTripper) http.RoundTripper) (*cluster, error) {
	cfg, from, err := k.config(ctx, o)
	if err != nil {
		return nil, err
	}
	cfg.Wrap(wrap)
	c := &cluster{from: from}
	if c.Client, err = kube.New(cfg, kube.Options{Logger: a.logger()}); err != nil {
		return nil, err
	}
	if k.kubeconfig == "" || a.verbose || cfg.Insecure {
		a.Note("contacting API server %s (%s)", c.URL(), c.from)
	}
	return c, nil
}

// config returns a client configuration and the place where it was found.
func (k *kubeFlags) config(ctx context.Context, o *node.Origin) (*rest.Config, string, error) {
	opts := kubeconfig.Options{Kubeconfig: k.kubeconfig, Context: k.context, Environ: o.Environ}
	if k.kubeconfig == "" && o.OfKubelet() {
		if opts.Kubeconfig = o.Kubeconfig; opts.Kubeconfig == "" {
			return nil, "", withHint(fmt.Errorf("%s runs without --%s, so it does not connect to an API server", o.Whose(), node.KubeconfigFlag), "give --kubeconfig")
		}
	}
	if opts.Kubeconfig != "" { // client-go would block on a named pipe and ignore signals
		if f, err := regularfile.Open(opts.Kubeconfig); err == nil {
			f.Close()
		} else if _, ok := errors.AsType[*regularfile.NotRegularError](err); ok {
			return nil, "", fmt.Errorf("--kubeconfig: %w", err)
		}
	}
	cfg, from, err := kubeconfig.Load(opts)
	if err != nil {
		hint := ""
		if opts.Kubeconfig == "" {
			hint = "set --kubeconfig, or use --as-kubelet for the running kubelet's kubeconfig"
		}
		return nil, "", withHint(err, hint)
	}
	authorities, err := k.caFile.pem(ctx)
	if err == nil {
		err = kubeconfig.AddCAs(ctx, cfg, authorities)
	}
	if err != nil {
		return nil, "", err
	}
	return cfg, from, nil
}

// fleet returns a client for the nodes of the selected cluster, and the namespace of
// its configuration. It does not call the API server.
func (a *app) fleet(ctx context.Context, k kubeFlags) (client *fleet.Client, namespace string, err error) {
	cfg, from, err := k.config(ctx, &node.Origin{Environ: a.environ})
	if err != nil {
		return nil, "", err
	}
	if client, err = fleet.New(cfg); err != nil {
		return nil, "", err
	}
	if k.kubeconfig == "" || a.verbose || cfg.Insecure {
		a.Note("contacting API server %s (%s)", client.URL(), from)
	}
	return client, kubeconfig.Namespace(kubeconfig.Options{Kubeconfig: k.kubeconfig, Context: k.context, Environ: a.environ}), nil
}
