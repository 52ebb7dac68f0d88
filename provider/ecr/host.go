// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/internal/hostpattern/public"
	"github.com/regcred/regcred/internal/registry"
)

// publicRegion is the region of ECR Public's only API.
const publicRegion = "us-east-1"

// host describes a registry based on its host name.
type host struct {
	registry  string // from the image, including the port; used as the response's key
	account   string // "" if unknown
	region    string // "" if unknown
	public    bool
	fips      bool
	dualStack bool
}

// parseHost parses the host name of an ECR registry. It ignores case and the port. ok
// is false for other hosts.
func parseHost(name string) (h host, ok bool) {
	h = host{registry: name}
	name = hostname(name)
	switch name {
	case "public.ecr.aws":
		h.public = true
		return h, true
	case "ecr-public.aws.com":
		h.public, h.dualStack = true, true
		return h, true
	}
	account, rest, _ := strings.Cut(name, ".")
	if !isAccount(account) {
		return host{}, false
	}
	rest, dotted := strings.CutPrefix(rest, "dkr.ecr")
	if !dotted {
		if rest, ok = strings.CutPrefix(rest, "dkr-ecr"); !ok {
			return host{}, false
		}
	}
	rest, h.fips = strings.CutPrefix(rest, "-fips")
	rest, ok = strings.CutPrefix(rest, ".")
	region, suffix, _ := strings.Cut(rest, ".")
	if !ok || !isRegion(region) || !slices.Contains(strings.Fields(registry.AmazonDomains), suffix) {
		return host{}, false
	}
	h.account, h.region, h.dualStack = account, region, strings.HasPrefix(suffix, "on.")
	return h, true
}

// isRegion reports whether lower-case s has the form of a region name.
func isRegion(s string) bool {
	return s != "" && strings.Trim(s[:1], "-_") != "" &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// hostname returns a host in lower case without its port.
func hostname(host string) string {
	name, _, _ := strings.Cut(strings.ToLower(host), ":")
	return name
}

// allowed is an entry of Options.AllowHosts.
type allowed struct {
	pattern string
	region  string // "" means the node's region
}

// parseAllowed parses HOST[=REGION].
func parseAllowed(s string) (allowed, error) {
	pattern, region, hasRegion := strings.Cut(strings.ToLower(s), "=")
	if hasRegion && !isRegion(region) {
		return allowed{}, fmt.Errorf("%q is not a region name", region)
	}
	return allowed{pattern, region}, public.Validate(pattern)
}

// find returns the registry for a host. ok is false if the host is not served.
func find(name string, more []allowed) (h host, ok bool) {
	if h, ok = parseHost(name); ok {
		return h, true
	}
	for _, a := range more {
		if hostpattern.MatchAny([]string{a.pattern}, name) {
			return host{registry: name, region: a.region}, true
		}
	}
	return host{}, false
}
