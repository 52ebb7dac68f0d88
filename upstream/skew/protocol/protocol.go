// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package protocol is what upstream/skew and its oracles say to each other.
package protocol

import "encoding/json"

// Question is a case of one kind of package vector.
type Question struct {
	Kind string          `json:"kind"`
	Case json.RawMessage `json:"case,omitempty"`
	// TokensOff turns the feature gate of service-account tokens off.
	TokensOff bool `json:"tokensOff,omitempty"`
}

// Kinds without a case.
const (
	Gates = "gates" // answered by a list of Gate
	About = "about" // answered by a Build
)

// Answer is a vector, or why there is none.
type Answer struct {
	Vector json.RawMessage `json:"vector,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// Build is how an oracle is built.
type Build struct {
	Kubelet string `json:"kubelet"`
	Go      string `json:"go"`
	GODEBUG string `json:"godebug,omitempty"` // what differs from that Go's defaults
}

// Gate is a feature gate. Off and On are what the kubelet says when it is set
// so, and then does not start; "" is nothing.
type Gate struct {
	Name    string `json:"name"`
	Default bool   `json:"default"`
	Locked  bool   `json:"locked,omitempty"`
	Stage   string `json:"stage,omitempty"`
	Gone    bool   `json:"gone,omitempty"`
	Off     string `json:"off,omitempty"`
	On      string `json:"on,omitempty"`
}

// Fixed reports whether a kubelet does not start with the gate set away from its default.
func (g Gate) Fixed() bool { return g.Gone || g.Locked }

// Tokens is the feature gate of service-account tokens.
const Tokens = "KubeletServiceAccountTokenForCredentialProviders"

// Known are gates that are reported even of kubelets that do not have them.
var Known = []string{
	"DisableKubeletCloudCredentialProviders",
	"KubeletCredentialProviders",
	"KubeletEnsureSecretPulledImages",
	Tokens,
}
