// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/plugin"
)

// DefaultImage is asked for where Options name no image.
const DefaultImage = "registry.example/team/app"

// DefaultConcurrency is how many plugins run side by side in the check "concurrent".
const DefaultConcurrency = 20

// Options say how a plugin is checked. The zero value is usable, and best for
// a plugin that answers for every image.
type Options struct {
	// Images are images that the plugin has credentials for, without tag or
	// digest, host included: "registry.example/team/app". The first is the one
	// asked for; none means [DefaultImage]. A second one of the same registry
	// and a third of another let more be said about cacheKeyType.
	Images []string

	// ServiceAccount is set for a plugin that is configured with
	// tokenAttributes: then every request in v1 carries the token. nil means
	// that it is not; then only the checks of service-account mode send a
	// token, a made-up one.
	ServiceAccount *ServiceAccount

	// Concurrency is how many plugins run side by side; 0 means
	// [DefaultConcurrency]. It is at most 1,000.
	Concurrency int

	// Only are the ids of the checks to run; empty means all. [Run] ignores
	// ids that do not exist: see [Checks].
	Only []string

	// Progress, if not nil, is called before each check, with the number of
	// checks done and to do. It is called by one goroutine at a time.
	Progress func(done, total int, id string)
}

// ServiceAccount is the identity that a plugin in service-account mode is given (KEP-4412).
type ServiceAccount struct {
	// Token is one for the audience that the plugin expects. If it is empty,
	// one is made up, which no token service accepts.
	Token plugin.Secret

	// Audience is that of a token that is made up, as in tokenAttributes; ""
	// means "conformance.example".
	Audience string

	// Annotations are those of the service account that the configuration selects.
	Annotations map[string]string

	// CacheType is that of tokenAttributes. "" means that it is not known:
	// then an answer that needs one of the two is a warning.
	CacheType config.TokenCacheType

	// Required says that the plugin needs a token
	// (tokenAttributes.requireServiceAccount): without one, it has to refuse
	// or to answer without credentials.
	Required bool
}
