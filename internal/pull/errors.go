// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"errors"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/regcred/regcred/internal/layout"
)

// ErrPlainHTTP is in the chain of a failure that [Puller.Insecure] would
// have allowed, if it was the image's registry.
var ErrPlainHTTP = errors.New("only registries on loopback are spoken to without TLS, unless it is asked for")

var (
	errIdle   = errors.New("idle for too long")
	errNoUser = errors.New("the credential has no user name: it is not sent, as container runtimes refuse it too")
)

// opError says at what an error happened.
type opError struct {
	op  string
	err error
}

func (e *opError) Error() string { return e.op + ": " + e.err.Error() }
func (e *opError) Unwrap() error { return e.err }

// localError is one of this machine: another credential does not help.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }

func local(err error) error { return localError{err} }

func isLocal(err error) bool {
	var l localError
	var ofLayout *layout.Error
	return errors.As(err, &l) || errors.As(err, &ofLayout)
}

// judged is an error that tells what a registry answered.
type judged interface {
	error
	answer() (status int, code string)
}

// statusOf returns the HTTP status that an error reports, or 0.
func statusOf(err error) int {
	var terr *transport.Error
	if errors.As(err, &terr) {
		return terr.StatusCode
	}
	return 0
}
