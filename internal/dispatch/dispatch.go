// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// DefaultTimeout bounds one run of a plugin. It leaves a dispatcher, whose time
// with all that it does is a kubelet's minute, enough to end the plugin's process
// group and to say so: a kubelet kills the dispatcher alone, and the plugin
// would live on.
const DefaultTimeout = 54 * time.Second

// ServeTimeout bounds all that a dispatcher does for one answer.
const ServeTimeout = 57 * time.Second

// Provider answers for one entry of a kubelet's configuration. Entry, Config
// and, unless Plugin is set, BinDir are required. It is safe for concurrent use.
type Provider struct {
	Entry    entries.Entry  // as the kubelet has it
	Config   *config.Config // of the generation; providers of other entries are left out
	BinDir   string         // of the generation
	MaxStale time.Duration  // for which a kubelet may keep an answer at most; 0 means that it keeps none
	Timeout  time.Duration  // of one run of a plugin; 0 means [DefaultTimeout]

	// Plugin returns what is asked in place of a provider's executable; nil
	// means the executable.
	Plugin func(*config.Provider) plugin.Provider

	// Observe, if not nil, is told of each answer when it is made, and of each failure.
	Observe func(Outcome)

	running sync.WaitGroup // what is asked, until it has ended
}

// Outcome is what came of one question, for counters. It holds no secret.
type Outcome struct {
	Attempts []regcred.Attempt
	Left     int   // credentials that were left out, for want of keys that keep their order
	Err      error // of the question as a whole
}

// Close waits until every plugin has ended that was asked. Those that nobody
// waits for any more are killed, so that is soon.
func (p *Provider) Close() { p.running.Wait() }

// GetCredentials implements [plugin.Provider]. It fails if nothing was found
// and a provider failed, with a [*regcred.LookupError] that names every reason.
func (p *Provider) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	p.running.Add(1) // so that Close does not find none before the first has begun
	defer p.running.Done()
	r, err := p.ask(ctx, req)
	if err != nil {
		p.observe(Outcome{Attempts: r.attempts, Err: err})
		return nil, err
	}
	resp, left := r.response(p.MaxStale)
	p.observe(Outcome{Attempts: r.attempts, Left: left})
	return resp, nil
}

func (p *Provider) observe(o Outcome) {
	if p.Observe != nil {
		p.Observe(o)
	}
}

// ask has a Keyring ask the providers of the entry that match.
func (p *Provider) ask(ctx context.Context, req *plugin.Request) (*replies, error) {
	name, err := match.Repository(req.Image)
	if err != nil {
		return &replies{}, err
	}
	own := &config.Config{Providers: slices.DeleteFunc(slices.Clone(p.Config.Providers), func(c config.Provider) bool {
		return !p.Entry.Serves(&c)
	})}
	entries.SinceCacheType(own.Providers)
	recorders := p.record(own)
	opts := regcred.Options{InProcess: map[string]plugin.Provider{}, Timeout: ServeTimeout}
	for name, r := range recorders {
		opts.InProcess[name] = r
	}
	r := &replies{image: name, entry: &p.Entry, providers: own.Providers}
	k, err := regcred.New(own, opts)
	if err != nil {
		return r, err
	}
	defer k.Close()
	res, err := k.Lookup(ctx, regcred.Request{Image: req.Image, Token: req.ServiceAccountToken, Annotations: req.ServiceAccountAnnotations})
	if res != nil {
		r.add(res, recorders)
	}
	return r, err
}

// recorder asks one provider and keeps what it answered.
type recorder struct {
	plugin.Provider
	running *sync.WaitGroup

	mu     sync.Mutex // it is left behind when ctx ends
	answer *plugin.Response
}

func (p *Provider) record(own *config.Config) map[string]*recorder {
	all := make(map[string]*recorder, len(own.Providers))
	for i := range own.Providers {
		c := &own.Providers[i]
		all[c.Name] = &recorder{Provider: p.plugin(own, i), running: &p.running}
	}
	return all
}

func (p *Provider) plugin(own *config.Config, i int) plugin.Provider {
	if p.Plugin != nil {
		return p.Plugin(&own.Providers[i])
	}
	command := own.Command(i, p.BinDir)
	if command.Timeout = p.Timeout; command.Timeout <= 0 {
		command.Timeout = DefaultTimeout
	}
	return command
}

// GetCredentials implements [plugin.Provider].
func (r *recorder) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	r.running.Add(1)
	defer r.running.Done()
	resp, err := r.Provider.GetCredentials(ctx, req)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = resp
	return resp, err
}

func (r *recorder) answered() *plugin.Response {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answer
}
