// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/registry"
)

// Name is the name of the plugin, and of its provider entry in a configuration.
const Name = "ecr-credential-provider"

// InPod returns a provider for a program in a pod. It uses the identity of the pod's
// service account (IRSA), of EKS Pod Identity, or of another source configured for the
// AWS SDK. It uses the node's identity only if none exists of these. If the
// configured identity fails, the request fails. An incomplete configuration is an error
// here, because the SDK would ignore it and use the node's identity.
//
// The SDK reads the process's environment for each request. Options.Getenv is used only
// for this check.
func InPod(opts Options) (*Provider, error) {
	if opts.Getenv == nil {
		opts.Getenv = os.Getenv
	}
	for _, pair := range incompletePairs(opts.Getenv) {
		if pair.set != "" && pair.missing != "" {
			return nil, fmt.Errorf("%s is set but %s is not; %s", pair.set, pair.missing, pair.fix)
		}
	}
	opts.pod = true
	return New(opts)
}

// variablePair is a variable that is set and another variable that must be set with it.
type variablePair struct{ set, missing, fix string }

// incompletePairs returns variables that must be set together but are not. It stops at
// the source that the SDK would use: keys take precedence over a token file, and a
// token file over the container endpoint.
func incompletePairs(getenv func(string) string) []variablePair {
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
	list := []variablePair{
		{set(key...), lacks(secret...), keys},
		{set(secret...), lacks(key...), keys},
	}
	if set(key...) != "" {
		return list
	}
	const irsa = "annotate the service account with eks.amazonaws.com/role-arn, so that EKS sets both variables, or unset this variable"
	role, file := "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"
	list = append(list, variablePair{set(role), lacks(file), irsa}, variablePair{set(file), lacks(role), irsa})
	if set(file) != "" {
		return list
	}
	return append(list, variablePair{
		set(tokenFileEnv, "AWS_CONTAINER_AUTHORIZATION_TOKEN"),
		lacks("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
		"EKS Pod Identity sets both variables; recreate the association and then the pod, or unset this variable",
	})
}

// Name returns [Name].
func (p *Provider) Name() string { return Name }

// MatchImages returns patterns for matchImages: private ECR registries in all
// partitions, Options.AllowHosts, and the sources of Options.Mirrors. It excludes
// ECR Public, as EKS nodes do, because its images need no credential.
func (p *Provider) MatchImages() []string {
	list := slices.DeleteFunc(slices.Clone(registry.CloudOfPlugin(Name).Hosts), func(pattern string) bool {
		h, own := parseHost(pattern)
		return own && h.public
	})
	for _, a := range p.allowed {
		list = append(list, a.pattern)
	}
	return append(list, p.mirrors.Sources()...)
}
