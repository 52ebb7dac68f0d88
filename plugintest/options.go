// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/plugin"
)

// DefaultImage is the requested image if Options has none.
const DefaultImage = "registry.example/team/app"

// DefaultConcurrency is the number of plugins that the check "concurrent" runs at
// once.
const DefaultConcurrency = 20

// Options configures the checks. The zero value is for a plugin that responds for
// every image.
type Options struct {
	// Images are images that the plugin has credentials for, with host and without tag or
	// digest: "registry.example/team/app". The first is requested; the default is
	// [DefaultImage]. Add an image of the same registry and one of another registry to
	// check cacheKeyType.
	Images []string

	// ServiceAccount is set for a plugin that uses tokenAttributes: each v1 request
	// contains the token. If it is nil, only the checks of service-account mode send a
	// token, which is generated.
	ServiceAccount *ServiceAccount

	// Concurrency is the number of plugins that run at once. Zero means
	// [DefaultConcurrency]; the maximum is 1,000.
	Concurrency int

	// Only has the IDs of the checks to run; empty means all. Unknown IDs are ignored.
	Only []string

	// Progress, if not nil, is called before each check with the number of finished
	// checks and of all checks. Calls are not concurrent.
	Progress func(done, total int, id string)
}

// ServiceAccount is the identity in the requests to a plugin in service-account mode
// (KEP-4412).
type ServiceAccount struct {
	// Token is for the audience that the plugin expects. If it is empty, a token is
	// generated, which no service accepts.
	Token plugin.Secret

	// Audience is the audience of a generated token; empty means "conformance.example".
	Audience string

	// Annotations are the service account's annotations that tokenAttributes selects.
	Annotations map[string]string

	// CacheType is the cacheType of tokenAttributes. If it is empty, a response that
	// needs one of the two types is only a warning.
	CacheType config.TokenCacheType

	// Required means that the plugin needs a token (requireServiceAccount): without a
	// token, it must fail or return no credentials.
	Required bool
}
