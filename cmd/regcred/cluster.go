// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/regcred/regcred/internal/fleet"
	"github.com/regcred/regcred/internal/kubeconfig"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/kube"
)

// kubeFlags holds the flags that select the API server and the identity to use.
type kubeFlags struct {
	kubeconfig, context string
	caFile              caFile
}

func (k *kubeFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&k.kubeconfig, "kubeconfig", "",
		"kubeconfig `file` for the API server (default: with --as-kubelet, the kubelet's kubeconfig; otherwise KUBECONFIG, the pod's service account, or ~/.kube/config)")
	f.StringVar(&k.context, "context", "", "`name` of the kubeconfig context to use")
	f.StringVar((*string)(&k.caFile), "ca-file", "", "PEM `file` of CA certificates to trust in addition to those in the kubeconfig")
	assignFlagGroup(cmd, flagGroupCluster, "kubeconfig", "context", "ca-file")
}

// changedFlags returns the names of the flags that are set.
func (k *kubeFlags) changedFlags() []string {
	return changedFlagNames(flagValue{"kubeconfig", k.kubeconfig}, flagValue{"context", k.context}, flagValue{"ca-file", string(k.caFile)})
}

// cluster holds a client for an API server and the source of its configuration.
type cluster struct {
	*kube.Client
	configSource string // where the address and the identity were found
}

// connectKube returns a client for the API server that the flags select. If no kubeconfig is set and o
// describes a kubelet, it uses the kubelet's kubeconfig. connect sends no requests. If wrap is not
// nil, it wraps the transport.
func (a *app) connectKube(ctx context.Context, o *node.Origin, k kubeFlags, wrap func(http.RoundTripper) http.RoundTripper) (*cluster, error) {
	cfg, from, err := k.clientConfig(ctx, o)
	if err != nil {
		return nil, err
	}
	cfg.Wrap(wrap)
	c := &cluster{configSource: from}
	if c.Client, err = kube.New(cfg, kube.Options{Logger: a.newLogger()}); err != nil {
		return nil, err
	}
	if k.kubeconfig == "" || a.verbose || cfg.Insecure {
		a.Note("contacting API server %s (%s)", c.URL(), c.configSource)
	}
	return c, nil
}

// clientConfig returns a client configuration and a description of where it was found.
func (k *kubeFlags) clientConfig(ctx context.Context, o *node.Origin) (*rest.Config, string, error) {
	opts := kubeconfig.Options{Kubeconfig: k.kubeconfig, Context: k.context, Environ: o.Environ}
	if k.kubeconfig == "" && o.HasKubeletEnvironment() {
		if opts.Kubeconfig = o.Kubeconfig; opts.Kubeconfig == "" {
			return nil, "", withHint(fmt.Errorf("%s runs without --%s, so it does not connect to an API server", o.KubeletName(), node.KubeconfigFlag), "give --kubeconfig")
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
	authorities, err := k.caFile.readPEM(ctx)
	if err == nil {
		err = kubeconfig.AddCAs(ctx, cfg, authorities)
	}
	if err != nil {
		return nil, "", err
	}
	return cfg, from, nil
}

// newFleetClient returns a client for the cluster that the flags select, and the namespace of the
// kubeconfig context. It sends no requests.
func (a *app) newFleetClient(ctx context.Context, k kubeFlags) (client *fleet.Client, namespace string, err error) {
	cfg, from, err := k.clientConfig(ctx, &node.Origin{Environ: a.environ})
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

// caFile is the path of a PEM file with additional CA certificates to trust.
type caFile string

// maxCAFileSize limits the size of a CA file, in bytes. The complete CA bundle of an operating
// system is about a quarter of this size.
const maxCAFileSize = 1 << 20

// readPEM returns the certificates in the file as PEM, without other blocks and text. It returns
// nil if no file is set.
func (f caFile) readPEM(ctx context.Context) ([]byte, error) {
	if f == "" {
		return nil, nil
	}
	data, err := regularfile.Read(ctx, string(f), maxCAFileSize)
	if err != nil {
		return nil, fmt.Errorf("--ca-file: %w", err)
	}
	var text []byte
	number := 0
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		number++
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return nil, fmt.Errorf("--ca-file: %s: certificate %d: %w", f, number, err)
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
	}
	if number == 0 {
		return nil, fmt.Errorf("--ca-file: %s contains no PEM certificate", f)
	}
	return text, nil
}

// registryTransport returns an HTTP transport that trusts the system's CAs and, if a file is set,
// those in the file.
func (f caFile) registryTransport(ctx context.Context) (http.RoundTripper, error) {
	authorities, err := f.readPEM(ctx)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.OnProxyConnectResponse = remote.OnProxyConnectResponse
	if err != nil || authorities == nil {
		return transport, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("--ca-file: load the system's certificates: %w", err)
	}
	roots.AppendCertsFromPEM(authorities)
	transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	return transport, nil
}
