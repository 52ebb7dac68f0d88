// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/terminal"
)

func (a *app) prepullCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prepull -f LIST",
		Short: "Pull many images into the node's container runtime, before a pod asks for them",
		Long: `prepull pulls a list of images into containerd or CRI-O over CRI, as a kubelet
would: for each it looks up the credentials, and tries without any once
anonymously, otherwise once with each of them in order until one works. Images
that are there already are left alone.

LIST has an image on each line; what follows a "#" is a comment. "-" is standard
input. Nothing is pulled if a line is not an image.

Only credentials of the node are used: what is pulled behind the kubelet's back
is open to every pod of the node (KEP-2535). --allow-all-pods lifts that.

The exit code is 0 if every image is there in the end, and 1 otherwise.`,
		Example: `  sudo regcred prepull --as-kubelet -f images.txt
  kubectl get pods -A -o jsonpath='{.items[*].spec.containers[*].image}' |
    tr ' ' '\n' | sudo regcred prepull -f -
  sudo regcred prepull -f images.txt --parallel 8 -o json`,
		Args: atMost(),
	}
	f := &runtimeFlags{endpoint: node.AutoEndpoint}
	var list string
	cmd.Flags().StringVarP(&list, "file", "f", "", "`list` of images, one on a line; \"-\" is standard input (required)")
	f.register(cmd, pull.PullIfNotPresent, pull.PullAlways, pull.PullNever)
	cmd.Flags().IntVar(&f.parallel, "parallel", 4, "`number` of images to pull at a time")
	f.format = addOutputFlag(cmd, "text", "json")
	f.lookupFlags = addLookupFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if list == "" {
			return usageError(helpHint(cmd), "%s: -f LIST is missing", cmd.CommandPath())
		}
		if err := f.check(); err != nil {
			return err
		}
		images, err := readImages(cmd.Context(), list, cmd.InOrStdin())
		if err != nil {
			return err
		}
		return a.pullIntoRuntime(cmd.Context(), f, images)
	}
	return cmd
}

// maxImageList bounds a list of images, in bytes.
const maxImageList = 4 << 20

// readImages reads a list: each image once, in order. All bad lines are named.
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
	switch {
	case len(bad) > 0:
		return nil, badLines(name, bad)
	case len(images) == 0:
		return nil, fmt.Errorf("%s holds no image", name)
	}
	return images, nil
}

// readStdin reads until ctx ends: a terminal or a pipe may never have an end,
// and reading it knows no context.
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

// badLines names the bad lines, but not all those of a file that is no list.
func badLines(name string, bad []error) error {
	const most = 10
	if n := len(bad) - most; n > 0 {
		bad = append(bad[:most:most], fmt.Errorf("%s: %s more are not images", name, terminal.Count(n, "line")))
	}
	return withHint(errors.Join(bad...), "nothing was pulled; mend the list")
}
