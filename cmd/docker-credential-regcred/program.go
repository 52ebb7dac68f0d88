// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docker/docker-credential-helpers/credentials"

	"github.com/regcred/regcred/internal/await"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/textfmt"
	"github.com/regcred/regcred/plugin"
)

const (
	usage    = "Usage: " + programName + " <get|list|erase|store|version>"
	helpText = usage + `

A docker credential helper: the get command reads a registry name from standard
input and prints the first credential that this machine's Kubernetes credential
providers return for it. The list command prints the configuration's registries.

The configuration is taken from REGCRED_CONFIG and REGCRED_BIN_DIR, the node, or
` + node.DefaultConfig + ` with its plugins in ` + node.DefaultBinDir + `.`
)

// maxInputSize limits the length of a server name, in bytes.
const maxInputSize = 4096

// maxErrorLength is the approximate maximum length of an error message, in bytes.
const maxErrorLength = 8 << 10

// timeouts holds the timeouts. The plugin's timeout is the shortest, so that the error
// can name the provider that did not respond.
type timeouts struct{ input, plugin, run time.Duration }

// killGracePeriod is how long the helper waits for a plugin to exit after a timeout.
const killGracePeriod = 2 * time.Second

// program is one run of the helper.
type program struct {
	stdin   io.Reader
	stdout  io.Writer
	machine environment
	limits  timeouts
}

// run runs the helper and returns the exit code. As the protocol requires, errors go to
// standard output; standard error stays empty.
func (p program) run(ctx context.Context, args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(p.stdout, usage)
		return 1
	}
	switch args[0] {
	case "--help", "-h":
		fmt.Fprintln(p.stdout, helpText)
		return 0
	case credentials.ActionVersion, "--version", "-v":
		return plugin.Serve(ctx, nil, plugin.ServeOptions{Stdout: p.stdout, Args: []string{"--version"}, Name: programName, Version: version})
	}
	response, err := p.handleAction(ctx, args[0])
	if err != nil {
		fmt.Fprintln(p.stdout, errorLine(err))
		return 1
	}
	if _, err := p.stdout.Write(response); err != nil {
		return 1
	}
	return 0
}

// errorLine returns the text of err on one line. The protocol's errors are returned unchanged,
// because clients compare their text.
func errorLine(err error) string {
	if credentials.IsErrCredentialsNotFound(err) || credentials.IsCredentialsMissingServerURL(err) {
		return err.Error()
	}
	text := programName + ": " + strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ") // joined errors are separated by newlines
	if e, ok := errors.AsType[*node.HintError](err); ok && e.Hint != "" {
		text += "; " + e.Hint
	}
	text = textfmt.EscapeLine(strings.Join(strings.Fields(text), " "))
	if len(text) > maxErrorLength {
		text = strings.ToValidUTF8(text[:maxErrorLength], "") + "…"
	}
	return text
}

// handleAction runs an action with the run's timeout. After the timeout, it waits up to
// killGracePeriod for the plugin to exit.
func (p program) handleAction(ctx context.Context, action string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.limits.run, fmt.Errorf("timed out after %v", p.limits.run))
	defer cancel()
	cut, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(killGracePeriod, func() { end(context.Cause(ctx)) })
	})()
	return await.Call(cut, action, func() ([]byte, error) {
		response, err := p.runAction(ctx, action)
		if cause := context.Cause(ctx); err != nil && cause != nil {
			if !errors.Is(err, cause) {
				err = cause
			}
			err = fmt.Errorf("%s: %w", action, err)
		}
		return response, err
	})
}

func (p program) runAction(ctx context.Context, action string) ([]byte, error) {
	h := helper{ctx: ctx, machine: p.machine, timeout: p.limits.plugin}
	var response bytes.Buffer
	switch action {
	case credentials.ActionStore:
		return nil, h.Add(nil) // Add always fails, so the credential is not read
	case credentials.ActionList:
		err := credentials.List(h, &response)
		return response.Bytes(), err
	case credentials.ActionGet, credentials.ActionErase:
	default:
		return nil, fmt.Errorf("unknown action %q; %s", action, usage)
	}
	input, err := p.readInput(ctx)
	if err != nil {
		return nil, err
	}
	if action == credentials.ActionErase {
		return nil, credentials.Erase(h, input)
	}
	err = credentials.Get(h, input, &response)
	return response.Bytes(), err
}

// readInput reads standard input with a size limit and a timeout. The credential helper library has
// neither.
func (p program) readInput(ctx context.Context) (io.Reader, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.limits.input, fmt.Errorf("standard input was not closed within %v; write a registry name to it and then close it", p.limits.input))
	defer cancel()
	const what = "read standard input"
	data, err := await.Call(ctx, what, func() ([]byte, error) { return io.ReadAll(io.LimitReader(p.stdin, maxInputSize+1)) })
	if err == nil && len(data) > maxInputSize {
		err = fmt.Errorf("%s: the registry name is longer than the limit of %d bytes", what, maxInputSize)
	}
	if data = bytes.TrimSpace(data); err == nil && bytes.ContainsAny(data, "\r\n") {
		err = fmt.Errorf("%s: it has more than one line; write only a registry name to it", what) // the library would join the lines
	}
	return bytes.NewReader(data), err
}
