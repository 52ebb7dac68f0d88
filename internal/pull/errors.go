// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"errors"

	"github.com/regcred/regcred/internal/layout"
)

// localError is an error of this machine, for which other credentials do not
// help.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }

func local(err error) error { return localError{err} }

func isLocal(err error) bool {
	_, here := errors.AsType[localError](err)
	_, ofLayout := errors.AsType[*layout.Error](err)
	return here || ofLayout
}
