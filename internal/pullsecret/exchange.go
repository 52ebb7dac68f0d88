// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/plugin"
)

// Account is the service account for which a provider with tokenAttributes runs. The zero value
// stands for the controller's own identity.
type Account struct{ Namespace, Name string }

// Credential is a provider's credential for a target.
type Credential struct {
	Issued  time.Time // when the provider was called
	Expires time.Time // zero if unknown
	Refresh time.Time // when to call the provider again
	Pattern string    // the provider's auth key

	auth plugin.AuthConfig
}

// Outcome contains the credentials and errors of a provider's targets.
type Outcome struct {
	Credentials map[Target]Credential // also while a newer one is being fetched, or cannot be
	Errors      map[Target]error      // the last failure; a target may have both
	Pending     bool                  // the provider is running; the waiter will be notified
	Retry       time.Time             // when failed targets are tried again; zero if none failed
}

// Only returns the outcome of some of the targets.
func (o Outcome) Only(targets []Target) Outcome {
	other := func(t Target) bool { return !slices.Contains(targets, t) }
	maps.DeleteFunc(o.Credentials, func(t Target, _ Credential) bool { return other(t) })
	maps.DeleteFunc(o.Errors, func(t Target, _ error) bool { return other(t) })
	return o
}

// Waiter identifies the Secret to notify after a round.
type Waiter struct{ Namespace, Secret string }

// ExchangerOptions configures an [Exchanger]. Notify and either BinDir or Plugin are required.
type ExchangerOptions struct {
	BinDir  string   // directory of the plugins
	Environ []string // their environment; nil means the current one

	// Plugin, if not nil, returns what is called instead of an executable in BinDir.
	Plugin func(provider string) plugin.Provider

	// ServiceAccounts returns the client that gets tokens for an account.
	ServiceAccounts func(Account) regcred.ServiceAccountClient

	Notify   func(Waiter)
	Observer func(regcred.Event) // see [regcred.Options]
	Timeout  time.Duration       // of a plugin's run; 0 means one minute
}

// Exchanger runs providers and remembers their credentials. It runs a provider when a Secret needs a
// credential that is missing or due for a refresh. It is safe for concurrent use.
type Exchanger struct {
	opts   ExchangerOptions
	ctx    context.Context
	cancel context.CancelFunc
	rounds sync.WaitGroup
	free   chan struct{} // limits the number of rounds in progress

	mu       sync.Mutex
	config   *config.Config
	all      map[exchangeKey]*exchange
	replaced map[string]time.Time // by provider: when its configuration last changed
}

type exchangeKey struct {
	provider string
	account  Account
}

// exchange holds the credentials of a provider for one identity.
type exchange struct {
	targets map[Target]*targetState
	running bool
	waiters map[Waiter]bool
}

type targetState struct {
	credential *Credential
	err        error
	failures   int
	next       time.Time // after a failure: no attempt before this time
}

func (s *targetState) isDue(now time.Time) bool {
	return !now.Before(s.next) && (s.credential == nil || !now.Before(s.credential.Refresh))
}

// maxRounds limits how many providers run at the same time.
const maxRounds = 16

// NewExchanger returns an Exchanger for a valid configuration.
func NewExchanger(c *config.Config, opts ExchangerOptions) *Exchanger {
	x := &Exchanger{
		opts: opts, config: c, free: make(chan struct{}, maxRounds),
		all: map[exchangeKey]*exchange{}, replaced: map[string]time.Time{},
	}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	return x
}

// Close stops all providers and waits for them.
func (x *Exchanger) Close() {
	x.cancel()
	x.rounds.Wait()
}

// Reload replaces the configuration. Credentials of unchanged providers stay.
func (x *Exchanger) Reload(c *config.Config) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	old := x.config
	x.config = c
	for i := range old.Providers {
		before := &old.Providers[i]
		after := findProvider(c, before.Name)
		if after != nil && after.Equal(before) {
			continue
		}
		if after != nil {
			x.replaced[before.Name] = now
		}
		maps.DeleteFunc(x.all, func(k exchangeKey, _ *exchange) bool { return k.provider == before.Name })
	}
}

// Replaced returns when a provider's configuration changed while the process was running. Older
// credentials are due for a refresh.
func (x *Exchanger) Replaced(provider string) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.replaced[provider]
}

// Forget removes the credentials of a service account that no longer exists.
func (x *Exchanger) Forget(a Account) {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.all, func(k exchangeKey, e *exchange) bool { return k.account == a && !e.running })
}

// Get returns what is known about a provider's targets. If a target is due, Get starts a round that
// calls the provider for all due targets of this identity, and notifies w at the end.
func (x *Exchanger) Get(a Account, provider string, targets []Target, w Waiter) Outcome {
	x.mu.Lock()
	defer x.mu.Unlock()
	key := exchangeKey{provider, a}
	e := x.all[key]
	if e == nil {
		e = &exchange{targets: map[Target]*targetState{}, waiters: map[Waiter]bool{}}
		x.all[key] = e
	}
	now := time.Now()
	due := false
	for _, t := range targets {
		if e.targets[t] == nil {
			e.targets[t] = &targetState{}
		}
		due = due || e.targets[t].isDue(now)
	}
	if due {
		e.waiters[w] = true
		x.start(key, e, now)
	}
	return e.outcome(targets, due)
}

