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
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/kube"
)

// kubeFlags say which API server is asked, and as whom.
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

// given names the flags that were given.
func (k *kubeFlags) given() []string {
	return whichGiven(given{"kubeconfig", k.kubeconfig}, given{"context", k.context}, given{"ca-file", string(k.caFile)})
}

// cluster is an API server, and how it was found.
type cluster struct {
	*kube.Client
	from string // where its address and our identity are from
}

// connect makes a client of the API server that the flags name, or that o has
// from a running kubelet. It does not call it. wrap, if not nil, sees each call.
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

// config is the configuration of a client, and where it was found.
func (k *kubeFlags) config(ctx context.Context, o *node.Origin) (*rest.Config, string, error) {
	opts := kube.ConfigOptions{Kubeconfig: k.kubeconfig, Context: k.context, Environ: o.Environ}
	if k.kubeconfig == "" && o.OfKubelet() {
		if opts.Kubeconfig = o.Kubeconfig; opts.Kubeconfig == "" {
			return nil, "", withHint(fmt.Errorf("%s runs without --%s, so it does not connect to an API server", o.Whose(), node.KubeconfigFlag), "give --kubeconfig")
		}
	}
	if opts.Kubeconfig != "" { // client-go would wait for the writer of a named pipe, past any signal
		if f, err := regularfile.Open(opts.Kubeconfig); err == nil {
			f.Close()
		} else if _, ok := errors.AsType[*regularfile.NotRegularError](err); ok {
			return nil, "", fmt.Errorf("--kubeconfig: %w", err)
		}
	}
	cfg, from, err := kube.Config(opts)
	if err != nil {
		hint := ""
		if opts.Kubeconfig == "" {
			hint = "set --kubeconfig, or use --as-kubelet for the running kubelet's kubeconfig"
		}
		return nil, "", withHint(err, hint)
	}
	authorities, err := k.caFile.pem(ctx)
	if err == nil {
		err = kube.AddAuthorities(ctx, cfg, authorities)
	}
	if err != nil {
		return nil, "", err
	}
	return cfg, from, nil
}

// fleet makes a client that looks at the nodes of the cluster that the flags name, and
// says in which namespace its configuration is. It does not call the API server.
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
	return client, kube.Namespace(kube.ConfigOptions{Kubeconfig: k.kubeconfig, Context: k.context, Environ: a.environ}), nil
}
