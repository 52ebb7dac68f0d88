// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote

import "errors"

// IsPermanent reports whether it does not help to ask again after what [Cause]
// returned.
func IsPermanent(cause error) bool { return errors.Is(cause, errPermanent) }
