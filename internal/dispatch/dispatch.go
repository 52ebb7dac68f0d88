// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package dispatch answers a request of the kubelet with the merged responses of several
// providers. One entry of the kubelet's configuration represents all providers of a node's
// current generation. The merged response depends on how the kubelet uses responses
// (pkg/credentialprovider/plugin/plugin.go and keyring.go):
//
//   - The kubelet caches a response for an image, a registry, or all images of the entry.
//     Meanwhile it calls no plugin for them. For this reason, the merged response has the
//     smallest scope and the shortest duration of all responses, and is not cached if a
//     provider failed.
//   - The kubelet uses one credential per auth key, tries keys in reverse byte order of
//     their normalised text, and matches paths by prefix. If two providers return the same
//     key, the merged response is for a single image, with new keys that keep the order.
//   - The kubelet shows a plugin's standard error only if the plugin fails. For this
//     reason, a run fails if there is no credential and a provider failed.
//
// A Keyring calls the plugins. The package has no cache and starts no daemon.
//
//	p := &dispatch.Provider{Entry: entry, Config: current.Config, BinDir: current.BinDir(), MaxStale: time.Minute}
//	defer p.Close()
//	answer, err := p.GetCredentials(ctx, request)
package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/runstats"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// DefaultTimeout limits one run of a plugin. After one minute, the kubelet kills the
// dispatcher, but not the plugin. The limit leaves time to kill the plugin's process group
// and to report the timeout.
const DefaultTimeout = 54 * time.Second

// ServeTimeout limits a whole run of the dispatcher.
const ServeTimeout = 57 * time.Second

// Provider responds to requests for one entry of the kubelet's configuration. Entry and
// Config are required, and BinDir unless Plugin is set. It is safe for concurrent use.
type Provider struct {
	Entry    entries.Entry  // as in the kubelet's configuration
	Config   *config.Config // configuration of the generation; providers of other entries are ignored
	BinDir   string         // of the generation
	MaxStale time.Duration  // maximum cache duration; 0 disables the kubelet's cache
	Timeout  time.Duration  // timeout of one plugin run; 0 means [DefaultTimeout]

	// Plugin returns the plugin to call instead of a provider's executable. If it is
	// nil, the executable is run.
	Plugin func(*config.Provider) plugin.Provider

	// Observe, if not nil, is called for each response and failure.
	Observe func(Outcome)

	running sync.WaitGroup // running plugins
}

// Outcome is the result of a request, for counters. It contains no secrets.
type Outcome struct {
	Attempts []regcred.Attempt
	Dropped  int   // number of credentials dropped because there are too few keys
	Err      error // error of the whole request
}

// Close waits until all plugins have exited. Plugins whose callers no longer wait are
// killed.
func (p *Provider) Close() { p.running.Wait() }

// GetCredentials implements [plugin.Provider]. If there are no credentials and a
// provider failed, it returns a [*regcred.LookupError] with all causes.
func (p *Provider) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	p.running.Add(1) // before the first plugin starts, so that Close waits for it
	defer p.running.Done()
	r, err := p.callProviders(ctx, req)
	if err != nil {
		p.reportOutcome(Outcome{Attempts: r.attempts, Err: err})
		return nil, err
	}
	resp, left := r.mergedResponse(p.MaxStale)
	p.reportOutcome(Outcome{Attempts: r.attempts, Dropped: left})
	return resp, nil
}

func (p *Provider) reportOutcome(o Outcome) {
	if p.Observe != nil {
		p.Observe(o)
	}
}

// callProviders calls the matching providers of the entry through a Keyring.
func (p *Provider) callProviders(ctx context.Context, req *plugin.Request) (*entryResponses, error) {
	name, err := match.Repository(req.Image)
	if err != nil {
		return &entryResponses{}, err
	}
	own := &config.Config{Providers: slices.DeleteFunc(slices.Clone(p.Config.Providers), func(c config.Provider) bool {
		return !p.Entry.Serves(&c)
	})}
	entries.SetDefaultCacheType(own.Providers)
	recorders := map[string]*responseRecorder{}
	opts := regcred.Options{InProcess: map[string]plugin.Provider{}, Timeout: ServeTimeout}
	for i := range own.Providers {
		r := &responseRecorder{Provider: p.pluginFor(own, i), running: &p.running}
		recorders[own.Providers[i].Name], opts.InProcess[own.Providers[i].Name] = r, r
	}
	r := &entryResponses{image: name, entry: &p.Entry, providers: own.Providers}
	k, err := regcred.New(own, opts)
	if err != nil {
		return r, err
	}
	defer k.Close()
	res, err := k.Lookup(ctx, regcred.Request{Image: req.Image, Token: req.ServiceAccountToken, Annotations: req.ServiceAccountAnnotations})
	if res != nil {
		r.addResult(res, recorders)
	}
	return r, err
}

// responseRecorder calls a provider and keeps its response.
type responseRecorder struct {
	plugin.Provider
	running *sync.WaitGroup

	mu       sync.Mutex // the call may continue after ctx ends
	response *plugin.Response
}

func (p *Provider) pluginFor(own *config.Config, i int) plugin.Provider {
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
func (r *responseRecorder) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	r.running.Add(1)
	defer r.running.Done()
	resp, err := r.Provider.GetCredentials(ctx, req)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.response = resp
	return resp, err
}

func (r *responseRecorder) recordedResponse() *plugin.Response {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.response
}

// CounterBatch converts o to counts for package runstats.
func (o Outcome) CounterBatch() runstats.Batch {
	b := runstats.Batch{DroppedCredentials: o.Dropped}
	if o.Err != nil {
		b.Err = o.Err.Error()
	}
	for _, a := range o.Attempts {
		r := runstats.Run{Provider: a.Provider, Result: resultLabel(a), Duration: a.Duration}
		if a.Err != nil {
			r.Err = a.Err.Error()
		}
		b.Runs = append(b.Runs, r)
	}
	return b
}

func resultLabel(a regcred.Attempt) string {
	switch {
	case a.Err != nil:
		return string(a.Stage)
	case a.Skipped != "":
		return runstats.ResultSkipped
	case a.Matched == 0:
		return runstats.ResultNone
	}
	return runstats.ResultFound
}
