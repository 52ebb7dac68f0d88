// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registry

import (
	"fmt"
	"time"

	"github.com/regcred/regcred/plugin"
)

// OtherHosts selects how a plugin responds for a host that it does not serve. It
// is the value of the flag --other-hosts; "" means [FailOthers].
type OtherHosts string

// The values of --other-hosts.
const (
	FailOthers  OtherHosts = "fail"  // return an error
	EmptyOthers OtherHosts = "empty" // return no credential
)

// Response returns the response for an image of a host that the plugin does not
// serve. The error contains why and fix, as in "image host H is WHY, so it
// gets no credential; remove it from matchImages, FIX, or …".
func (o OtherHosts) Response(host, why, fix string) (*plugin.Response, error) {
	if o == EmptyOthers {
		return &plugin.Response{CacheKeyType: plugin.CacheRegistry, CacheDuration: new(time.Duration(0))}, nil
	}
	return nil, fmt.Errorf("image host %q is %s, so it gets no credential; remove it from matchImages, %s, "+
		"or set --other-hosts=%s", host, why, fix, EmptyOthers)
}

// Validate rejects unknown values.
func (o OtherHosts) Validate() error {
	if o == "" {
		return nil
	}
	if err := new(OtherHosts).UnmarshalText([]byte(o)); err != nil {
		return fmt.Errorf("--other-hosts %q: %w", string(o), err)
	}
	return nil
}

// MarshalText returns the value as the flag takes it.
func (o OtherHosts) MarshalText() ([]byte, error) { return []byte(o), nil }

// UnmarshalText sets the value, which must be one of the constants.
func (o *OtherHosts) UnmarshalText(text []byte) error {
	switch v := OtherHosts(text); v {
	case FailOthers, EmptyOthers:
		*o = v
		return nil
	}
	return fmt.Errorf("must be %s or %s", FailOthers, EmptyOthers)
}
