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
	firstPause = 10 * time.Millisecond
	lastPause  = 320 * time.Millisecond
)

// start starts the program.
func (c Command) start(l limits) (*running, error) {
	for pause := firstPause; ; pause *= 2 {
		if l.ctx.Err() != nil {
			return nil, canceled(l.ctx)
		}
		p, err := c.spawn()
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, errBusy) || pause > lastPause {
			return nil, &Error{NotStarted, c.startError(err)}
		}
		select {
		case <-time.After(pause):
		case <-l.ctx.Done():
		case <-l.deadline:
			return nil, c.timedOut()
		}
	}
}

// cmd returns the command for os/exec. exec.Command would search PATH. On
// Windows, Start adds an extension of PATHEXT.
func (c Command) cmd() *exec.Cmd {
	path := c.Path
	if path != "" && filepath.Base(path) == path {
		path = "." + string(filepath.Separator) + path
	}
	return &exec.Cmd{
		Path:        path,
		Args:        append([]string{path}, c.Args...),
		Env:         append([]string{}, c.Environ...), // os/exec treats nil as "inherit"
		Dir:         c.Dir,
		SysProcAttr: ownGroup(),
	}
}
