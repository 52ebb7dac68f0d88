// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package release

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Go runs the go command in a directory, "" for the current one, and returns what it
// prints, trimmed. Of a failure the error has what it says.
func Go(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "GOWORK=off") // what is meant is the module, and may be another file of it
	out, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("go %s: %w\n%s", args[0], err, e.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
