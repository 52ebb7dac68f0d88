// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"io/fs"
	"os"
	"path/filepath"
)

// executable tells executables apart, as far as a look at the directory can.
type executable struct{ info fs.FileInfo } // nil if there is none, or none is needed

// executableOf looks at the executable of a provider.
func executableOf(h *host, name string) executable {
	if h.opts.InProcess[name] != nil {
		return executable{}
	}
	path := filepath.Join(h.opts.BinDir, name)
	if h.opts.BinDir != "" && !filepath.IsAbs(path) {
		path = filepath.Join(h.opts.Command.Dir, path)
	}
	for _, path := range []string{path, path + ".exe"} { // as Windows looks for it
		if info, err := os.Stat(path); err == nil {
			return executable{info}
		}
	}
	return executable{}
}

func (b executable) same(c executable) bool {
	if b.info == nil || c.info == nil {
		return b.info == c.info
	}
	return os.SameFile(b.info, c.info) && b.info.Size() == c.info.Size() &&
		b.info.Mode() == c.info.Mode() && b.info.ModTime().Equal(c.info.ModTime()) && changed(b.info) == changed(c.info)
}
