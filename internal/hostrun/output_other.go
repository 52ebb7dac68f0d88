// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux

package hostrun

import (
	"errors"
	"io"
)

// output is nothing: there is no systemd.
type output struct{}

func newOutput(int64) (*output, error)          { return nil, errors.ErrUnsupported }
func keptOutput(string, int64) (*output, error) { return nil, errors.ErrUnsupported }

func (*output) fd() int                { return -1 }
func (*output) close()                 {}
func (*output) full() bool             { return false }
func (*output) copyTo(io.Writer) error { return nil }
