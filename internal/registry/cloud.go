// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/plugin"
)

// Cloud is a cloud whose registries have a credential provider plugin.
type Cloud struct {
	Name  string   // Amazon, Google or Azure
	Owner string   // name for error messages, such as "Amazon ECR"
	Hosts []string // patterns of its registry hosts; * matches within one label
}

// Names of clouds.
const (
	Amazon = "ecr"
	Google = "gcr"
	Azure  = "acr"
)

// AmazonDomains lists the domains of private ECR registries in all partitions.
// AzureDomains lists the domains of ACR in the public clouds.
const (
	AmazonDomains = `amazonaws.com amazonaws.com.cn amazonaws.eu on.aws on.amazonwebservices.com.cn
		sc2s.sgov.gov c2s.ic.gov cloud.adc-e.uk csp.hci.ic.gov`
	AzureDomains = "azurecr.io azurecr.cn azurecr.de azurecr.us"
)

// MicrosoftHost is the host of Microsoft's public registry. It is not an ACR registry, but AKS maps
// it to a mirror in clusters without internet access.
const MicrosoftHost = "mcr.microsoft.com"

// CloudOfPlugin returns the cloud for a plugin name, or nil. The name may have a suffix such as -2.
// The kubelet requires distinct names, even if two providers are the same plugin.
func CloudOfPlugin(provider string) *Cloud {
	provider = strings.TrimSuffix(provider, ".exe")
	is := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			rest, ok := strings.CutPrefix(provider, name)
			return ok && (rest == "" || strings.ContainsAny(rest[:1], "-_.0123456789"))
		})
	}
	switch {
	case is("ecr-credential-provider"):
		c := &Cloud{Amazon, "Amazon ECR", []string{"public.ecr.aws", "ecr-public.aws.com"}}
		for suffix := range strings.FieldsSeq(AmazonDomains) {
			for _, service := range []string{"dkr.ecr", "dkr-ecr", "dkr.ecr-fips", "dkr-ecr-fips"} {
				c.Hosts = append(c.Hosts, "*."+service+".*."+suffix)
			}
		}
		return c
	case is("auth-provider-gcp", "gcr-credential-provider", "gcp-credential-provider"):
		// The last patterns match Artifact Registry's regional endpoints, which
		// docker-credential-gcr and gcloud list one by one.
		return &Cloud{Google, "Google", []string{"container.cloud.google.com", "gcr.io", "*.gcr.io", "*.pkg.dev", "docker.*.rep.pkg.dev"}}
	case is("acr-credential-provider", "azure-acr-credential-provider"):
		c := &Cloud{Azure, "Azure", nil}
		for suffix := range strings.FieldsSeq(AzureDomains) {
			c.Hosts = append(c.Hosts, "*."+suffix, "*.*.geo."+suffix)
		}
		return c
	}
	return nil
}

// PatternScope classifies the hosts that a pattern matches.
type PatternScope int

const (
	ScopeOwn     PatternScope = iota // all hosts belong to the cloud
	ScopeForeign                     // no host belongs to the cloud, and all have the same owner
	ScopeMixed                       // some hosts may belong to the cloud, or the owner is unknown
)

// ClassifyPattern classifies the hosts that a matchImages pattern matches. Hosts that match a
// pattern in more are treated as the cloud's own hosts.
func (c *Cloud) ClassifyPattern(pattern string, more ...string) PatternScope {
	host := PatternHost(pattern)
	if host == "" || hostpattern.ValidateForm(host) != nil {
		return ScopeMixed
	}
	reach := ScopeForeign
	for _, own := range slices.Concat(c.Hosts, more) {
		switch name, port, _ := strings.Cut(host, ":"); {
		case coversHosts(own, host), port == "443" && coversHosts(own, name):
			return ScopeOwn
		case hostsOverlap(own, host):
			reach = ScopeMixed
		}
	}
	return reach
}

// PatternHost returns the host and port of a pattern in lower case. It returns "" if the pattern is
// invalid.
func PatternHost(pattern string) string {
	at, err := location.Parse(pattern)
	if err != nil {
		return ""
	}
	host := strings.ToLower(at.Host)
	switch {
	case at.Port == "":
		return host
	case strings.Contains(host, ":"): // IPv6 address without brackets
		return "[" + host + "]:" + at.Port
	}
	return host + ":" + at.Port
}

// coversHosts reports whether host pattern a matches every host that b matches.
func coversHosts(a, b string) bool {
	return slices.EqualFunc(strings.Split(a, "."), strings.Split(b, "."), func(a, b string) bool { return a == b || a == "*" })
}

// hostsOverlap reports whether two host patterns may match the same host.
func hostsOverlap(a, b string) bool {
	return slices.EqualFunc(strings.Split(a, "."), strings.Split(b, "."), func(a, b string) bool {
		return a == b || a == "*" || strings.Contains(b, "*") && literalPrefixesAgree(a, b)
	})
}

// literalPrefixesAgree reports whether the parts of two labels before the first * can be equal.
func literalPrefixesAgree(a, b string) bool {
	a, _, _ = strings.Cut(a, "*")
	b, _, _ = strings.Cut(b, "*")
	n := min(len(a), len(b))
	return a[:n] == b[:n]
}

// OtherHosts specifies how a plugin responds for a host that it does not serve. It is
// the value of the flag --other-hosts; "" means [OtherHostsFail].
type OtherHosts string

// Values of --other-hosts.
const (
	OtherHostsFail  OtherHosts = "fail"  // return an error
	OtherHostsEmpty OtherHosts = "empty" // return no credential
)

// Response returns the response for an image on a host that the plugin does not serve. why and fix
// are parts of the error, as in "image host H is WHY, so it gets no credential; remove it from
// matchImages, FIX, or …".
func (o OtherHosts) Response(host, why, fix string) (*plugin.Response, error) {
	if o == OtherHostsEmpty {
		return &plugin.Response{CacheKeyType: plugin.CacheRegistry, CacheDuration: new(time.Duration(0))}, nil
	}
	return nil, fmt.Errorf("image host %q is %s, so it gets no credential; remove it from matchImages, %s, "+
		"or set --other-hosts=%s", host, why, fix, OtherHostsEmpty)
}

// Validate returns an error for unknown values.
func (o OtherHosts) Validate() error {
	if o == "" {
		return nil
	}
	if err := new(OtherHosts).UnmarshalText([]byte(o)); err != nil {
		return fmt.Errorf("--other-hosts %q: %w", string(o), err)
	}
	return nil
}

// MarshalText returns the value in the flag's format.
func (o OtherHosts) MarshalText() ([]byte, error) { return []byte(o), nil }

// UnmarshalText sets the value. It rejects values that are not constants of this type.
func (o *OtherHosts) UnmarshalText(text []byte) error {
	switch v := OtherHosts(text); v {
	case OtherHostsFail, OtherHostsEmpty:
		*o = v
		return nil
	}
	return fmt.Errorf("must be %s or %s", OtherHostsFail, OtherHostsEmpty)
}
