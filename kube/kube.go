// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package kube gives a [regcred.Keyring] access to a Kubernetes API server:
// service accounts and their tokens (KEP-4412), pods, and image pull secrets.
//
// A [Client] needs no more permissions than a node has: it reads single objects, and
// requests tokens bound to pods of its node.
//
//	cfg, err := rest.InClusterConfig() // or clientcmd.BuildConfigFromFlags
//	client, err := kube.New(cfg, kube.Options{})
//	keyring, err := regcred.New(providers, regcred.Options{BinDir: dir, ServiceAccounts: client})
//
// It is not a general Kubernetes client: it reads these objects only and changes none.
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

	maxAccounts = 2000   // cached
	maxTokens   = 10_000 // cached
)

// Options configures a [Client]. The zero value is ready to use.
type Options struct {
	// Timeout bounds one API request including retries; 0 means 10 seconds.
	Timeout time.Duration

	// MaxAccountAge is how long a service account is cached. The default and the
	// maximum are 10 seconds.
	MaxAccountAge time.Duration

	// MaxStale is how long a cached service account is used while the API server
	// does not respond (no connection, 429, 5xx). The default is one hour.
	MaxStale time.Duration

	// Logger gets Debug events; nil discards them.
	Logger *slog.Logger
}

// withDefaults replaces zero values with the defaults.
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

// Client sends requests to an API server. It implements
// [regcred.ServiceAccountClient] and is safe for concurrent use.
type Client struct {
	opts Options
	server

	inFlight singleflight.Group // requests shared by concurrent callers
	accounts *ttlCache[accountKey, *account]
	tokens   *ttlCache[regcred.TokenRequest, *token]
}

var _ regcred.ServiceAccountClient = (*Client)(nil)

// New returns a Client for a client-go configuration. It sends no request. It ignores
// QPS and Burst in the configuration, because the number of concurrent lookups limits
// the requests and the API server has its own limits.
func New(cfg *rest.Config, opts Options) (*Client, error) {
	opts = opts.withDefaults()
	api, err := apiserver.New(cfg, opts.Timeout)
	if err != nil {
		return nil, err
	}
	return &Client{
		opts:     opts,
		server:   server{api, describeCredentials(cfg)},
		accounts: newTTLCache[accountKey, *account](maxAccounts),
		tokens:   newTTLCache[regcred.TokenRequest, *token](maxTokens),
	}, nil
}

// URL returns the API server's address without a password.
func (c *Client) URL() string { return c.Server.URL() }

// doShared runs f once for concurrent callers with the same key. It does not cancel f if a
// caller's ctx ends, because other callers may wait for the result. f must have its own
// timeout.
func doShared[T any](ctx context.Context, c *Client, q *apiCall, key string, f func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, c.noResponseError(q, context.Cause(ctx))
	}
	done := c.inFlight.DoChan(key, func() (any, error) { return f(context.WithoutCancel(ctx)) })
	select {
	case r := <-done:
		if r.Err != nil {
			return none, r.Err
		}
		return r.Val.(T), nil
	case <-ctx.Done():
		return none, c.noResponseError(q, context.Cause(ctx))
	}
}

// describeCredentials returns the kind of credentials that a client uses, for error
// messages.
func describeCredentials(cfg *rest.Config) string {
	switch {
	case cfg.ExecProvider != nil:
		return "those that " + cfg.ExecProvider.Command + " gives"
	case cfg.AuthProvider != nil:
		return "the auth provider " + cfg.AuthProvider.Name
	case cfg.BearerTokenFile != "":
		return "the token in " + cfg.BearerTokenFile
	case cfg.BearerToken != "":
		return "a bearer token"
	case cfg.CertFile != "":
		return "the certificate " + cfg.CertFile
	case len(cfg.CertData) > 0:
		return "a client certificate"
	case cfg.Username != "":
		return "a user name and password"
	}
	return "there are none"
}
