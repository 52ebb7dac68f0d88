// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package route

import (
	"fmt"
	"slices"
	"strings"
)

// String describes the route in one sentence: "containerd tries mirror.example, then
// docker.io itself; a host that requires authentication gets the credential for
// docker.io/library/nginx".
func (r *Route) String() string {
	if r.FailureReason != "" {
		return fmt.Sprintf("%s cannot pull %s: %s", r.Runtime, r.Repository, r.FailureReason)
	}
	var asked []Hop
	for _, h := range r.Hops {
		if !h.SkippedForLayers {
			asked = append(asked, h)
		}
	}
	text := r.Runtime
	for i, h := range asked {
		switch {
		case i == 0:
			text += " tries "
		default:
			text += ", then "
		}
		text += h.displayName(r)
	}
	if len(asked) == 0 {
		return fmt.Sprintf("%s has no host to pull %s from", r.Runtime, r.Repository)
	}
	return text + "; " + r.describeCredentials(asked)
}

// displayName returns the host's name for messages. If the host uses another repository
// name than the image, the result contains that name.
func (h *Hop) displayName(r *Route) string {
	host, path, _ := strings.Cut(r.Repository, "/")
	name := strings.TrimSuffix(strings.TrimSuffix(h.URL, "/"), "/v2")
	if h.TriesHTTPSFirst { // both schemes are tried
		name = strings.TrimPrefix(name, "http://")
	}
	if h.TriesHTTPSFirst || h.Base != nil && h.Base.Scheme == "https" {
		name = strings.TrimPrefix(name, "https://")
	}
	switch {
	case h.IsOrigin && name == host:
		name += " itself"
	case h.IsOrigin:
		name = host + " itself (" + name + ")"
	}
	if path != "" && h.Repository != path {
		name += " (for " + h.Repository + ")"
	}
	if h.Skipped != "" {
		name += " (" + h.Skipped + ")"
	}
	return name
}

// describeCredentials describes which credential each host gets.
func (r *Route) describeCredentials(asked []Hop) string {
	by := map[CredentialSource][]string{}
	for _, h := range asked {
		h.Skipped = ""
		by[h.Credential] = append(by[h.Credential], h.displayName(r))
	}
	what := "the credential for " + r.Repository
	if len(by) == 1 && by[CredentialKubelet] != nil {
		return "a host that requires authentication gets " + what
	}
	var parts []string
	for _, s := range []struct {
		CredentialSource
		text string
	}{
		{CredentialKubelet, what}, {CredentialHeader, "the Authorization header from its hosts.toml, then " + what},
		{CredentialRuntime, "a credential from the runtime's own files"}, {CredentialNone, "no credential"},
	} {
		if names := by[s.CredentialSource]; names != nil {
			names = slices.Compact(names)
			gets := "gets"
			if len(names) > 1 {
				gets = "get"
			}
			parts = append(parts, strings.Join(names, " and ")+" "+gets+" "+s.text)
		}
	}
	return strings.Join(parts, "; ")
}
