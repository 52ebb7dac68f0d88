// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package process

import (
	"errors"
	"os/exec"
	"path/filepath"
	"time"
)

// An executable that is open for writing cannot be started. It is open while it is
// being replaced, and for a moment after a multithreaded process has written it. The
// start is therefore retried for up to 630 ms.
const (
	minRetryPause = 10 * time.Millisecond
	maxRetryPause = 320 * time.Millisecond
)

// startProgram starts the program. It retries while the executable is open for writing.
func (c Command) startProgram(l runLimits) (*runningProgram, error) {
	for pause := minRetryPause; ; pause *= 2 {
		if l.ctx.Err() != nil {
			return nil, canceledError(l.ctx)
		}
		p, err := c.startWithPipes()
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, errTextBusy) || pause > maxRetryPause {
			return nil, &Error{ReasonNotStarted, c.startError(err)}
		}
		select {
		case <-time.After(pause):
		case <-l.ctx.Done():
		case <-l.deadline:
			return nil, c.timeoutError()
		}
	}
}

// execCmd returns the os/exec command. It avoids exec.Command, which would search PATH.
// On Windows, Start adds an extension from PATHEXT.
func (c Command) execCmd() *exec.Cmd {
	path := c.Path
	if path != "" && filepath.Base(path) == path {
		path = "." + string(filepath.Separator) + path
	}
	return &exec.Cmd{
		Path:        path,
		Args:        append([]string{path}, c.Args...),
		Env:         append([]string{}, c.Environ...), // os/exec treats nil as "inherit"
		Dir:         c.Dir,
		SysProcAttr: NewGroupAttr(),
	}
}
