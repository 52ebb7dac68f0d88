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
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// lookup is one lookup under way: its result, and the answers that stand
// beside the attempts.
type lookup struct {
	host    *host
	ring    *ring
	q       question
	res     *Result
	answers []*answer
}

// newResult makes room, in one allocation, for the Result of a lookup that one
// provider answers with one credential, as most are. Nothing in it leads to
// the keyring or to other credentials: a caller may keep it.
func newResult() *Result {
	room := &struct {
		Result
		attempts    [1]Attempt
		credentials [1]Credential
	}{}
	room.Result = Result{Credentials: room.credentials[:0], Attempts: room.attempts[:0]}
	return &room.Result
}

func (l *lookup) add(a Attempt, ans *answer) {
	l.res.Attempts, l.answers = append(l.res.Attempts, a), append(l.answers, ans)
}

// merge appends the credentials of the keyring that the attempts from index
// from on make.
func (l *lookup) merge(from int) {
	l.res.Credentials = appendMatches(l.res.Credentials, l.q, l.answers[from:], l.res.Attempts[from:])
}

// askSecrets consults the first keyring: all pull secrets together.
func (l *lookup) askSecrets(secrets []PullSecret) {
	for i := range secrets {
		if a, ans, ok := secrets[i].attempt(); ok {
			l.add(a, ans)
		}
	}
	l.merge(0)
}

// askSources consults Options.Sources, each a keyring.
func (l *lookup) askSources(ctx context.Context) {
	for i, s := range l.host.opts.Sources {
		from := len(l.answers)
		l.askSource(ctx, s, l.host.names[i])
		l.merge(from)
	}
}

// askSource asks one source; it makes at least one attempt.
func (l *lookup) askSource(ctx context.Context, s Source, name string) {
	ctx, cancel := context.WithTimeout(ctx, l.host.opts.timeout())
	defer cancel()
	start := time.Now()
	repository := l.q.name
	sets, err := await.Result(ctx, "read", func() ([]AuthSet, error) { return s.Auths(ctx, repository) })
	took := time.Since(start)
	for _, set := range sets {
		ans := newAnswer(set.Auths, &origin{source: set.Origin})
		l.add(Attempt{Kind: set.Origin.Kind, Provider: name, Index: -1, Duration: took, Keys: ans.keys}, ans)
	}
	if err != nil || len(sets) == 0 {
		a := Attempt{Kind: FromNode, Provider: name, Index: -1, Duration: took}
		if err != nil {
			a.fail(failAt(StageSource, "%s: %w", name, err))
		}
		l.add(a, nil)
	}
}

// askProviders consults the plugins whose patterns match.
func (l *lookup) askProviders(ctx context.Context, req *Request) {
	var buf [16]match.Hit
	from, now, pending := len(l.answers), time.Now(), 0
	for _, h := range l.ring.matching(l.q, buf[:0]) {
		r, pattern := l.ring.runners[h.List], l.ring.patterns[h.List][h.Pattern]
		a := Attempt{Kind: FromProvider, Provider: r.name, Index: h.List, Pattern: pattern}
		var ans *answer
		if l.q.bare() && hasPath(pattern) {
			a.Skipped = SkippedPath
		} else if ans = r.peek(l.q, now); ans != nil {
			a.record(outcome{answer: ans, cache: CacheHit}, now)
		} else {
			pending++
		}
		l.add(a, ans)
	}
	if pending > 0 {
		l.askPending(ctx, from, pending, req)
	}
	l.merge(from)
}

// askPending asks those providers whose answer is not there yet, side by
// side, so that three of them take the time of one.
func (l *lookup) askPending(ctx context.Context, from, pending int, req *Request) {
	// What the caller has of these stays on its stack.
	all, own := lookup{host: l.host, ring: l.ring, q: l.q, res: l.res, answers: slices.Clone(l.answers)}, *req
	var wg sync.WaitGroup
	for i := from; i < len(l.answers); i++ {
		switch {
		case l.answers[i] != nil || l.res.Attempts[i].Skipped != "":
		case pending == 1:
			all.askProvider(ctx, i, &own)
		default:
			wg.Go(func() { all.askProvider(ctx, i, &own) })
		}
	}
	wg.Wait()
	copy(l.answers, all.answers)
}

// askProvider asks the provider of attempt i and records what came of it.
func (l *lookup) askProvider(ctx context.Context, i int, req *Request) {
	a := &l.res.Attempts[i]
	r := l.ring.runners[a.Index]
	idCtx, cancel := context.WithTimeout(ctx, l.host.opts.timeout())
	id, skipped, err := r.identify(idCtx, req)
	cancel()
	a.Identity = id.who
	switch {
	case err != nil:
		a.fail(providerError(r.name, err))
	case skipped != "":
		a.Skipped = skipped
	default:
		o := r.answer(ctx, l.q, &id)
		l.answers[i] = o.answer
		a.record(o, time.Now())
		if id.mints() && o.cache == CacheMiss {
			a.Identity.Token = TokenRequested
		}
	}
}

// record takes over an outcome.
func (a *Attempt) record(o outcome, now time.Time) {
	a.Cache, a.Duration = o.cache, o.duration
	if o.err != nil {
		a.Cache = CacheNone
		a.fail(providerError(a.Provider, o.err))
		var exec *plugin.ExecError
		if errors.As(o.err, &exec) {
			a.Stderr = exec.Stderr
		}
		return
	}
	a.CacheKey, a.CachedUntil, a.Keys, a.Stderr = o.answer.key.scope, o.answer.expires, o.answer.keys, o.answer.stderr
	if o.cache == CacheHit {
		a.Age = now.Sub(o.answer.stored)
	}
}

// verdict is the error of the lookup.
func (l *lookup) verdict(ctx context.Context) error {
	if len(l.res.Credentials) > 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("credentials for %s: %w", l.q.name, err)
	}
	if l.host.ended() {
		return ErrClosed
	}
	var failed []Attempt
	for _, a := range l.res.Attempts {
		if a.Err != nil {
			failed = append(failed, a)
		}
	}
	if failed == nil {
		return nil
	}
	return &LookupError{Image: l.q.name, Failed: failed}
}
