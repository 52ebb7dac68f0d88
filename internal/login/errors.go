// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"errors"
	"fmt"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// ErrPlainHTTP is wrapped by a failure that an insecure [Target] would have
// avoided.
var ErrPlainHTTP = errors.New("plain HTTP is allowed only for loopback registries unless explicitly requested")

// ErrNoUser reports a credential that was not tried because, like containerd,
// this package rejects it.
var ErrNoUser = errors.New("the credential was not sent because it has no user name; container runtimes also reject credentials without a user name")

var (
	errSent = errors.New("the credential expired while the request body was being sent, and the body cannot be resent: restart the upload")
	errIdle = errors.New("idle for too long")
	errSlow = fmt.Errorf("the transfer is too slow (less than %d bytes per minute)", rateBytes)
)

// StatusOf returns the HTTP status in an error, or 0.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*transport.Error](err); ok {
		return e.StatusCode
	}
	return 0
}
