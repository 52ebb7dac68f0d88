// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"bytes"
	"context"
	"io"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/regcred/regcred/internal/hostrun"
)

// Host runs regcred on the node.
type Host interface {
	// Run runs regcred on the node, and returns its standard output and exit code. Its
	// standard error goes to the pod's log.
	//
	// An error means that regcred could not be run, or that ctx has ended. If ctx has ended,
	// regcred continues on the node, so that a change is completed. On a node without
	// systemd, the error is a [*hostrun.NoSystemdError].
	Run(ctx context.Context, args ...string) (stdout []byte, code int, err error)

	// Path returns the path on the node of a file in the directory that the pod shares
	// with the node.
	Path(name string) string
}

// UnitName is the unit in which the node's systemd runs regcred for a pod. All charts
// and pods use the same unit, so that only one of them changes the node at a time.
const UnitName = "regcred-agent.service"

// commandRunner runs programs on a node. It is implemented by [hostrun.Runner].
type commandRunner interface {
	Run(ctx context.Context, c hostrun.Command, stdout, stderr io.Writer) (code int, err error)
}

// NewSystemdHost returns a Host that runs regcred with r. hostWork is the path of o.Work on
// the node. regcred's standard error goes to stderr.
func NewSystemdHost(r commandRunner, o Options, hostWork string, stderr io.Writer) Host {
	return &systemdHost{runner: r, dir: path.Join(hostWork, sharedDir), resultFile: filepath.Join(o.WorkDir, resultFileName), limit: o.Install.ChangeTimeout(), stderr: stderr}
}

type systemdHost struct {
	runner     commandRunner
	dir        string        // path of the shared directory on the node
	resultFile string        // this pod's file for the result of a change
	limit      time.Duration // time limit of a change
	stderr     io.Writer
}

// Path returns a path below the shared directory.
func (h *systemdHost) Path(name string) string { return path.Join(h.dir, name) }

// Run runs the node's copy of regcred. The result of a change is saved in a file in
// case this container ends first.
func (h *systemdHost) Run(ctx context.Context, args ...string) (stdout []byte, code int, err error) {
	c := hostrun.Command{Path: h.Path(regcredName), Args: args, Timeout: h.limit}
	if args[0] == "status" {
		c.Timeout = statusTimeout
	} else if !slices.Contains(args, "--dry-run") {
		c.OutputFile = h.resultFile
	}
	var out bytes.Buffer
	code, err = h.runner.Run(ctx, c, &out, h.stderr)
	return out.Bytes(), code, err
}
