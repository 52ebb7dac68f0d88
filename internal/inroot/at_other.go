// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux

package inroot

import (
	"math"
	"os"
	"path/filepath"
)

const nonblock = 0

// at calls do with a path by which this process reaches a file of the node.
// Nodes run Linux only, so links may lead out of the root directory here.
func (f FS) at(name string, do func(at string) error) error {
	return f.named(name, do(f.Host(filepath.FromSlash(name))))
}

func (f FS) follow(name string, do func(at string) error) error { return f.at(name, do) }

func (f FS) nameOf(at string) (string, error) { return filepath.EvalSymlinks(at) }

// Label returns "": there is no SELinux.
func (FS) Label(string) string { return "" }

func setLabel(*os.File, string) error { return nil }

// Refusal only checks that the file exists.
func (f FS) Refusal(dir string) error {
	_, err := f.Stat(dir)
	return err
}

// NoExec returns false: there are no such mounts.
func (FS) NoExec(string) bool { return false }

// Free returns no limit.
func (FS) Free(string) (uint64, error) { return math.MaxUint64, nil }
