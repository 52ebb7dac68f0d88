// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/regcred/regcred/internal/registry"
)

// Name is that of the plugin, and so of the provider in a configuration.
const Name = "acr-credential-provider"

// InPod is [New] for a program in a pod, which pulls as the pod: with the
// identity that the webhook of Azure Workload Identity names in the
// environment, or only if it names none with a managed identity of the node,
// that of AZURE_CLIENT_ID or the system-assigned one. One that is named and
// fails is a failure, and one that is named in part is an error here. There is
// no azure.json: Options.ConfigFile must be empty.
//
// getenv is that of Options.Getenv. The names are looked at here alone, and the
// file of the token at each question.
func InPod(opts Options, getenv func(string) string) (*Provider, error) {
	if opts.ConfigFile != "" {
		return nil, errors.New("InPod reads the identity from the environment; leave ConfigFile empty, or call New instead of InPod")
	}
	pod, err := readPod(getenv)
	if err != nil {
		return nil, err
	}
	opts.pod, opts.Getenv = pod, getenv
	return New(opts)
}

func readPod(getenv func(string) string) (*podIdentity, error) {
	pod := &podIdentity{authority: getenv(envAuthority)}
	cfg := &pod.config
	cfg.ClientID, cfg.TenantID, cfg.FederatedTokenFile = getenv(envClientID), getenv(envTenantID), getenv(envTokenFile)
	switch {
	case cfg.FederatedTokenFile != "":
		cfg.UseFederatedIdentity = true
		return pod, cmp.Or(missing(envClientID, cfg.ClientID, "client-id"), missing(envTenantID, cfg.TenantID, "tenant-id"))
	case getenv("AZURE_CLIENT_SECRET") != "", getenv("AZURE_CLIENT_CERTIFICATE_PATH") != "":
		return nil, errors.New("AZURE_CLIENT_SECRET and AZURE_CLIENT_CERTIFICATE_PATH are not supported in a pod, and there is no fallback to the node's identity; " +
			"use workload identity, or set the credential in a file such as azure.json and call New")
	}
	cfg.UseManagedIdentity, cfg.UserAssignedIdentityID = true, cfg.ClientID
	return pod, nil
}

// missing is the error of a variable that is not set beside that of the token.
func missing(name, value, annotation string) error {
	if value != "" {
		return nil
	}
	return fmt.Errorf("%s is set but %s is not; annotate the service account with azure.workload.identity/%s, and recreate the pod",
		envTokenFile, name, annotation)
}

// Name is [Name].
func (p *Provider) Name() string { return Name }

// MatchImages are patterns for the images that the provider serves, in the
// syntax of matchImages: the registries of the public clouds, the hosts of
// Options.AllowHosts, and the sources of its mirrors. The suffix of a cloud of
// its own is not known here.
func (p *Provider) MatchImages() []string {
	list := append(registry.PluginCloud(Name).Hosts, p.rules.allowed...)
	return append(list, p.mirrors.Sources()...)
}
