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

// Name is the plugin's name, as an executable and in a CredentialProviderConfig.
const Name = "ecr-credential-provider"

// InPod returns a provider for a program in a pod. It uses the identity of the pod's service
// account (IRSA), of EKS Pod Identity, or of another source configured for the AWS SDK. If there is
// no such source, it uses the node's identity. If the configured identity fails, the request fails.
//
// InPod returns an error for an incomplete configuration, because the SDK would ignore it and use
// the node's identity. Options.Getenv is used only for this check. The SDK reads the process's
// environment for each request.
func InPod(opts Options) (*Provider, error) {
	if opts.Getenv == nil {
		opts.Getenv = os.Getenv
	}
	if err := checkVariables(opts.Getenv); err != nil {
		return nil, err
	}
	opts.inPod = true
	return New(opts)
}

// checkVariables returns an error if a variable is set without another variable that it needs. It
// stops at the source that the SDK would use. Keys take precedence over a token file, and a token
// file over the container endpoint.
func checkVariables(getenv func(string) string) error {
	isSet := func(name string) bool { return getenv(name) != "" }
	key, secret := []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY"}, []string{"AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY"}
	role, file := []string{"AWS_ROLE_ARN"}, []string{"AWS_WEB_IDENTITY_TOKEN_FILE"}
	const keys = "set both keys or neither"
	const irsa = "annotate the service account with eks.amazonaws.com/role-arn, so that EKS sets both variables, or unset this variable"
	for _, v := range []struct {
		names, needs []string // one name of each list is enough
		fix          string
		last         bool // the SDK uses this source
	}{
		{secret, key, keys, false},
		{key, secret, keys, true},
		{role, file, irsa, false},
		{file, role, irsa, true},
		{[]string{tokenFileEnv, "AWS_CONTAINER_AUTHORIZATION_TOKEN"}, []string{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"},
			"EKS Pod Identity sets both variables; recreate the association and then the pod, or unset this variable", true},
	} {
		i := slices.IndexFunc(v.names, isSet)
		switch {
		case i < 0:
		case !slices.ContainsFunc(v.needs, isSet):
			return fmt.Errorf("%s is set but %s is not; %s", v.names[i], strings.Join(v.needs, " or "), v.fix)
		case v.last:
			return nil
		}
	}
	return nil
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
