// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import "context"

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
