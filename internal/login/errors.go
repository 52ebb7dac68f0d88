// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"errors"
	"fmt"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// ErrPlainHTTP is in the chain of a failure that an insecure [Target] would
// have allowed, if it was the registry.
var ErrPlainHTTP = errors.New("only registries on loopback are spoken to without TLS, unless it is asked for")

// ErrNoUser says why a credential was not tried: containerd refuses such a one too.
var ErrNoUser = errors.New("the credential has no user name: it is not sent, as container runtimes refuse it too")

var (
	errSent = errors.New("the login ended while the request's body was sent, which cannot be sent again: begin the upload anew")
	errIdle = errors.New("idle for too long")
	errSlow = fmt.Errorf("too slow: an answer is given up that brings less than %d bytes in a minute", rateBytes)
)

// StatusOf returns the HTTP status that an error reports, or 0.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*transport.Error](err); ok {
		return e.StatusCode
	}
	return 0
}
