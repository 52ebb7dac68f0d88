// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import "github.com/regcred/regcred/internal/registry"

// InPod returns a provider for a program in a pod. It uses the workload identity
// federation configured by GOOGLE_APPLICATION_CREDENTIALS. Without this variable it
// queries the metadata server, which returns the pod's identity on GKE with workload
// identity and the node's identity elsewhere. It also calls [Options.ReadEnviron].
func InPod(opts Options) (*Provider, error) {
	if file := opts.getenv(EnvCredentials); file != "" {
		opts.CredentialsFile = file
	}
	if err := opts.ReadEnviron(); err != nil {
		return nil, err
	}
	p, err := New(opts)
	if err != nil {
		return nil, err
	}
	p.pod = true
	return p, nil
}

// Name returns [Name].
func (p *Provider) Name() string { return Name }

// MatchImages returns patterns for matchImages: Google's registries,
// Options.AllowHosts, and the sources of Options.Mirrors.
func (p *Provider) MatchImages() []string {
	list := append(registry.CloudOfPlugin(Name).Hosts, p.opts.AllowHosts...)
	return append(list, p.mirrors.Sources()...)
}
