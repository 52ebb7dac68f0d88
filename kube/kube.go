// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package kube gives a [regcred.Keyring] access to a Kubernetes API server:
// service accounts and their tokens (KEP-4412), pods, and image pull secrets.
//
// A [Client] asks as little as a kubelet does, because a node's own identity
// may do no more: it GETs single service accounts, and requests tokens bound
// to pods of its node.
//
//	rest, from, err := kube.Config(kube.ConfigOptions{Environ: os.Environ()})
//	client, err := kube.New(rest, kube.Options{})
//	keyring, err := regcred.New(cfg, regcred.Options{BinDir: dir, ServiceAccounts: client})
//
// It is not a general client of Kubernetes: it reads these few objects and
// changes none.
package kube

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/client-go/rest"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/apiserver"
)

const (
	defaultTimeout  = 10 * time.Second
	maxAccountAge   = 10 * time.Second
	defaultMaxStale = time.Hour

	maxAccounts = 2000   // that are kept
	maxTokens   = 10_000 // that are kept
)

// Options configure a [Client]. The zero value is ready to use.
type Options struct {
	// Timeout bounds one call of the API server, repetitions included; 0
	// means 10 seconds.
	Timeout time.Duration

	// MaxAccountAge is how long a service account that was read is used
	// without asking again; 0 means 10 seconds, which is also the most.
	MaxAccountAge time.Duration

	// MaxStale is for how long a service account that was read goes on being
	// used while the API server does not respond (no connection, 429, 5xx); 0
	// means one hour.
	MaxStale time.Duration

	// Logger gets Debug events; nil discards them.
	Logger *slog.Logger
}

// withDefaults fills in what is zero.
func (o Options) withDefaults() Options {
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.MaxAccountAge <= 0 || o.MaxAccountAge > maxAccountAge {
		o.MaxAccountAge = maxAccountAge
	}
	if o.MaxStale <= 0 {
		o.MaxStale = defaultMaxStale
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Client talks to an API server. It implements [regcred.ServiceAccountClient] and
// is safe for concurrent use.
type Client struct {
	opts Options
	server

	flights  singleflight.Group // calls that several callers wait for
	accounts *kept[accountKey, *account]
	tokens   *kept[regcred.TokenRequest, *token]
}

var _ regcred.ServiceAccountClient = (*Client)(nil)

// New makes a Client of what [Config] returns, or of another configuration of
// client-go. It does not call the API server. The limits of client-go, QPS and
// Burst, are not used: what a client asks is bounded by the lookups under way,
// and the API server has its own limits.
func New(cfg *rest.Config, opts Options) (*Client, error) {
	opts = opts.withDefaults()
	api, err := apiserver.New(cfg, opts.Timeout)
	if err != nil {
		return nil, err
	}
	return &Client{
		opts:     opts,
		server:   server{api, credentialsOf(cfg)},
		accounts: newKept[accountKey, *account](maxAccounts),
		tokens:   newKept[regcred.TokenRequest, *token](maxTokens),
	}, nil
}

// URL is the address of the API server, without a password that may be in the
// configuration.
func (c *Client) URL() string { return c.Server.URL() }

// shared runs f once for all who ask for the same key at the same time. One of
// them who leaves does not take the others along, so f does not end with ctx
// but at its own deadline.
func shared[T any](ctx context.Context, c *Client, q *call, key string, f func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, c.fail(q, context.Cause(ctx))
	}
	done := c.flights.DoChan(key, func() (any, error) { return f(context.WithoutCancel(ctx)) })
	select {
	case r := <-done:
		if r.Err != nil {
			return none, r.Err
		}
		return r.Val.(T), nil
	case <-ctx.Done():
		return none, c.fail(q, context.Cause(ctx))
	}
}
