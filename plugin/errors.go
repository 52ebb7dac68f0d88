// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"fmt"
	"strings"
)

// Stage is the step at which a lookup or a run of a plugin failed. The values are
// stable: they appear in JSON output and as metric labels.
type Stage string

// The stages of a run, in order.
const (
	StageStart        Stage = "start"        // the executable is missing, not executable, or cannot be started
	StageExec         Stage = "exec"         // the plugin exited with a non-zero status or was killed by another process
	StageTimeout      Stage = "timeout"      // the plugin was killed at the deadline
	StageCanceled     Stage = "canceled"     // the plugin was killed because the caller canceled the request
	StageOutput       Stage = "output"       // standard output is too long, empty, or not exactly one JSON value
	StageAPIVersion   Stage = "apiVersion"   // the response's version differs from the request's
	StageDecode       Stage = "decode"       // the kubelet would reject the response
	StageCacheKeyType Stage = "cacheKeyType" // cacheKeyType is not Image, Registry or Global
)

// ExecError is returned by [Command] if a plugin run fails. It never contains standard
// output, and Stderr is redacted.
type ExecError struct {
	Name     string // the plugin's file name, or the provider's name
	Stage    Stage
	ExitCode int    // -1 if the plugin did not exit on its own
	Stderr   string // the first and last 4 KiB of standard error, redacted
	Err      error  // the cause
}

// Error returns the plugin, the stage, the cause, and the last line of standard error.
func (e *ExecError) Error() string {
	msg := fmt.Sprintf("plugin %q: %s: %v", e.Name, e.Stage, e.Err)
	if line := lastLine(e.Stderr); line != "" {
		msg += fmt.Sprintf("; stderr: %q", line)
	}
	return msg
}

// Unwrap returns the cause.
func (e *ExecError) Unwrap() error { return e.Err }

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:])
}

// decodeError is the error of an invalid message. It contains the field and the offset, but
// never a value.
type decodeError struct {
	Kind   string // the expected kind
	Stage  Stage  // StageOutput, StageAPIVersion, StageDecode or StageCacheKeyType
	Field  string // for example "auth.registry.example.password"; "" means the whole message
	Offset int64  // in bytes; -1 if unknown
	Msg    string
}

// Error returns kind, offset, field and cause.
func (e *decodeError) Error() string {
	msg := "invalid " + e.Kind
	if e.Offset >= 0 {
		msg += fmt.Sprintf(" at offset %d", e.Offset)
	}
	if e.Field != "" {
		msg += ": " + e.Field
	}
	return msg + ": " + e.Msg
}
