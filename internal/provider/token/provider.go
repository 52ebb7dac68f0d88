// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"log/slog"
	"time"

	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// Options configures a [Provider]. The tags describe a configuration file.
type Options struct {
	// Registries lists patterns of registries that may receive credentials. At least
	// one is required. Patterns use the syntax of matchImages, but a * is not allowed
	// in the last two labels of the host or directly below a public suffix.
	Registries []string `yaml:"registries"`

	// OtherHosts is the behavior for other hosts: "fail" (default) or "empty".
	OtherHosts string `yaml:"-"`

	// Username is a template. If it is "", the user name is [DefaultUsername] if the token is the
	// password, and otherwise comes from the endpoint's response.
	Username string `yaml:"username"`

	// Audience is the required audience of the token. "" accepts any audience. It must be set if
	// the token is the password.
	Audience string `yaml:"audience"`

	// TokenFile is the absolute path of a token that is used if the request has no token. The file
	// is read for each request.
	TokenFile string `yaml:"tokenFile"`

	// Optional returns a response without credentials instead of an error when there is
	// no token.
	Optional bool `yaml:"optional"`

	// CacheDuration limits how long responses are cached. If a credential's expiry is unknown,
	// CacheDuration is the cache duration, and zero disables caching.
	CacheDuration *time.Duration `yaml:"cacheDuration"`

	// Exchange configures the exchange. If it is nil, the token is the password.
	Exchange *Exchange `yaml:"exchange"`

	FromFlags bool `yaml:"-"` // errors name the flags of token-credential-provider instead of fields

	Logger *slog.Logger     `yaml:"-"` // nil discards messages
	Now    func() time.Time `yaml:"-"` // nil means [time.Now]
}

// Provider is a [plugin.Provider]. It is safe for concurrent use.
type Provider struct {
	opts         Options // without nil Logger and Now
	registries   []registryPattern
	username     template // nil if the user name comes from the response
	needsToken   bool     // whether a request requires a token
	sendsToken   bool     // whether the token is sent to an endpoint or registry
	cacheKeyType plugin.CacheKeyType
	exchange     *compiledExchange
	client       remote.Client
}

// registryPattern is a pattern in Options.Registries.
type registryPattern struct {
	host    string // without the path
	path    string // without the leading slash
	pattern match.Pattern
}

// credential is the result of a request.
type credential struct {
	username string
	secret   string
	expires  time.Time // zero if unknown
}