// start starts a round unless one is running. The running one notifies the waiters, which then call
// Get again. x.mu is held.
func (x *Exchanger) start(key exchangeKey, e *exchange, now time.Time) {
	p := findProvider(x.config, key.provider)
	if e.running || p == nil || x.ctx.Err() != nil {
		return
	}
	e.running = true
	var targets []Target
	for t, s := range e.targets {
		if s.isDue(now) {
			targets = append(targets, t)
		}
	}
	slices.SortFunc(targets, func(a, b Target) int { return cmp.Compare(a.String(), b.String()) })
	provider := *p
	x.rounds.Go(func() { x.round(key, e, provider, targets) })
}

func (e *exchange) outcome(targets []Target, pending bool) Outcome {
	o := Outcome{Credentials: map[Target]Credential{}, Errors: map[Target]error{}, Pending: pending}
	for _, t := range targets {
		s := e.targets[t]
		if s.credential != nil {
			o.Credentials[t] = *s.credential
		}
		if s.err != nil {
			o.Errors[t] = s.err
			if o.Retry.IsZero() || s.next.Before(o.Retry) {
				o.Retry = s.next
			}
		}
	}
	return o
}

// round calls a provider for targets, records the results and notifies the waiters.
func (x *Exchanger) round(key exchangeKey, e *exchange, p config.Provider, targets []Target) {
	select {
	case x.free <- struct{}{}:
		defer func() { <-x.free }()
	case <-x.ctx.Done():
		return
	}
	results := x.call(key.account, p, targets)
	x.mu.Lock()
	now := time.Now()
	for t, r := range results {
		e.targets[t].update(r, now)
	}
	e.running = false
	waiters := e.waiters
	e.waiters = map[Waiter]bool{}
	x.mu.Unlock()
	for w := range waiters {
		x.opts.Notify(w)
	}
}

func (s *targetState) update(r callResult, now time.Time) {
	if r.err == nil {
		*s = targetState{credential: &r.credential}
		return
	}
	s.err = r.err
	s.failures++
	delay := backoffDelay(s.failures)
	if seconds, ok := apierrors.SuggestsClientDelay(r.err); ok {
		delay = max(delay, time.Duration(seconds)*time.Second)
	}
	s.next = now.Add(delay)
}

type callResult struct {
	credential Credential
	err        error
}

// call calls a provider for targets. Each call uses a new keyring, so that nothing is cached from an
// earlier round. Within the round, a response serves all targets that it covers.
func (x *Exchanger) call(a Account, p config.Provider, targets []Target) map[Target]callResult {
	results := map[Target]callResult{}
	keyring, err := x.newKeyring(a, p)
	if err != nil {
		for _, t := range targets {
			results[t] = callResult{err: err}
		}
		return results
	}
	defer keyring.Close()
	spread := rand.Float64()
	var mu sync.Mutex
	look := func(t Target) {
		c, err := x.lookup(keyring, a, t, spread)
		mu.Lock()
		defer mu.Unlock()
		results[t] = callResult{c, err}
	}
	// The first response shows its scope, so that a response for all registries is requested once.
	look(targets[0])
	var g errgroup.Group
	g.SetLimit(8)
	for _, t := range targets[1:] {
		g.Go(func() error { look(t); return nil })
	}
	_ = g.Wait() // the functions return no error
	return results
}

func (x *Exchanger) newKeyring(a Account, p config.Provider) (*regcred.Keyring, error) {
	opts := regcred.Options{BinDir: x.opts.BinDir, Environ: x.opts.Environ, Timeout: x.opts.Timeout, Observer: x.opts.Observer}
	if x.opts.Plugin != nil {
		opts.InProcess = map[string]plugin.Provider{p.Name: x.opts.Plugin(p.Name)}
	}
	if a != (Account{}) && x.opts.ServiceAccounts != nil {
		opts.ServiceAccounts = x.opts.ServiceAccounts(a)
	}
	return regcred.New(&config.Config{Providers: []config.Provider{p}}, opts)
}

func (x *Exchanger) lookup(k *regcred.Keyring, a Account, t Target, spread float64) (Credential, error) {
	req := t.request()
	if a != (Account{}) {
		req.Pod = &regcred.Pod{Namespace: a.Namespace, ServiceAccount: a.Name}
	}
	issued := time.Now()
	result, err := k.Lookup(x.ctx, req)
	if err != nil {
		return Credential{}, err
	}
	if len(result.Credentials) == 0 {
		return Credential{}, noCredentialError(t, result)
	}
	first := result.Credentials[0]
	c := Credential{Issued: issued, Pattern: first.Match, auth: plugin.AuthConfig{Username: first.Username, Password: first.Password}}
	if err := CheckAuth(c.auth); err != nil {
		return Credential{}, fmt.Errorf("provider %q, %s: %w", first.Provider, t, err)
	}
	if c.Expires = credentialExpiry(first.Password.Reveal()); c.Expires.IsZero() {
		c.Expires = first.CachedUntil
	}
	if !c.Expires.IsZero() && !c.Expires.After(issued) {
		return Credential{}, fmt.Errorf("provider %q, %s: the credential expired at %s", first.Provider, t, c.Expires.UTC().Format(time.RFC3339))
	}
	c.Refresh = refreshTime(issued, c.Expires, spread)
	return c, nil
}

// noCredentialError explains why a lookup without a failure returned nothing.
func noCredentialError(t Target, r *regcred.Result) error {
	if len(r.Attempts) == 0 {
		return errors.New("no provider matches " + t.String())
	}
	if a := r.Attempts[0]; a.Skipped != "" {
		return fmt.Errorf("provider %q, %s: %s", a.Provider, t, a.Skipped)
	}
	return fmt.Errorf("provider %q has no credential for %s", r.Attempts[0].Provider, t)
}

func findProvider(c *config.Config, name string) *config.Provider {
	i := slices.IndexFunc(c.Providers, func(p config.Provider) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Providers[i]
}
