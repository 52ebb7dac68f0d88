// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regularfile

import (
	"context"
	"io"
)

// WithContext returns a reader that fails once ctx is done.
func WithContext(ctx context.Context, r io.Reader) io.Reader { return contextReader{ctx, r} }

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
