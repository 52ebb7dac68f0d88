// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/plugin"
)

// runner is one provider at work: its plugin, its cache and the execs that
// are under way.
type runner struct {
	k        *Keyring
	name     string
	def      *time.Duration          // defaultCacheDuration
	tokens   *config.TokenAttributes // nil outside service-account mode
	provider plugin.Provider
	cache    *answerCache
	from     *origin // of answers that belong to nobody

	mu      sync.Mutex
	flights map[cacheKey]*flight
	scope   plugin.CacheKeyType // of the last answer; "" while unknown
	backoff map[string]backoff  // by image
}

func newRunner(k *Keyring, p *config.Provider) *runner {
	return &runner{
		k:        k,
		name:     p.Name,
		def:      p.DefaultCacheDuration,
		tokens:   p.TokenAttributes,
		provider: k.pluginFor(p),
		cache:    newAnswerCache(k.opts.maxCacheEntries()),
		from:     &origin{p.Name, Source{Kind: SourceProvider}},
		flights:  map[cacheKey]*flight{},
		backoff:  map[string]backoff{},
	}
}

// pluginFor returns what answers for p: a provider of this process, or the
// executable of that name.
func (k *Keyring) pluginFor(p *config.Provider) plugin.Provider {
	if in := k.opts.InProcess[p.Name]; in != nil {
		return inProcess{in, p.Name, k.opts.timeout()}
	}
	c := p.Command(k.opts.BinDir)
	c.Environ, c.Dir, c.Timeout = k.opts.Environ, k.opts.Dir, k.opts.timeout()
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
	token, err := id.token, error(nil)
	if token.IsZero() && id.mint != nil {
		ctx, cancel := context.WithTimeout(ctx, r.k.opts.timeout())
		token, err = id.mint(ctx)
		cancel()
		if err != nil {
			return nil, err
		}
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
	if d := lifetime(resp, r.def); d > 0 {
		a.expires = a.stored.Add(d)
		a.generation = rand.Uint64() | 1
	}
	return a, nil
}

// run runs the plugin, and reports standard error of a successful run too.
func (r *runner) run(ctx context.Context, req *plugin.Request) (*plugin.Response, string, error) {
	start := time.Now()
	resp, stderr, err := ask(ctx, r.provider, req)
	r.k.observe(Event{Kind: EventExec, Provider: r.name, Image: req.Image, Duration: time.Since(start), Stage: stageOf(err), Err: err})
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
				return failAt(StageEchoedToken, "the plugin returned the service account token as password, which the configuration allows only with cacheType: Token")
			}
		}
	}
	if !resp.CacheKeyType.Valid() {
		return failAt(plugin.StageCacheKeyType, "cacheKeyType %q is none of Image, Registry, Global", excerpt.Value(string(resp.CacheKeyType)))
	}
	return nil
}

// stageOf returns the stage at which an error arose; "" for nil.
func stageOf(err error) plugin.Stage {
	var exec *plugin.ExecError
	var staged *stageError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &staged):
		return staged.stage
	case errors.As(err, &exec):
		return exec.Stage
	case errors.Is(err, context.DeadlineExceeded):
		return plugin.StageTimeout
	case errors.Is(err, context.Canceled):
		return plugin.StageCanceled
	}
	return plugin.StageExec
}

// providerError says which provider failed, if err does not.
func providerError(name string, err error) error {
	var exec *plugin.ExecError
	if errors.As(err, &exec) {
		return err
	}
	return fmt.Errorf("provider %q: %w", name, err)
}
