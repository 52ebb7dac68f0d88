// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"log/slog"
	"time"

	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// Provider is a [plugin.Provider]. It is safe for concurrent use.
type Provider struct {
	registries    []registryPattern
	otherHosts    registry.OtherHosts
	username      *template // nil if the user name comes from the response
	audience      string
	tokenFile     string
	optional      bool
	needsToken    bool // if false, the token is ignored
	sendsToken    bool // the token is sent to an endpoint or registry
	cacheDuration *time.Duration
	cacheKeyType  plugin.CacheKeyType
	exchange      *compiledExchange
	client        remote.Client
	log           *slog.Logger
	now           func() time.Time
}

// registryPattern is an entry of Options.Registries.
type registryPattern struct {
	host    string // without the path
	pattern match.Pattern
}

// credential is the result of a request.
type credential struct {
	username string
	secret   string
	expires  time.Time // zero if unknown
}
