// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"errors"
	"fmt"
	"os"

	"github.com/regcred/regcred/internal/registry"
)

// Name is the plugin's name, as an executable and in a CredentialProviderConfig.
const Name = "acr-credential-provider"

// InPod returns a provider for a program in a pod. It uses the identity that the Azure Workload
// Identity webhook configures in the environment. Without this configuration, it uses the node's
// managed identity with the client ID in AZURE_CLIENT_ID, or the system-assigned identity. If the
// configured identity fails, the request fails. InPod returns an error for an incomplete
// configuration. Options.ConfigFile must be empty.
func InPod(opts Options) (*Provider, error) {
	if opts.ConfigFile != "" {
		return nil, errors.New("InPod reads the identity from the environment; leave ConfigFile empty, or call New instead of InPod")
	}
	if opts.Getenv == nil {
		opts.Getenv = os.Getenv
	}
	var err error
	if opts.pod, err = readPodIdentity(opts.Getenv); err != nil {
		return nil, err
	}
	return New(opts)
}

func readPodIdentity(getenv func(string) string) (*podIdentity, error) {
	pod := &podIdentity{authority: getenv(envAuthority)}
	cfg := &pod.config
	cfg.ClientID, cfg.TenantID, cfg.FederatedTokenFile = getenv(envClientID), getenv(envTenantID), getenv(envTokenFile)
	switch {
	case cfg.FederatedTokenFile != "":
		cfg.UseFederatedIdentity = true
		for _, v := range []struct{ name, value, annotation string }{{envClientID, cfg.ClientID, "client-id"}, {envTenantID, cfg.TenantID, "tenant-id"}} {
			if v.value == "" {
				return nil, fmt.Errorf("%s is set but %s is not; annotate the service account with azure.workload.identity/%s, and recreate the pod",
					envTokenFile, v.name, v.annotation)
			}
		}
		return pod, nil
	case getenv("AZURE_CLIENT_SECRET") != "", getenv("AZURE_CLIENT_CERTIFICATE_PATH") != "":
		return nil, errors.New("AZURE_CLIENT_SECRET and AZURE_CLIENT_CERTIFICATE_PATH are not supported in a pod, and there is no fallback to the node's identity; " +
			"use workload identity, or set the credential in a file such as azure.json and call New")
	}
	cfg.UseManagedIdentity, cfg.UserAssignedIdentityID = true, cfg.ClientID
	return pod, nil
}

// Name returns [Name].
func (p *Provider) Name() string { return Name }

// MatchImages returns patterns for matchImages: the registries of the public
// clouds, Options.AllowHosts, and the sources of the mirrors. Custom clouds need
// Options.AllowHosts.
func (p *Provider) MatchImages() []string {
	list := append(registry.CloudOfPlugin(Name).Hosts, p.rules.allowed...)
	return append(list, p.mirrors.Sources()...)
}
