// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"strconv"
	"syscall"

	"github.com/regcred/regcred/internal/inroot"
)

// reserveDir contains files whose space and inodes a rollback, an uninstall or the undoing of an
// install uses on a full disk, for the journal, the records and the temporary files.
const reserveDir = "reserve"

const (
	reserveFiles = 4
	reserveSize  = 128 << 10 // bytes of each file
)

// createReserve creates the files that are missing. Their content cannot be compressed, because
// a compressing file system would reserve no space for it.
func (in *Installer) createReserve() error {
	node := inroot.FS{Root: in.fs().Root, Overlay: in.fs().Overlay} // the files are not part of a change
	if err := node.Mkdir(in.Store.Path(reserveDir), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for i := range reserveFiles {
		content := io.LimitReader(rand.NewChaCha8([32]byte{byte(i)}), reserveSize)
		err := node.CreateFile(in.Store.Path(reserveDir, strconv.Itoa(i)), content, inroot.FileAttr{Mode: 0o600})
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// releaseReserve makes the reserved space available. The change that ends next reserves it again.
func (in *Installer) releaseReserve() { _ = in.fs().RemoveAll(in.Store.Path(reserveDir)) }

// isFull reports whether a file system has no space or inodes left.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
