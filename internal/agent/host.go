// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/regcred/regcred/internal/hostrun"
)

// Host runs regcred on the node.
type Host interface {
	// Run runs regcred there with arguments, until it ends, and returns what it printed
	// on standard output and its exit code. The error is that it could not be run, or
	// that ctx has ended: it is then not ended with it, since a change that has begun is
	// carried through. What it prints on standard error goes to the pod's log.
	Run(ctx context.Context, args ...string) (stdout []byte, code int, err error)

	// Path is where the node has a file of the directory that is handed over to it.
	Path(name string) string
}

// UnsupportedError says that regcred cannot be run on a node of that kind, and so
// never was: it has no systemd.
type UnsupportedError struct{ Why string }

func (e *UnsupportedError) Error() string { return e.Why }

// UnitName is that of the unit in which the node's systemd runs regcred for a pod:
// one for all charts and pods, so that no two change the node at once.
const UnitName = "regcred-agent.service"

// runner runs programs on a node: a [hostrun.Runner].
type runner interface {
	Run(ctx context.Context, c hostrun.Command, stdout, stderr io.Writer) (code int, err error)
}

// HostOf is the node that a runner runs programs on, for an agent with these options,
// whose directory Work is at hostWork there. What regcred says on standard error goes
// to stderr.
func HostOf(r runner, o Options, hostWork string, stderr io.Writer) Host {
	return &systemdHost{runner: r, dir: path.Join(hostWork, handedOver), answer: filepath.Join(o.Work, answerName), limit: o.Install.Limit(), stderr: stderr}
}

type systemdHost struct {
	runner runner
	dir    string        // on the node
	answer string        // a file of this pod, for what a change answers
	limit  time.Duration // of a change
	stderr io.Writer
}

// Path is below the directory that is handed over.
func (h *systemdHost) Path(name string) string { return path.Join(h.dir, name) }

// Run runs the regcred that was handed over. The answer of a change is kept for the
// container that comes after this one, if this one is ended before.
func (h *systemdHost) Run(ctx context.Context, args ...string) (stdout []byte, code int, err error) {
	c := hostrun.Command{Path: h.Path(regcredName), Args: args, Limit: h.limit}
	if args[0] == "status" {
		c.Limit = lookLimit
	} else if !slices.Contains(args, "--dry-run") {
		c.Keep = h.answer
	}
	var out bytes.Buffer
	code, err = h.runner.Run(ctx, c, &out, h.stderr)
	if none, ok := errors.AsType[*hostrun.NoSystemdError](err); ok {
		err = &UnsupportedError{none.Error()}
	}
	return out.Bytes(), code, err
}
