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

// RunGo runs the go command in dir and returns its trimmed output. If dir is empty, it uses the
// current directory. An error includes the command's error output or, if ctx was canceled, the
// cause.
func RunGo(ctx context.Context, dir string, args ...string) (string, error) {
	temp, err := os.MkdirTemp(os.Getenv("GOTMPDIR"), "regcred-go-") // a go command that is killed does not remove its files
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	// Ignore a workspace that contains the module: -modfile is not allowed in it.
	cmd.Env = append(cmd.Environ(), "GOWORK=off", "GOTMPDIR="+temp)
	out, err := cmd.Output()
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("go %s: %w", args[0], context.Cause(ctx))
	} else if e, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("go %s: %w\n%s", args[0], err, e.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
