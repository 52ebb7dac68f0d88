// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/plugin"
)

// runner is one provider at work: its plugin, its cache and the execs that
// are under way.
type runner struct {
	host       *host
	name       string
	entry      config.Provider         // a copy of its own
	tokens     *config.TokenAttributes // of entry; nil outside service-account mode
	executable executable              // as it was when the runner was made
	provider   plugin.Provider
	written    atomic.Pointer[place] // replaced by Reload: an entry that stays may have moved
	cache      *answerCache
	from       *origin // of answers that belong to nobody

	mu      sync.Mutex
	flights map[flightKey]*flight
	scope   plugin.CacheKeyType // of the last answer; "" while unknown
	mixed   bool                // another executable than the one above has run
	retired bool                // Reload has dropped it
	backoff map[string]backoff  // by image
}

// scopeNone is that of an answer which must not be cached.
const scopeNone plugin.CacheKeyType = "none"

// place is where an entry stands.
type place struct {
	config   *config.Config
	provider int
}

func newRunner(h *host, at place) *runner {
	p := &at.config.Providers[at.provider]
	look, _ := executableOf(h.ctx, h, p.Name, maxLook) // a lookup says what is wrong
	r := &runner{
		host:       h,
		name:       p.Name,
		entry:      copyOf(p),
		executable: look,
		cache:      newAnswerCache(h.opts.maxCacheEntries()),
		from:       &origin{p.Name, Origin{Kind: FromProvider}},
		flights:    map[flightKey]*flight{},
		backoff:    map[string]backoff{},
	}
	r.tokens = r.entry.TokenAttributes
	r.provider = pluginFor(h, &r.entry, r.place)
	return r
}

// place is where something of r's entry stands now.
func (r *runner) place(field string, index int) string {
	at := r.written.Load()
	return at.config.Place(at.provider, field, index)
}

// copyOf copies an entry with all that it points to, so that what the caller
// changes in it is seen by [Keyring.Reload].
func copyOf(p *config.Provider) config.Provider {
	c := *p
	c.MatchImages, c.Args, c.Env = slices.Clone(p.MatchImages), slices.Clone(p.Args), slices.Clone(p.Env)
	if p.DefaultCacheDuration != nil {
		c.DefaultCacheDuration = new(*p.DefaultCacheDuration)
	}
	if p.TokenAttributes != nil {
		t := *p.TokenAttributes
		if t.RequireServiceAccount != nil {
			t.RequireServiceAccount = new(*t.RequireServiceAccount)
		}
		t.RequiredServiceAccountAnnotationKeys = slices.Clone(t.RequiredServiceAccountAnnotationKeys)
		t.OptionalServiceAccountAnnotationKeys = slices.Clone(t.OptionalServiceAccountAnnotationKeys)
		c.TokenAttributes = &t
	}
	return c
}

// pluginFor returns what answers for p: a provider of this process, or the
// executable of that name, whose arguments stand at place.
func pluginFor(h *host, p *config.Provider, place func(string, int) string) plugin.Provider {
	if in := h.opts.InProcess[p.Name]; in != nil {
		return inProcess{in, p.Name, h.opts.timeout()}
	}
	c, template := p.Command(h.opts.BinDir), &h.opts.Command
	c.Environ, c.Dir, c.Timeout = template.Environ, template.Dir, template.Timeout
	c.MaxOutput, c.Grace = template.MaxOutput, template.Grace
	c.Place = place
	return c
}

// inProcess is a provider of this process, held to the rules of an executable.
type inProcess struct {
	plugin.Provider
	name    string
	timeout time.Duration
}

func (p inProcess) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return plugin.Ask(ctx, p.name, p.Provider, req)
}

// exec asks the plugin once and makes an answer of what it says. The answer
// is not yet in the cache.
func (r *runner) exec(ctx context.Context, q question, id *identity) (*answer, error) {
	token := id.token
	if id.mints() {
		ctx, cancel := context.WithTimeout(ctx, r.host.opts.timeout())
		minted, err := r.requestToken(ctx, id.pod)
		cancel()
		if err != nil {
			return nil, err
		}
		token = minted
	}
	if err := r.noteExecutable(ctx); err != nil {
		return nil, err
	}
	resp, stderr, err := r.run(ctx, &plugin.Request{
		Image:                     q.name,
		ServiceAccountToken:       token,
		ServiceAccountAnnotations: id.annotations,
	})
	if err != nil {
		return nil, err
	}
	if err := r.check(resp, token); err != nil {
		return nil, err
	}
	a := newAnswer(resp.Auth, id.from)
	a.key = cacheKey{resp.CacheKeyType, q.base(resp.CacheKeyType), id.key}
	a.stderr, a.stored = stderr, time.Now()
	if d := lifetime(resp, r.entry.DefaultCacheDuration); d > 0 {
		a.expires = a.stored.Add(d)
		a.generation = rand.Uint64() | 1
	}
	return a, nil
}

// noteExecutable notices that the executable is no longer that of earlier
// answers, so that they do not count as its own if that one comes back. What
// cannot be looked at in time is not run: to start it would hang as well, and
// nothing ends that.
func (r *runner) noteExecutable(ctx context.Context) error {
	now, err := executableOf(ctx, r.host, r.name, r.host.opts.timeout())
	switch {
	case err != nil && ctx.Err() == nil:
		return failAt(plugin.StageStart, "%w", err)
	case err != nil || r.executable.same(now):
		return nil // the run itself says that nobody waits any more
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mixed = true
	return nil
}

// unchanged reports whether r's answers are those of an entry, and of the
// executable that is there now.
func (r *runner) unchanged(p *config.Provider) bool {
	now, err := executableOf(r.host.ctx, r.host, r.name, maxLook) // lookups do not wait for it
	if err != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.mixed && r.entry.Equal(p) && r.executable.same(now)
}

// run runs the plugin, and reports standard error of a successful run too.
func (r *runner) run(ctx context.Context, req *plugin.Request) (*plugin.Response, string, error) {
	start := time.Now()
	resp, stderr, err := ask(ctx, r.provider, req)
	r.host.observe(ctx, Event{Kind: EventExec, Provider: r.name, Image: req.Image, Duration: time.Since(start), Stage: stageOf(err), Err: err})
	return resp, stderr, err
}

func ask(ctx context.Context, p plugin.Provider, req *plugin.Request) (*plugin.Response, string, error) {
	command, ok := p.(plugin.Command)
	if !ok {
		resp, err := p.GetCredentials(ctx, req)
		return resp, "", err
	}
	x, err := command.Run(ctx, req)
	if err != nil {
		return nil, "", err
	}
	return x.Response, x.Stderr, nil
}

// check refuses what a kubelet refuses of a well-formed answer.
func (r *runner) check(resp *plugin.Response, token plugin.Secret) error {
	if !token.IsZero() && r.tokens != nil && r.tokens.CacheType != config.CachePerToken {
		for _, auth := range resp.Auth {
			if auth.Password.Equal(token) {
				return failAt(StageEchoedToken, "the plugin returned the service account token as the password, which is allowed only if the configuration sets cacheType: Token")
			}
		}
	}
	if !resp.CacheKeyType.Valid() {
		return failAt(plugin.StageCacheKeyType, "cacheKeyType is %q; it must be Image, Registry or Global", excerpt.Value(string(resp.CacheKeyType)))
	}
	return nil
}
