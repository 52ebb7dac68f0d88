// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/regcred/regcred/internal/executable"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/regularfile"
)

// CopyExecutables copies executables into a directory, atomically and with mode 0755.
// It copies nothing if one of them is not a regular file or not a Linux executable. It
// uses no other files from the image.
func CopyExecutables(ctx context.Context, files []string, dir string) error {
	if info, err := os.Stat(dir); err != nil {
		return fmt.Errorf("copy to %s: %w", dir, regularfile.BareError(err))
	} else if !info.IsDir() {
		return fmt.Errorf("copy to %s: not a directory", dir)
	}
	from := map[string]string{}
	for _, name := range files {
		if err := checkExecutable(name); err != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
		base := filepath.Base(name)
		if other, twice := from[base]; twice {
			return fmt.Errorf("copy %s: %s has the same file name", name, other)
		}
		from[base] = name
	}
	to, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for _, name := range files {
		if err := updateExecutable(ctx, name, filepath.Join(to, filepath.Base(name))); err != nil {
			return fmt.Errorf("copy %s to %s: %w", name, dir, regularfile.BareError(err))
		}
	}
	return inroot.FS{}.Sweep(to)
}

// checkExecutable returns an error if a file cannot be executed.
func checkExecutable(name string) error {
	info, err := executable.Read(name)
	switch {
	case err != nil:
		return regularfile.BareError(err)
	case info.Format == executable.FormatEmpty:
		return errors.New("it is empty")
	case info.Format != executable.FormatELF && info.Format != executable.FormatScript:
		return errors.New("not a Linux executable")
	}
	return nil
}
