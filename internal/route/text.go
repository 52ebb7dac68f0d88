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
// docker.io/library/nginx". The kubelet may or may not have a credential.
func (r *Route) String() string { return r.describe("") }

// Describe is like String, for an image for which the kubelet sends a credential or none.
func (r *Route) Describe(kubeletSends bool) string {
	if kubeletSends {
		return r.describe(CredentialKubelet)
	}
	return r.describe(CredentialNone)
}

// describe describes the route. kubelet is what the kubelet sends, or "" if that is unknown.
func (r *Route) describe(kubelet CredentialSource) string {
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
	text += "; " + r.describeCredentials(asked, kubelet)
	if kubelet == CredentialKubelet {
		text += r.unusedCredentials(asked)
	}
	return text
}

// unusedCredentials lists the runtime's own credentials that are not used, because the kubelet sends
// one.
func (r *Route) unusedCredentials(asked []Hop) string {
	var list []string
	for i := range asked {
		h := &asked[i]
		name := fmt.Sprintf("%s (%s)", h.Base.Host, h.CredentialPlace())
		if h.Credential == CredentialKubelet && h.CredentialFile != "" && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	if list == nil {
		return ""
	}
	return fmt.Sprintf("; %s's own credential for %s is not used", r.Runtime, strings.Join(list, ", "))
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
func (r *Route) describeCredentials(asked []Hop, kubelet CredentialSource) string {
	what := "the credential for " + r.Repository
	var texts []string
	names := map[string][]string{}
	for _, h := range asked {
		h.Skipped = ""
		text := r.credentialText(&h, kubelet, what)
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
		if name := h.displayName(r); !slices.Contains(names[text], name) {
			names[text] = append(names[text], name)
		}
	}
	slices.SortStableFunc(texts, func(a, b string) int { return r.rank(a, what) - r.rank(b, what) })
	prefix := ""
	if kubelet == CredentialNone {
		prefix = "the kubelet sends no credential: "
	}
	switch {
	case len(texts) == 1 && texts[0] == what:
		return "a host that requires authentication gets " + what
	case len(texts) == 1 && texts[0] == noCredential:
		return prefix + "no host gets a credential"
	}
	var parts []string
	for _, text := range texts {
		gets := "gets"
		if len(names[text]) > 1 {
			gets = "get"
		}
		parts = append(parts, strings.Join(names[text], " and ")+" "+gets+" "+text)
	}
	return prefix + strings.Join(parts, "; ")
}

const noCredential = "no credential"

// rank orders the texts of credentials: the kubelet's first, none last.
func (r *Route) rank(text, kubelets string) int {
	switch text {
	case kubelets:
		return 0
	case noCredential:
		return 2
	}
	return 1
}

// credentialText describes the credential that a host gets. The parameter what names the kubelet's
// credential.
func (r *Route) credentialText(h *Hop, kubelet CredentialSource, what string) string {
	own := r.Runtime + "'s own credential (" + h.CredentialPlace() + ")"
	if h.CredentialFile == "" {
		own = "a credential from the runtime's own files"
	}
	switch h.CredentialIf(kubelet != CredentialNone) {
	case CredentialHeader:
		text := "the Authorization header from its hosts.toml"
		if kubelet == CredentialNone {
			return text
		}
		return text + ", then " + what
	case CredentialRuntime:
		return own
	case CredentialNone:
		return noCredential
	}
	if h.CredentialFile != "" && kubelet == "" {
		return what + " or, without one, " + own
	}
	return what
}
