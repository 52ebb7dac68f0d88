// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package corpus

import (
	"os"
	"path/filepath"
)

// Write writes the configuration to dir, which it creates, and returns the path to pass
// to a kubelet.
func (c Config) Write(dir string) (path string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for _, f := range c.Files {
		if err := f.writeTo(filepath.Join(dir, f.Name)); err != nil {
			return "", err
		}
	}
	if c.IsDir {
		return dir, nil
	}
	return filepath.Join(dir, c.Files[0].Name), nil
}

func (f File) writeTo(path string) error {
	switch {
	case f.Dir:
		return os.Mkdir(path, 0o700)
	case f.Symlink != "":
		return os.Symlink(f.Symlink, path)
	}
	return os.WriteFile(path, []byte(f.Content), 0o600)
}
