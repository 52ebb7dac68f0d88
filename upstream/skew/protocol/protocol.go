// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package protocol defines the messages between upstream/skew and its oracles.
package protocol

import "encoding/json"

// Query is a case of one of package vector's kinds, or one of the queries below.
type Query struct {
	Kind string          `json:"kind"`
	Case json.RawMessage `json:"case,omitempty"`
	// TokensOff disables the feature gate for service account tokens.
	TokensOff bool `json:"tokensOff,omitempty"`
}

// Kinds of queries without a case.
const (
	GatesQuery = "gates" // the response is a list of Gate
	BuildQuery = "about" // the response is a Build
)

// Response is an oracle's vector or an error.
type Response struct {
	Vector json.RawMessage `json:"vector,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// Build describes how an oracle was built.
type Build struct {
	Kubelet string `json:"kubelet"`
	Go      string `json:"go"`
	GODEBUG string `json:"godebug,omitempty"` // differences from that Go version's defaults
}

// Gate is a feature gate. Off and On are the kubelet's errors when the gate is turned off or on; ""
// means that the kubelet starts.
type Gate struct {
	Name     string `json:"name"`
	Default  bool   `json:"default"`
	Locked   bool   `json:"locked,omitempty"`
	Stage    string `json:"stage,omitempty"`
	Gone     bool   `json:"gone,omitempty"`
	OffError string `json:"off,omitempty"`
	OnError  string `json:"on,omitempty"`
}

// IsLocked reports whether a kubelet fails to start if the gate is not at its default.
func (g Gate) IsLocked() bool { return g.Gone || g.Locked }

// TokenGateName is the feature gate for service account tokens.
const TokenGateName = "KubeletServiceAccountTokenForCredentialProviders"

// AlwaysReported lists gates that are always reported, even if the kubelet does not have them.
var AlwaysReported = []string{
	"DisableKubeletCloudCredentialProviders",
	"KubeletCredentialProviders",
	"KubeletEnsureSecretPulledImages",
	TokenGateName,
}
