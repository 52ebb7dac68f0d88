// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux

package hostrun

import (
	"errors"
	"io"
)

// programOutput is empty, because there is no systemd.
type programOutput struct{}

func newOutput(int64) (*programOutput, error)             { return nil, errors.ErrUnsupported }
func newFileOutput(string, int64) (*programOutput, error) { return nil, errors.ErrUnsupported }

func (*programOutput) fd() int                { return -1 }
func (*programOutput) close()                 {}
func (*programOutput) isFull() bool           { return false }
func (*programOutput) copyTo(io.Writer) error { return nil }
