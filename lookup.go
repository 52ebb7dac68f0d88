// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/regcred/regcred/internal/await"
	"github.com/regcred/regcred/internal/index"
	"github.com/regcred/regcred/plugin"
)

// lookup is the state of a running [Keyring.Lookup]. responses[i] corresponds to
// res.Attempts[i].
type lookup struct {
	env       *keyringEnv
	compiled  *compiledConfig
	key       lookupKey
	result    *Result
	responses []*response
}

// newResult returns an empty Result. The same allocation has room for one attempt and one
// credential, which is enough for most lookups. A Result contains no pointers to the keyring or
// to other credentials, so callers can keep it.
func newResult() *Result {
	room := &struct {
		Result
		attempts    [1]Attempt
		credentials [1]Credential
	}{}
	room.Result = Result{Credentials: room.credentials[:0], Attempts: room.attempts[:0]}
	return &room.Result
}

func (l *lookup) addAttempt(a Attempt, resp *response) {
	l.result.Attempts, l.responses = append(l.result.Attempts, a), append(l.responses, resp)
}

// appendCredentials appends the credentials of all attempts from index from on. Together, these
// attempts form one of the kubelet's keyrings.
func (l *lookup) appendCredentials(from int) {
	l.result.Credentials = appendMatchingCredentials(l.result.Credentials, l.key, l.responses[from:], l.result.Attempts[from:])
}

// addPullSecrets adds the credentials of all pull secrets. They form the first keyring.
func (l *lookup) addPullSecrets(secrets []PullSecret) {
	for i := range secrets {
		if a, resp, ok := secrets[i].parse(); ok {
			l.addAttempt(a, resp)
		}
	}
	l.appendCredentials(0)
}

// querySources queries Options.Sources and adds their credentials. Each source is a separate
// keyring.
func (l *lookup) querySources(ctx context.Context) {
	for i, s := range l.env.opts.Sources {
		from := len(l.responses)
		l.querySource(ctx, s, l.env.sourceNames[i])
		l.appendCredentials(from)
	}
}

// querySource queries one source. It always adds at least one attempt.
func (l *lookup) querySource(ctx context.Context, s Source, name string) {
	ctx, cancel := context.WithTimeout(ctx, l.env.opts.Timeout)
	defer cancel()
	start := time.Now()
	repository := l.key.name
	sets, err := await.Call(ctx, "read", func() ([]AuthSet, error) { return s.Auths(ctx, repository) })
	took := time.Since(start)
	for _, set := range sets {
		resp := newResponse(set.Auths, &responseOrigin{source: set.Origin})
		l.addAttempt(Attempt{Kind: set.Origin.Kind, Provider: name, Index: -1, Duration: took, Keys: resp.keys}, resp)
	}
	if err != nil || len(sets) == 0 {
		a := Attempt{Kind: FromNode, Provider: name, Index: -1, Duration: took}
		if err != nil {
			a.setError(newStageError(StageSource, "%s: %w", name, err))
		}
		l.addAttempt(a, nil)
	}
}

// callProviders adds the credentials of all matching providers. They form the last keyring.
func (l *lookup) callProviders(ctx context.Context, req *Request) {
	var buf [16]index.Hit
	from, now, pending := len(l.responses), time.Now(), 0
	for _, h := range l.compiled.appendMatchingProviders(l.key, buf[:0]) {
		r, pattern := l.compiled.runners[h.List], l.compiled.patterns[h.List][h.Pattern]
		a := Attempt{Kind: FromProvider, Provider: r.name, Index: h.List, Pattern: pattern}
		var resp *response
		if l.key.isRegistry() && hasPath(pattern) {
			a.Skipped = SkippedPath
		} else if resp = r.cachedResponse(ctx, l.key, now); resp != nil {
			a.applyOutcome(providerOutcome{response: resp, cache: CacheHit}, now)
		} else {
			pending++
		}
		l.addAttempt(a, resp)
	}
	if pending > 0 {
		l.callPendingProviders(ctx, from, pending, req)
	}
	l.appendCredentials(from)
}

// callPendingProviders calls the providers that have no cached response, in parallel.
func (l *lookup) callPendingProviders(ctx context.Context, from, pending int, req *Request) {
	// The goroutines use copies, so that l and req stay on the stack if all responses are
	// cached.
	shared, reqCopy := lookup{env: l.env, compiled: l.compiled, key: l.key, result: l.result, responses: slices.Clone(l.responses)}, *req
	var wg sync.WaitGroup
	for i := from; i < len(l.responses); i++ {
		switch {
		case l.responses[i] != nil || l.result.Attempts[i].Skipped != "":
		case pending == 1:
			shared.callProvider(ctx, i, &reqCopy)
		default:
			wg.Go(func() { shared.callProvider(ctx, i, &reqCopy) })
		}
	}
	wg.Wait()
	copy(l.responses, shared.responses)
}

// callProvider calls the provider of attempt i and records the outcome in the attempt.
func (l *lookup) callProvider(ctx context.Context, i int, req *Request) {
	a := &l.result.Attempts[i]
	r := l.compiled.runners[a.Index]
	idCtx, cancel := context.WithTimeout(ctx, l.env.opts.Timeout)
	id, skipped, err := r.identityFor(idCtx, req)
	cancel()
	a.Identity = id.report
	switch {
	case err != nil:
		a.setError(providerError(r.name, err))
	case skipped != "":
		a.Skipped = skipped
	default:
		o := r.fetchResponse(ctx, l.key, &id)
		l.responses[i] = o.response
		a.applyOutcome(o, time.Now())
		if id.needsToken() && o.cache == CacheMiss {
			a.Identity.Token = TokenRequested
		}
	}
}

func (a *Attempt) applyOutcome(o providerOutcome, now time.Time) {
	a.Cache, a.Duration = o.cache, o.duration
	if o.err != nil {
		a.Cache = CacheNone
		a.setError(providerError(a.Provider, o.err))
		if exec, ok := errors.AsType[*plugin.ExecError](o.err); ok {
			a.Stderr = exec.Stderr
		}
		return
	}
	resp := o.response
	a.CacheKey, a.CachedUntil, a.Keys, a.Stderr = resp.key.scope, resp.expires, resp.keys, resp.stderr
	if o.cache == CacheHit {
		a.Age = now.Sub(resp.storedAt)
	}
}

func (l *lookup) err(ctx context.Context) error {
	if len(l.result.Credentials) > 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("credentials for %s: %w", l.key.name, err)
	}
	if l.env.isClosed() {
		return ErrClosed
	}
	failed := slices.DeleteFunc(slices.Clone(l.result.Attempts), func(a Attempt) bool { return a.Err == nil })
	if len(failed) == 0 {
		return nil
	}
	return &LookupError{Image: l.key.name, Failed: failed}
}
