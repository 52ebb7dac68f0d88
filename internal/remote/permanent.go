// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote

import "errors"

// IsPermanent reports whether a retry cannot succeed after an error of [Cause].
func IsPermanent(cause error) bool { return errors.Is(cause, errPermanent) }

var errPermanent = errors.New("retrying does not help")

// permanent is an error that matches errPermanent.
type permanent struct{ error }

func (permanent) Is(target error) bool { return target == errPermanent }
func (p permanent) Unwrap() error      { return p.error }
