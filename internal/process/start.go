// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package process

import (
	"errors"
	"os/exec"
	"path/filepath"
	"time"
)

// An executable that is open for writing cannot be started. It is open while
// it is being replaced, and for a moment after a process with several threads
// has written it. So the start is retried for 630 ms in all.
const (
	minRetryPause = 10 * time.Millisecond
	maxRetryPause = 320 * time.Millisecond
)

// start starts the program.
func (c Command) start(l runLimits) (*runningProgram, error) {
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

// execCmd returns the command for os/exec. exec.Command would search PATH. On
// Windows, Start adds an extension of PATHEXT.
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
		SysProcAttr: newProcessGroup(),
	}
}
