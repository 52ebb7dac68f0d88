// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"slices"
	"sync"
)

// maxLeftovers is how many plugins that have exited may leave their pipes to
// something that they started. Each costs two descriptors and three goroutines
// for as long as that lives, which a kubelet would wait for.
const maxLeftovers = 32

// leftovers are the pipes of plugins that have exited, the oldest first. There
// is one of it, since descriptors are those of the process, whoever runs the
// plugins.
type leftovers struct {
	mu    sync.Mutex
	pipes []*pipes
}

var left leftovers

// add keeps pipes open until nobody holds them, descriptors are short, or there are
// too many: then the oldest are closed, and who still writes to them gets SIGPIPE, or EPIPE.
func (l *leftovers) add(p *pipes) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pipes = append(slices.DeleteFunc(l.pipes, (*pipes).isSettled), p)
	for len(l.pipes) > maxLeftovers {
		l.closeOldest()
	}
}

// giveUp closes the oldest, if there is one.
func (l *leftovers) giveUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pipes = slices.DeleteFunc(l.pipes, (*pipes).isSettled); len(l.pipes) == 0 {
		return false
	}
	l.closeOldest()
	return true
}

func (l *leftovers) closeOldest() {
	l.pipes[0].close()
	l.pipes = slices.Delete(l.pipes, 0, 1)
}

// pipes are what a plugin writes to.
type pipes struct {
	settled        chan struct{} // closed when the plugin is gone and nobody holds them: one signal to wait for, not three
	stdout, stderr *stream
}

func (p *pipes) isSettled() bool { return closed(p.settled) }

// close stops reading.
func (p *pipes) close() {
	p.stdout.close()
	p.stderr.close()
}
