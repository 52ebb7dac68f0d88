// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"errors"
	"fmt"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/regcred/regcred/internal/layout"
)

// errPlainHTTP is in the chain of a failure that [Puller.Insecure] would
// have allowed, if it was the image's registry.
var errPlainHTTP = errors.New("only registries on loopback are spoken to without TLS, unless it is asked for")

var (
	errIdle   = errors.New("idle for too long")
	errSlow   = fmt.Errorf("too slow: an answer is given up that brings less than %d bytes in a minute", rateBytes)
	errNoUser = errors.New("the credential has no user name: it is not sent, as container runtimes refuse it too")
)

// localError is one of this machine: another credential does not help.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }

func local(err error) error { return localError{err} }

func isLocal(err error) bool {
	_, here := errors.AsType[localError](err)
	_, ofLayout := errors.AsType[*layout.Error](err)
	return here || ofLayout
}

// statusOf returns the HTTP status that an error reports, or 0.
func statusOf(err error) int {
	if e, ok := errors.AsType[*transport.Error](err); ok {
		return e.StatusCode
	}
	return 0
}
