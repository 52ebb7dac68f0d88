// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/regcred/regcred/internal/await"
)

// executable tells executables apart, as far as a look at the directory can.
type executable struct{ info fs.FileInfo } // nil if there is none, or none is needed

// maxLook is for how long New and Reload look at an executable; a lookup does
// for as long as a run may take. It may be on a mount that hangs.
const maxLook = time.Second

// executableOf looks at the executable of a provider, for so long at most. An
// error says that there was no time, and not that there is no executable.
func executableOf(ctx context.Context, h *host, name string, most time.Duration) (executable, error) {
	if h.opts.InProcess[name] != nil {
		return executable{}, nil
	}
	path := filepath.Join(h.opts.BinDir, name)
	if h.opts.BinDir != "" && !filepath.IsAbs(path) {
		path = filepath.Join(h.opts.Command.Dir, path)
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return await.Result(ctx, fmt.Sprintf("check %s: a mount might be hanging", path), func() (executable, error) {
		for _, path := range []string{path, path + ".exe"} { // as Windows looks for it
			if info, err := os.Stat(path); err == nil {
				return executable{info}, nil
			}
		}
		return executable{}, nil
	})
}

func (b executable) same(c executable) bool {
	if b.info == nil || c.info == nil {
		return b.info == c.info
	}
	return os.SameFile(b.info, c.info) && b.info.Size() == c.info.Size() &&
		b.info.Mode() == c.info.Mode() && b.info.ModTime().Equal(c.info.ModTime()) && changed(b.info) == changed(c.info)
}
