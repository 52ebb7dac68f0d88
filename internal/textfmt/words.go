// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package textfmt

import (
	"fmt"
	"strings"
)

// FormatCount returns a number with a noun in the singular or plural: "1 credential", "2
// credentials".
func FormatCount(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok && !strings.HasSuffix(stem, "a") { // days
		noun = stem + "ie"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// FlattenErrors returns the errors joined by [errors.Join].
func FlattenErrors(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var list []error
	for _, e := range joined.Unwrap() {
		list = append(list, FlattenErrors(e)...)
	}
	return list
}
