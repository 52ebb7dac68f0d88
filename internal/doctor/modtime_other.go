// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux

package doctor

import (
	"os"
	"time"
)

// changeTime returns when a file was written.
func changeTime(path string) (time.Time, error) {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}
