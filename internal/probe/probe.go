// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package probe queries a host as a container runtime would when it pulls an image. It
// reports each step (DNS, connection, TLS, challenge, token, manifest) and why a step failed.
// It does not request blobs.
//
//	p := &probe.Prober{Image: probe.Image{Tag: "1.2"}, Runtime: runtime}
//	result := p.Query(ctx, hop, credentials)
//
// A credential is sent only to hosts to which the runtime would send it, and to their token
// servers. It is sent over TLS unless the runtime's files allow plain HTTP, and never after a
// redirect. Metadata servers are never contacted.
package probe

import (
	"context"
	"net/netip"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/route"
)

// Query queries one host and tries each credential in turn until one is accepted.
func (p *Prober) Query(ctx context.Context, hop route.Hop, creds []regcred.Credential) *Result {
	a := &session{Prober: p, hop: hop, base: *hop.Base, result: &Result{URL: hop.URL, Accepted: -1}, dialed: map[string]netip.AddrPort{}}
	if hop.TriesHTTPSFirst {
		a.base.Scheme = "https"
	}
	if err := a.loadCertificates(ctx); err != nil {
		a.addFailedStep(StepTLS, "", "%v", err)
		return a.result
	}
	if a.openConnection(ctx, &a.base) && a.requestChallenge(ctx) {
		a.tryCredentials(ctx, creds)
	}
	if a.tokens != nil {
		a.tokens.inner.CloseIdleConnections()
	}
	if n := len(a.result.Steps); n > 0 && ctx.Err() != nil {
		a.result.Steps[n-1].Fix = "" // the step had no time left, so the cause is unknown
	}
	return a.result
}
