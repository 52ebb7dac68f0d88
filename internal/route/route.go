// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package route describes which hosts a container runtime queries for an image, in
// which order, and which of them receive the kubelet's credential. Packages containerd
// and registriesconf read routes from the runtimes' files.
package route

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/regcred/regcred/finding"
)

// Route lists the hosts that a runtime queries for an image.
type Route struct {
	Runtime       string            `json:"runtime"`           // "containerd", "CRI-O", "podman"
	Version       string            `json:"version,omitempty"` // the runtime's version; "" if it does not matter
	Repository    string            `json:"repository"`        // normalized as in the kubelet
	Files         []string          `json:"files"`             // configuration files, in the order in which they were read
	Hops          []Hop             `json:"hops"`              // in the order in which they are queried
	FailureReason string            `json:"fails,omitempty"`   // why every pull of the image fails, or ""
	Findings      []finding.Finding `json:"findings,omitempty"`
}

// CredentialSource describes which credential a host receives if it requires authentication.
type CredentialSource string

// The credentials that a host can receive.
const (
	CredentialKubelet CredentialSource = "kubelet" // the credential that the kubelet found for the image
	CredentialRuntime CredentialSource = "own"     // a credential from the runtime's own files, found by host name
	CredentialHeader  CredentialSource = "header"  // an Authorization header from the hosts file; after a 401, the kubelet's credential
	CredentialNone    CredentialSource = "none"
)

// Hop is one host of a route.
type Hop struct {
	Base             *url.URL         `json:"-"`                 // prefix of NAME/manifests/TAG: https://mirror.example/v2/
	URL              string           `json:"url"`               // Base without user info and query
	Repository       string           `json:"repository"`        // below Base
	IsOrigin         bool             `json:"origin"`            // the image's own host
	Credential       CredentialSource `json:"shown"`             // the credential that the host receives; set even if the host is queried only for layers
	Skipped          string           `json:"skipped,omitempty"` // why the host is not queried for the manifest, or ""
	SkippedForLayers bool             `json:"silent,omitempty"`  // the host is skipped for layers too
	File             string           `json:"file,omitempty"`    // file that configures the host, or ""
	Line             int              `json:"line,omitempty"`
	CredentialFile   string           `json:"ownFile,omitempty"` // the runtime's file with a credential for the host, or ""
	CredentialLine   int              `json:"ownLine,omitempty"` // 0 if unknown

	CA                 []string    `json:"ca,omitempty"`         // CA files, in addition to the system's CAs
	ClientCertificates [][2]string `json:"client,omitempty"`     // certificate and key files
	SkipVerify         bool        `json:"skipVerify,omitempty"` // certificates are not verified
	TriesHTTPSFirst    bool        `json:"httpToo,omitempty"`    // HTTPS is tried before plain HTTP, regardless of Base's scheme
	Headers            []string    `json:"headers,omitempty"`    // names of additional headers, whose values may be secret
}

// NewHop returns a hop for a repository under a path on a host.
func NewHop(scheme, host, below, repository string) Hop {
	base := &url.URL{Scheme: scheme, Host: host, Path: strings.TrimSuffix(path.Join("/", below), "/") + "/"}
	shown := base.String()
	if strings.Contains(base.Path, "@") {
		shown = scheme + "://" + host + "/" + RedactAddress(base.Path)
	}
	return Hop{Base: base, URL: shown, Repository: repository, Credential: CredentialKubelet}
}

// RedactAddress returns an address without the part before an @, because it may be a password.
func RedactAddress(address string) string {
	if at := strings.LastIndexByte(address, '@'); at >= 0 {
		return "…" + address[at:]
	}
	return address
}

// CredentialIf returns which credential the host receives if the kubelet sends a credential,
// or if it sends none. The runtime's own credential for the image's host, and containerd's for
// any host, counts only if the kubelet sends none.
func (h *Hop) CredentialIf(kubeletSends bool) CredentialSource {
	switch {
	case kubeletSends || h.Credential != CredentialKubelet:
		return h.Credential
	case h.CredentialFile != "":
		return CredentialRuntime
	}
	return CredentialNone
}

// CredentialPlace returns the file and line of the runtime's own credential for the host.
func (h *Hop) CredentialPlace() string {
	if h.CredentialLine == 0 {
		return h.CredentialFile
	}
	return fmt.Sprintf("%s:%d", h.CredentialFile, h.CredentialLine)
}

// UsesOwnCredential reports whether a host receives a credential from the runtime's files if the
// kubelet sends none.
func (r *Route) UsesOwnCredential() bool {
	return slices.ContainsFunc(r.Hops, func(h Hop) bool {
		c := h.CredentialIf(false)
		return !h.SkippedForLayers && (c == CredentialRuntime || c == CredentialHeader)
	})
}

// OwnCredentials lists the hosts that receive a credential from the runtime's files if the kubelet
// sends none, and where these credentials are.
func (r *Route) OwnCredentials() string {
	var list []string
	for i := range r.Hops {
		h := &r.Hops[i]
		text := ""
		switch c := h.CredentialIf(false); {
		case h.SkippedForLayers:
		case c == CredentialRuntime:
			text = h.Base.Host + " (" + h.CredentialPlace() + ")"
		case c == CredentialHeader:
			text = fmt.Sprintf("%s (%s:%d)", h.Base.Host, h.File, max(h.Line, 1))
		}
		if text != "" && !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return strings.Join(list, ", ")
}

// AnonymousFindings returns a finding for each mirror that is queried without a credential.
// It is for an image without a matching credential.
func (r *Route) AnonymousFindings() (found []finding.Finding) {
	host, _, _ := strings.Cut(r.Repository, "/")
	for i := range r.Hops {
		h := &r.Hops[i]
		if h.IsOrigin || h.SkippedForLayers || h.Credential != CredentialKubelet || h.CredentialFile != "" || h.File == "" {
			continue
		}
		found = append(found, finding.Finding{
			Rule: "mirror-anonymous", Severity: finding.SeverityInfo, File: h.File, Line: h.Line,
			Message: fmt.Sprintf("%s is queried without a credential: no credential matches %s. A credential for %s itself is not used, because the kubelet looks up credentials by the image's own host",
				h.Base.Host, host, h.Base.Host),
			Fix: fmt.Sprintf("if the mirror requires a credential, add one under the key %s to a pull secret or the node's docker config, or use a provider that returns it for %s (see --mirror in docs/plugins/README.md)", host, host),
		})
	}
	return found
}
