// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import "github.com/regcred/regcred/internal/registry"

// InPod is [New] for a program in a pod, which pulls as the pod: by the
// workload identity federation that GOOGLE_APPLICATION_CREDENTIALS describes,
// or else as the metadata server says. On GKE with workload identity that is
// the pod's own, and elsewhere the node. If the variable is set, the metadata
// server is never asked.
//
// Beside that one, the variables of [Options.ReadEnviron] count. getenv is
// looked at here alone, and the file at each question.
func InPod(opts Options, getenv func(string) string) (*Provider, error) {
	if file := getenv(EnvCredentials); file != "" {
		opts.CredentialsFile = file
	}
	if err := opts.ReadEnviron(getenv); err != nil {
		return nil, err
	}
	p, err := New(opts)
	if err != nil {
		return nil, err
	}
	p.pod = true
	return p, nil
}

// Name is [Name].
func (p *Provider) Name() string { return Name }

// MatchImages are patterns for the images that the provider serves, in the
// syntax of matchImages: Google's registries, Options.AllowHosts and the
// sources of Options.Mirrors. What Options.AnyHost lets in is not among them.
func (p *Provider) MatchImages() []string {
	list := append(registry.PluginCloud(Name).Hosts, p.opts.AllowHosts...)
	return append(list, p.mirrors.Sources()...)
}
