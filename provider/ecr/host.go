// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/internal/registry"
)

// publicRegion is the region of ECR Public's only API.
const publicRegion = "us-east-1"

// registryHost describes a registry based on its host name.
type registryHost struct {
	registry  string // from the image, including the port; used as the response's key
	account   string // "" if unknown
	region    string // "" if unknown
	public    bool
	fips      bool
	dualStack bool
}

// parseHost parses the host name of an ECR registry. It ignores case and the port. ok
// is false for other hosts.
func parseHost(name string) (h registryHost, ok bool) {
	h = registryHost{registry: name}
	name = hostWithoutPort(name)
	switch name {
	case "public.ecr.aws":
		h.public = true
		return h, true
	case "ecr-public.aws.com":
		h.public, h.dualStack = true, true
		return h, true
	}
	account, rest, _ := strings.Cut(name, ".")
	if !isAccountID(account) {
		return registryHost{}, false
	}
	rest, dotted := strings.CutPrefix(rest, "dkr.ecr")
	if !dotted {
		if rest, ok = strings.CutPrefix(rest, "dkr-ecr"); !ok {
			return registryHost{}, false
		}
	}
	rest, h.fips = strings.CutPrefix(rest, "-fips")
	rest, ok = strings.CutPrefix(rest, ".")
	region, suffix, _ := strings.Cut(rest, ".")
	isBucket := strings.HasPrefix(region, "s3") // 111122223333.dkr.ecr can be the name of a bucket
	if !ok || isBucket || !isRegion(region) || !slices.Contains(strings.Fields(registry.AmazonDomains), suffix) {
		return registryHost{}, false
	}
	h.account, h.region, h.dualStack = account, region, strings.HasPrefix(suffix, "on.")
	return h, true
}

// isRegion reports whether s has the form of a region name. s must be in lower case.
func isRegion(s string) bool {
	return s != "" && strings.Trim(s[:1], "-_") != "" &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// hostWithoutPort returns a host in lower case without its port.
func hostWithoutPort(host string) string {
	name, _, _ := strings.Cut(strings.ToLower(host), ":")
	return name
}

// allowedHost is an entry of Options.AllowHosts.
type allowedHost struct {
	pattern string
	region  string // "" means the node's region
}

// parseAllowedHost parses HOST[=REGION].
func parseAllowedHost(s string) (allowedHost, error) {
	pattern, region, hasRegion := strings.Cut(strings.ToLower(s), "=")
	if hasRegion && !isRegion(region) {
		return allowedHost{}, fmt.Errorf("%q is not a region name", region)
	}
	return allowedHost{pattern, region}, hostpattern.Validate(pattern)
}

// findHost returns the registry for a host. ok is false if the host is not served.
func findHost(name string, more []allowedHost) (h registryHost, ok bool) {
	if h, ok = parseHost(name); ok {
		return h, true
	}
	for _, a := range more {
		if hostpattern.MatchAny([]string{a.pattern}, name) {
			return registryHost{registry: name, region: a.region}, true
		}
	}
	return registryHost{}, false
}
