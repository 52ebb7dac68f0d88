// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux

package inroot

import "os"

// renameChecked renames temp to at. It does not call check, because files are exchanged only on
// Linux.
func renameChecked(temp, at string, _ func(old string) error) error { return os.Rename(temp, at) }

// removeChecked removes at. It does not call check.
func removeChecked(_, at string, _ func(old string) error) error { return os.Remove(at) }
