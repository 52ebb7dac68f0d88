// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/plugin"
)

// Paths of the service.
const (
	PathCredentials = "/v1/credentials"
	PathLookup      = "/v1/lookup"
	PathReport      = "/v1/report"
)

// LookupRequest is the body of a request to [PathLookup]. Exactly one of Image, Registry and Server
// is required.
type LookupRequest struct {
	Image    string `json:"image,omitempty"`
	Registry string `json:"registry,omitempty"`

	// Server is a name as docker clients send it to a credential helper. A client that
	// requests the same server again gets no response that is older than its last request,
	// because the registry may have rejected it.
	Server string `json:"server,omitempty"`

	// Token and Annotations identify a service account. Only root may set them.
	Token       string            `json:"serviceAccountToken,omitempty"`
	Annotations map[string]string `json:"serviceAccountAnnotations,omitempty"`
}

// LookupResponse is the response to a LookupRequest. It contains passwords. The service adds the
// attempts, which clients do not read.
type LookupResponse struct {
	Credentials []Credential `json:"credentials"`
	Error       string       `json:"error,omitempty"` // set if no provider returned a credential and one failed
}

// Credential is a credential of a LookupResponse.
type Credential struct {
	Match       string    `json:"match"`
	Username    string    `json:"username"`
	Password    string    `json:"password"`
	Provider    string    `json:"provider,omitempty"`
	CachedUntil time.Time `json:"cachedUntil,omitzero"`
}

// ReportRequest is the body of a request to [PathReport]. It states how a registry treated a
// credential.
type ReportRequest struct {
	Image    string `json:"image,omitempty"`
	Registry string `json:"registry,omitempty"`
	Username string `json:"username"`
	Password string `json:"password"`
	Outcome  string `json:"outcome"` // [OutcomeAccepted] or [OutcomeRefused]
}

// Outcomes of a ReportRequest.
const (
	OutcomeAccepted = "accepted"
	OutcomeRefused  = "refused"
)

// ReportResponse is the response to a ReportRequest.
type ReportResponse struct {
	Dropped bool `json:"dropped"` // a cached response was removed
}

// ErrorResponse is the body of a response with an error status.
type ErrorResponse struct {
	Error string `json:"error"`
}

// Selector states which providers of the service a request is for. The service returns an error if
// its configuration is not the one that the client would use.
type Selector struct {
	Entry, Generation string // all providers of an entry, in this generation's directory

	Provider, ProviderHash string // one provider

	Config, BinDir string // the client's settings; "" means the node's

	NoCache bool // run the plugin even if a response is cached
}

func (s Selector) header() []string {
	cache := ""
	if s.NoCache {
		cache = "no-cache"
	}
	return []string{
		HeaderEntry, s.Entry, HeaderGeneration, s.Generation, HeaderProvider, s.Provider, HeaderProviderHash, s.ProviderHash,
		HeaderConfig, s.Config, HeaderBinDir, s.BinDir, "Cache-Control", cache,
	}
}

// Credentials returns the response to a kubelet's request. It returns an error if a provider failed,
// even if another one returned credentials.
func (s *Service) Credentials(ctx context.Context, sel Selector, req *plugin.Request) (*plugin.Response, error) {
	if s == nil {
		return nil, ErrUnavailable
	}
	sent := *req
	sent.APIVersion = cmp.Or(req.APIVersion, plugin.V1)
	body, err := plugin.EncodeRequest(&sent)
	if err != nil {
		return nil, err
	}
	resp, err := s.do(ctx, request{PathCredentials, sel.header(), body})
	if err != nil {
		return nil, err
	}
	if err := resp.check(); err != nil {
		return nil, err
	}
	return plugin.DecodeResponse(resp.body, sent.APIVersion)
}

// Lookup looks up credentials. It returns an error if a provider failed.
func (s *Service) Lookup(ctx context.Context, sel Selector, req LookupRequest) (*LookupResponse, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	resp, err := s.do(ctx, request{PathLookup, sel.header(), body})
	if err != nil {
		return nil, err
	}
	if err := resp.check(); err != nil {
		return nil, err
	}
	var found LookupResponse
	if err := json.Unmarshal(resp.body, &found); err != nil {
		return nil, fmt.Errorf("%w: invalid response", ErrUnavailable) // err could contain a part of the body
	}
	return &found, nil
}

// check returns an error if the response cannot be used.
func (r *response) check() error {
	failed := r.header["regcred-failed"]
	if r.status == 200 && failed == "" {
		return nil
	}
	e := &StatusError{Status: r.status}
	var body ErrorResponse
	if json.Unmarshal(r.body, &body) == nil {
		e.Message = body.Error
	}
	if failed != "" {
		e.Message = failed + " of the providers failed"
	}
	return e
}

// ProviderHash identifies a provider's configuration and executable. Two processes with the same hash
// would run the same plugin with the same arguments and variables.
func ProviderHash(p *config.Provider, binDir string) string {
	executable := filepath.Join(binDir, p.Name)
	if real, err := filepath.EvalSymlinks(executable); err == nil {
		executable = real
	}
	// Only the fields that affect a run and its response are included.
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q", executable, p.APIVersion, p.Arguments())
	for _, e := range p.Env {
		fmt.Fprintf(h, " %q=%q", e.Name, e.Value.Reveal())
	}
	if d := p.DefaultCacheDuration; d != nil {
		fmt.Fprintf(h, " %d", *d)
	}
	if t := p.TokenAttributes; t != nil {
		fmt.Fprintf(h, " %q %q %q %q", t.ServiceAccountTokenAudience, t.CacheType, t.RequiredServiceAccountAnnotationKeys, t.OptionalServiceAccountAnnotationKeys)
	}
	return hex.EncodeToString(h.Sum(nil))
}
