// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"time"

	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// Provider is a [plugin.Provider]. It is safe for concurrent use.
type Provider struct {
	opts         Options // without nil Logger and Now
	registries   []registryPattern
	username     template // nil if the user name comes from the response
	needsToken   bool     // if false, the token is ignored
	sendsToken   bool     // the token is sent to an endpoint or registry
	cacheKeyType plugin.CacheKeyType
	exchange     *compiledExchange
	client       remote.Client
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
