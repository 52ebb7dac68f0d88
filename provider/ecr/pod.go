// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/registry"
)

// Name is that of the plugin, and so of the provider in a configuration.
const Name = "ecr-credential-provider"

// InPod is [New] for a program in a pod, which pulls as the pod: with the role
// of its service account (IRSA) or of EKS Pod Identity, or whatever else the
// AWS SDK is told, and as the node only if it is told nothing. One that is
// told and fails is a failure. What is told in part is an error here, since
// the SDK would pass over it to the node.
//
// The SDK reads the environment of the process at each question; getenv is
// looked at here alone, and is [os.Getenv] but in tests.
func InPod(opts Options, getenv func(string) string) (*Provider, error) {
	for _, pair := range halves(getenv) {
		if pair.has != "" && pair.lacks != "" {
			return nil, fmt.Errorf("%s is set but %s is not; %s", pair.has, pair.lacks, pair.cure)
		}
	}
	opts.pod = true
	return New(opts)
}

// half is a variable that is set, and the one that is missing beside it.
type half struct{ has, lacks, cure string }

// halves are the identities of which a part is set. Only the first that the
// SDK would take counts: keys come before a token in a file, that before the
// endpoint of containers.
func halves(getenv func(string) string) []half {
	set := func(names ...string) string {
		i := slices.IndexFunc(names, func(name string) bool { return getenv(name) != "" })
		if i < 0 {
			return ""
		}
		return names[i]
	}
	lacks := func(names ...string) string {
		if set(names...) != "" {
			return ""
		}
		return strings.Join(names, " or ")
	}
	key, secret := []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY"}, []string{"AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY"}
	const keys = "set both keys or neither"
	list := []half{
		{set(key...), lacks(secret...), keys},
		{set(secret...), lacks(key...), keys},
	}
	if set(key...) != "" {
		return list
	}
	const irsa = "annotate the service account with eks.amazonaws.com/role-arn, so that EKS sets both variables, or unset this variable"
	role, file := "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"
	list = append(list, half{set(role), lacks(file), irsa}, half{set(file), lacks(role), irsa})
	if set(file) != "" {
		return list
	}
	return append(list, half{
		set(tokenFile, "AWS_CONTAINER_AUTHORIZATION_TOKEN"),
		lacks("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
		"EKS Pod Identity sets both variables; recreate the association and then the pod, or unset this variable",
	})
}

// Name is [Name].
func (p *Provider) Name() string { return Name }

// MatchImages are patterns for the images that the provider serves, in the
// syntax of matchImages: the private registries in all partitions, the hosts
// of Options.AllowHosts, and the sources of Options.Mirrors. ECR Public is not
// among them, as on the nodes of EKS: its images can be had without a
// credential, which few identities may have. Nor is what Options.AnyHost lets in.
func (p *Provider) MatchImages() []string {
	list := slices.DeleteFunc(slices.Clone(registry.PluginCloud(Name).Hosts), func(pattern string) bool {
		h, own := parseHost(pattern)
		return own && h.public
	})
	for _, a := range p.allowed {
		list = append(list, a.pattern)
	}
	return append(list, p.mirrors.Sources()...)
}
