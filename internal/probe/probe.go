// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package probe asks the hosts on an image's way through a container runtime
// what the runtime would ask them, step by step (name, connection, TLS,
// challenge, token, manifest), and says at which step it ends, and why. It pulls
// nothing: no blob is asked for.
//
//	p := &probe.Prober{Image: probe.Image{Tag: "1.2"}, Runtime: runtime}
//	result := p.Ask(ctx, hop, credentials)
//
// A credential is shown to a host only if the runtime would show it, to the
// token server that the host names, over TLS unless the runtime's files allow
// plain HTTP, and never along with a redirect. Nobody is asked at an address
// at which only a metadata server can be.
package probe

import (
	"context"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/route"
)

// Ask asks one host, with each credential in turn until one is accepted. It
// ends with ctx; no step takes longer than its time.
func (p *Prober) Ask(ctx context.Context, hop route.Hop, creds []regcred.Credential) *Result {
	a := &asking{Prober: p, hop: hop, base: *hop.Base, result: &Result{URL: hop.URL, Accepted: -1}}
	if hop.HTTPToo {
		a.base.Scheme = "https"
	}
	if err := a.trust(ctx); err != nil {
		a.fail(StepTLS, "", "%v", err)
		return a.result
	}
	if a.reach(ctx, &a.base) && a.challenge(ctx) {
		a.try(ctx, creds)
	}
	a.close()
	if n := len(a.result.Steps); n > 0 && ctx.Err() != nil {
		a.result.Steps[n-1].Fix = "" // it had no time: who is to blame is not known
	}
	return a.result
}
