// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package client

import (
	"context"
	"sync"
	"time"

	"github.com/regcred/regcred/plugin"
)

// Provider calls the service, and Fallback if the service is unavailable, has another configuration or
// could not run the plugin. It is safe for concurrent use.
//
// If it is called again for an image, the registry may have rejected the last response. So the service
// then runs the plugin again.
type Provider struct {
	Service  *Service
	Selector Selector // with Provider and ProviderHash
	Fallback plugin.Provider
	Timeout  time.Duration // time limit of a call

	mu   sync.Mutex
	seen map[string]bool // images with an earlier response of the service
}

// GetCredentials implements [plugin.Provider].
func (p *Provider) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	sel := p.Selector
	sel.NoCache = p.wasSeen(req.Image)
	resp, byService, err := CallWithFallback(ctx, p.Timeout,
		func(ctx context.Context) (*plugin.Response, error) { return p.Service.Credentials(ctx, sel, req) },
		func(ctx context.Context) (*plugin.Response, error) { return p.Fallback.GetCredentials(ctx, req) })
	if byService {
		p.markSeen(req.Image)
	}
	return resp, err
}

func (p *Provider) wasSeen(image string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[image]
}

func (p *Provider) markSeen(image string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil {
		p.seen = map[string]bool{}
	}
	p.seen[image] = true
}
