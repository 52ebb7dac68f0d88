// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package hostpattern

import (
	"fmt"
	"time"

	"github.com/regcred/regcred/plugin"
)

// Others is what a plugin does about a host that is none of its own. It is a
// value of a flag; "" is that of [FailOthers].
type Others string

// The values of --other-hosts.
const (
	// FailOthers fails, since that is all that a kubelet shows: a pattern in
	// matchImages reaches a host that nobody serves.
	FailOthers Others = "fail"
	// EmptyOthers answers with no credentials, for patterns that reach
	// strangers' hosts on purpose.
	EmptyOthers Others = "empty"
)

// Answer is the answer for an image of a host that the plugin does not serve.
// Why says so, and serve how it would: both end up in the error, as in
// "image host H: it is WHY and gets no credential; …, SERVE, …".
func (o Others) Answer(host, why, serve string) (*plugin.Response, error) {
	if o == EmptyOthers {
		return &plugin.Response{CacheKeyType: plugin.CacheRegistry, CacheDuration: new(time.Duration(0))}, nil
	}
	return nil, fmt.Errorf("image host %q is %s, so it gets no credential; remove it from matchImages, %s, "+
		"or set --other-hosts=%s", host, why, serve, EmptyOthers)
}

// MarshalText is the value as it is written.
func (o Others) MarshalText() ([]byte, error) { return []byte(o), nil }

// UnmarshalText refuses what is none of the values.
func (o *Others) UnmarshalText(text []byte) error {
	switch v := Others(text); v {
	case FailOthers, EmptyOthers:
		*o = v
		return nil
	}
	return fmt.Errorf("must be %s or %s", FailOthers, EmptyOthers)
}
