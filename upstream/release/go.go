// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Go runs the go command in a directory, "" for the current one, and returns what it
// prints, trimmed. Of a failure the error has what it says; where ctx ends, the cause.
func Go(ctx context.Context, dir string, args ...string) (string, error) {
	temp, err := os.MkdirTemp(os.Getenv("GOTMPDIR"), "regcred-go-") // a build that is killed removes nothing itself
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	// What is meant is the module, not a workspace, and may be another file of it.
	cmd.Env = append(cmd.Environ(), "GOWORK=off", "GOTMPDIR="+temp)
	out, err := cmd.Output()
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("go %s: %w", args[0], context.Cause(ctx))
	} else if e, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("go %s: %w\n%s", args[0], err, e.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
