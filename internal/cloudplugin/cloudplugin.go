// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package cloudplugin knows the clouds' plugins as a configuration shows them:
// by name, with the registries that are their cloud's own. It links none of
// them; they, linked into a program, are for these registries too.
package cloudplugin

import (
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/match"
)

// Plugin is a plugin for the registries of one cloud.
type Plugin struct {
	Cloud string   // one of the constants below
	Owner string   // whose registries these are: "Amazon ECR"
	Hosts []string // patterns of them, where * stands for text within one label
}

// The clouds.
const (
	Amazon = "ecr"
	Google = "gcr"
	Azure  = "acr"
)

// AmazonDomains are what names of ECR's private registries end in, in all
// partitions, and AzureDomains those of ACR in the public clouds.
const (
	AmazonDomains = `amazonaws.com amazonaws.com.cn amazonaws.eu on.aws on.amazonwebservices.com.cn
		sc2s.sgov.gov c2s.ic.gov cloud.adc-e.uk csp.hci.ic.gov`
	AzureDomains = "azurecr.io azurecr.cn azurecr.de azurecr.us"
)

// Named returns the plugin that a provider's name stands for, or nil. A name
// may go on after the plugin's own, as those of links do that make two entries
// of one file.
func Named(provider string) *Plugin {
	provider = strings.TrimSuffix(provider, ".exe")
	is := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			rest, ok := strings.CutPrefix(provider, name)
			return ok && (rest == "" || strings.ContainsAny(rest[:1], "-_.0123456789"))
		})
	}
	switch {
	case is("ecr-credential-provider"):
		p := &Plugin{Amazon, "Amazon ECR", []string{"public.ecr.aws", "ecr-public.aws.com"}}
		for suffix := range strings.FieldsSeq(AmazonDomains) {
			for _, service := range []string{"dkr.ecr", "dkr-ecr", "dkr.ecr-fips", "dkr-ecr-fips"} {
				p.Hosts = append(p.Hosts, "*."+service+".*."+suffix)
			}
		}
		return p
	case is("auth-provider-gcp", "gcr-credential-provider", "gcp-credential-provider"):
		// The last are Artifact Registry's regional endpoints, which
		// docker-credential-gcr and gcloud list one by one.
		return &Plugin{Google, "Google", []string{"container.cloud.google.com", "gcr.io", "*.gcr.io", "*.pkg.dev", "docker.*.rep.pkg.dev"}}
	case is("acr-credential-provider", "azure-acr-credential-provider"):
		p := &Plugin{Azure, "Azure", nil}
		for suffix := range strings.FieldsSeq(AzureDomains) {
			p.Hosts = append(p.Hosts, "*."+suffix, "*.*.geo."+suffix)
		}
		return p
	}
	return nil
}

// Reach is how the hosts of a pattern stand to a plugin's own.
type Reach int

const (
	Own     Reach = iota // all are
	Foreign              // none is, and they have an owner
	Wide                 // some may be, or they are anybody's
)

// Reach says which hosts a pattern of matchImages reaches; more are patterns
// of hosts that are served beside the plugin's own.
func (p *Plugin) Reach(pattern string, more ...string) Reach {
	host := Host(pattern)
	if host == "" || hostpattern.Check(host) != nil {
		return Wide
	}
	reach := Foreign
	for _, own := range slices.Concat(p.Hosts, more) {
		switch name, port, _ := strings.Cut(host, ":"); {
		case meets(own, host, true), port == "443" && meets(own, name, true):
			return Own
		case meets(own, host, false):
			reach = Wide
		}
	}
	return reach
}

// Host is the host of a pattern, with its port, in lower case; "" if it has none.
func Host(pattern string) string {
	at, err := match.ParseLocation(pattern)
	if err != nil {
		return ""
	}
	host := strings.ToLower(at.Host)
	switch {
	case at.Port == "":
		return host
	case strings.Contains(host, ":"): // an address, whose brackets are gone
		return "[" + host + "]:" + at.Port
	}
	return host + ":" + at.Port
}

// meets compares two patterns of hosts label by label: whether a covers all
// that b matches or, if that is not asked for, may share a host with it.
func meets(a, b string, all bool) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	if len(as) != len(bs) {
		return false
	}
	for i := range as {
		if as[i] != bs[i] && as[i] != "*" && (all || !strings.Contains(bs[i], "*") || !startAlike(as[i], bs[i])) {
			return false
		}
	}
	return true
}

// startAlike compares what two labels have before their stars.
func startAlike(a, b string) bool {
	a, _, _ = strings.Cut(a, "*")
	b, _, _ = strings.Cut(b, "*")
	n := min(len(a), len(b))
	return a[:n] == b[:n]
}
