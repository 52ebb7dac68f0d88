// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe

import (
	"cmp"
	"time"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/node"
)

// Prober queries hosts for one image. It is safe for concurrent use as long as its
// fields are not changed.
type Prober struct {
	Image    Image
	Runtime  Runtime
	Platform string // such as "linux/amd64"; "" means any

	// StepTimeout limits each connection, handshake and response; 0 means 5 seconds.
	StepTimeout time.Duration
}

// Image is the image to request.
type Image struct {
	Host   string // the reference's host and port; sent to mirrors as ns
	Tag    string
	Digest string // used instead of the tag
}

func (i Image) tagOrDigest() string { return cmp.Or(i.Digest, i.Tag, "latest") }

// Runtime holds the settings of the container runtime that would send the requests.
type Runtime struct {
	Name    string    // name for messages, such as "containerd" or "CRI-O"
	Source  string    // the process that Environ belongs to, such as "containerd, process 812"
	Environ []string  // sets proxies and trusted CAs
	Started time.Time // when its process started and read the trusted CAs; zero if unknown

	CallerEnviron []string // this process's environment, for hints about variables that the runtime lacks
}

func (r *Runtime) getenv(name string) string { return node.Getenv(r.Environ, name) }

// The names of the steps, in order.
const (
	StepDNS       = "dns"
	StepProxy     = "proxy"
	StepTCP       = "tcp"
	StepTLS       = "tls"
	StepChallenge = "challenge"
	StepToken     = "registry-token"
	StepManifest  = "manifest"
)

// Result is the result of querying a host.
type Result struct {
	Steps []finding.Finding `json:"-"` // in order; Rule is the name of the step

	URL          string        `json:"url"`
	Addresses    []string      `json:"addresses,omitempty"`    // addresses of the host or the proxy
	Proxy        string        `json:"proxy,omitempty"`        // host:port; "" means none
	Certificates []Certificate `json:"certificates,omitempty"` // certificates the server sent, its own first
	Challenge    *Challenge    `json:"challenge,omitempty"`    // nil if no credential is required
	Status       int           `json:"status,omitempty"`       // status of the last manifest response
	Accepted     int           `json:"-"`                      // index of the accepted credential; -1 means none
	CanPull      bool          `json:"pulls"`                  // the manifest can be read, with Accepted or anonymously
	Untested     string        `json:"untested,omitempty"`     // the credential that only the runtime sends, so that the result is unknown
	Digest       string        `json:"digest,omitempty"`       // manifest digest reported by the host
	MediaType    string        `json:"mediaType,omitempty"`    // media type reported by the host
	Platforms    []string      `json:"platforms,omitempty"`    // platforms in an index
}

// Certificate describes a server certificate.
type Certificate struct {
	Subject   string    `json:"subject"`
	Issuer    string    `json:"issuer"`
	Names     []string  `json:"names,omitempty"`
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
}

// Challenge is a registry's request for authentication.
type Challenge struct {
	Scheme  string `json:"scheme"` // "Bearer" or "Basic"
	Realm   string `json:"realm,omitempty"`
	Service string `json:"service,omitempty"`
	Scope   string `json:"scope,omitempty"`
}

// FailedStep returns the last step that failed, or nil if no step failed.
func (r *Result) FailedStep() *finding.Finding {
	for i := len(r.Steps) - 1; i >= 0; i-- {
		if r.Steps[i].Severity == finding.SeverityError {
			return &r.Steps[i]
		}
	}
	return nil
}

// checkRegistryLogFix is the fix for a registry that responds incorrectly.
const checkRegistryLogFix = "check the registry's log: it accepts connections but does not respond correctly"
