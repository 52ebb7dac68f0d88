// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/plugin"
)

// DefaultImage is the image to request if Options contains none.
const DefaultImage = "registry.example/team/app"

// DefaultConcurrency is the number of plugins that the check "concurrent" runs in
// parallel.
const DefaultConcurrency = 20

// Options configures the checks. With the zero value, the plugin is expected to have
// credentials for every image.
type Options struct {
	// Images lists images for which the plugin has credentials, with a host and without tag or
	// digest, such as "registry.example/team/app". Most checks request the first image. The
	// default is [DefaultImage]. To check cacheKeyType, add an image in the same registry and
	// an image in another registry.
	Images []string

	// ServiceAccount must be set for a plugin that uses tokenAttributes. Each v1 request then
	// contains its token. If ServiceAccount is nil, only the service-account checks send a
	// token, which is generated.
	ServiceAccount *ServiceAccount

	// Concurrency is the number of plugins to run in parallel. Zero means
	// [DefaultConcurrency]; the maximum is 1,000.
	Concurrency int

	// Only lists the IDs of the checks to run; empty means all. Unknown IDs are
	// ignored.
	Only []string

	// Progress, if not nil, is called before each check with the number of finished
	// checks and the total. Calls are not concurrent.
	Progress func(done, total int, id string)
}

// ServiceAccount is the service account in requests to a plugin in service-account mode
// (KEP-4412).
type ServiceAccount struct {
	// Token is a token for the audience that the plugin expects. If it is empty, a
	// token is generated. No service accepts a generated token.
	Token plugin.Secret

	// Audience is the audience of a generated token; empty means "conformance.example".
	Audience string

	// Annotations are the service account's annotations that tokenAttributes selects.
	Annotations map[string]string

	// CacheType is the cacheType in tokenAttributes. If it is empty, a response that is valid
	// only with one of the cache types causes a warning instead of an error.
	CacheType config.TokenCacheType

	// Required means that the plugin needs a token (requireServiceAccount). It must then fail
	// or return no credentials if a request has no token.
	Required bool
}
