// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/terminal"
)

// maxImageList limits the size of an image list, in bytes.
const maxImageList = 4 << 20

// readImages reads a list of images in order, without duplicates. The list may be
// empty. The error contains all invalid lines.
func readImages(ctx context.Context, name string, stdin io.Reader) ([]string, error) {
	var data []byte
	var err error
	if name == "-" {
		name = "standard input"
		data, err = readStdin(ctx, stdin)
	} else {
		data, err = regularfile.Read(ctx, name, maxImageList)
	}
	if err != nil {
		return nil, fmt.Errorf("-f: %w", err)
	}
	var images []string
	var bad []error
	seen := map[string]bool{}
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(string(data), "\ufeff")) {
		n++
		image, _, _ := strings.Cut(line, "#")
		if image = strings.TrimSpace(image); image == "" {
			continue
		}
		full, err := pull.FullName(image)
		if err != nil {
			bad = append(bad, fmt.Errorf("%s:%d: %w", name, n, err))
		} else if !seen[full] {
			seen[full] = true
			images = append(images, image)
		}
	}
	if len(bad) > 0 {
		return nil, badLines(name, bad)
	}
	return images, nil
}

// readStdin reads until EOF or until ctx is done, because a read from a terminal or
// pipe cannot be canceled.
func readStdin(ctx context.Context, stdin io.Reader) ([]byte, error) {
	done := make(chan struct{})
	var data []byte
	var err error
	go func() {
		defer close(done)
		data, err = io.ReadAll(io.LimitReader(stdin, maxImageList+1))
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-done:
	}
	if len(data) > maxImageList {
		return nil, fmt.Errorf("standard input is larger than %s", terminal.Bytes(maxImageList))
	}
	return data, err
}

// badLines joins the errors of invalid lines, up to a limit.
func badLines(name string, bad []error) error {
	const most = 10
	if n := len(bad) - most; n > 0 {
		bad = append(bad[:most:most], fmt.Errorf("%s: invalid images on another %s", name, terminal.Count(n, "line")))
	}
	return withHint(errors.Join(bad...), "fix the image list; nothing was pulled")
}
