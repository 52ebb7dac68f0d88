// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote

import "errors"

// IsPermanent reports whether it does not help to ask again after what [Cause]
// returned.
func IsPermanent(cause error) bool { return errors.Is(cause, errPermanent) }

var errPermanent = errors.New("retrying does not help")

// permanent is an error that errors.Is takes for errPermanent.
type permanent struct{ error }

func (permanent) Is(target error) bool { return target == errPermanent }
func (p permanent) Unwrap() error      { return p.error }
