// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package route says which hosts a container runtime asks for an image, in
// which order, and which of them is shown the credential that a kubelet found
// for it. Packages containerd and registriesconf read it from the runtimes'
// files; what they have in common is here.
package route

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/regcred/regcred/finding"
)

// Route is the way of one image through a runtime.
type Route struct {
	Runtime    string            `json:"runtime"`           // "containerd", "CRI-O", "podman"
	Version    string            `json:"version,omitempty"` // of the runtime, for which this holds; "" for every one
	Repository string            `json:"repository"`        // of the image, normalised as the kubelet does
	Files      []string          `json:"files"`             // that say so, in the order in which they were read
	Hops       []Hop             `json:"hops"`              // in the order in which they are asked
	Fails      string            `json:"fails,omitempty"`   // why nobody is asked, and every pull of the image fails; "" if somebody is
	Findings   []finding.Finding `json:"findings,omitempty"`
}

// Shown says whether a host that wants a login is shown the kubelet's credential.
type Shown string

// What a host is shown.
const (
	ShownKubelets Shown = "kubelet" // the credential that the kubelet found for the image
	ShownOwn      Shown = "own"     // one of the runtime's own files, under the host's name
	ShownHeader   Shown = "header"  // an Authorization of the hosts file, and the kubelet's after a 401
	ShownNone     Shown = "none"
)

// Hop is one host on the way.
type Hop struct {
	Base       *url.URL `json:"-"`                 // below which "NAME/manifests/TAG" is: https://mirror.example/v2/
	URL        string   `json:"url"`               // Base, as it may be shown: without user and query
	Repository string   `json:"repository"`        // below Base
	Origin     bool     `json:"origin"`            // the host that the image names
	Shown      Shown    `json:"shown"`             // also where a host is skipped, if it is asked for layers
	Skipped    string   `json:"skipped,omitempty"` // why it is not asked which image a tag or digest is: "it resolves no tags"; "" if it is asked
	Silent     bool     `json:"silent,omitempty"`  // skipped, and asked for nothing else either
	File       string   `json:"file,omitempty"`    // that names it; "" if none does
	Line       int      `json:"line,omitempty"`
	OwnFile    string   `json:"ownFile,omitempty"` // of the runtime, which has a login for the host; "" if none does

	CA         []string    `json:"ca,omitempty"`         // files, beside the system's
	Client     [][2]string `json:"client,omitempty"`     // certificate and key, files
	SkipVerify bool        `json:"skipVerify,omitempty"` // any certificate will do
	HTTPToo    bool        `json:"httpToo,omitempty"`    // https is tried first, and plain http after it, whatever Base says
	Headers    []string    `json:"headers,omitempty"`    // names of those that a file adds; their values may be secret
}

// NewHop is a host with a path below which its repositories are.
func NewHop(scheme, host, below, repository string) Hop {
	base := &url.URL{Scheme: scheme, Host: host, Path: strings.TrimSuffix(path.Join("/", below), "/") + "/"}
	shown := base.String()
	if strings.Contains(base.Path, "@") {
		shown = scheme + "://" + host + "/" + Masked(base.Path)
	}
	return Hop{Base: base, URL: shown, Repository: repository, Shown: ShownKubelets}
}

// Masked is an address, or a part of one, as it may be shown: what stands before an @
// may be a password.
func Masked(address string) string {
	if at := strings.LastIndexByte(address, '@'); at >= 0 {
		return "…" + address[at:]
	}
	return address
}

// Anonymous are findings for an image that no credential is found for: the hosts that
// are asked for it in the place of its own, which are shown nothing either.
func (r *Route) Anonymous() (found []finding.Finding) {
	host, _, _ := strings.Cut(r.Repository, "/")
	for i := range r.Hops {
		h := &r.Hops[i]
		if h.Origin || h.Silent || h.Shown != ShownKubelets || h.File == "" {
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
