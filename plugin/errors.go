// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"fmt"
	"strings"
)

// Stage names the step at which a lookup or a run of a plugin failed. The
// values are stable: they appear in `-o json` and as metric labels.
type Stage string

// The stages of one run of a plugin, in the order in which they are reached.
const (
	StageStart        Stage = "start"        // the executable is missing, not executable, or cannot be started
	StageExec         Stage = "exec"         // it exited with a status other than 0, or was killed by somebody else
	StageTimeout      Stage = "timeout"      // it was killed at the deadline
	StageCanceled     Stage = "canceled"     // it was killed because nobody waits for the answer any more
	StageOutput       Stage = "output"       // standard output is too long, empty, or not one whole JSON value
	StageAPIVersion   Stage = "apiVersion"   // the answer is in another version than the request
	StageDecode       Stage = "decode"       // the answer is not what a kubelet reads as one of its version
	StageCacheKeyType Stage = "cacheKeyType" // the answer's cacheKeyType is none of Image, Registry, Global
)

// ExecError is the error of a run of a plugin by [Command]. It never holds
// standard output, and its Stderr has been scrubbed of the request's token
// and of the passwords returned.
type ExecError struct {
	Name     string // file name of the plugin, or the provider's name
	Stage    Stage
	ExitCode int    // -1 if the plugin did not exit by itself
	Stderr   string // bounded head and tail of standard error, scrubbed
	Err      error  // the cause
}

// Error names the plugin, the stage and the cause, and quotes the last line
// of standard error.
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

// DecodeError says where a document is not what the protocol asks for. It
// names field and offset, never a value.
type DecodeError struct {
	Kind   string // the kind that was expected
	Stage  Stage  // StageOutput, StageAPIVersion, StageDecode or StageCacheKeyType
	Field  string // e.g. "auth.registry.example.password"; "" for the document
	Offset int64  // bytes from the start of the document; -1 if unknown
	Msg    string
}

// Error names kind, offset and field, as far as they are known, and says what is wrong.
func (e *DecodeError) Error() string {
	msg := "invalid " + e.Kind
	if e.Offset >= 0 {
		msg += fmt.Sprintf(" at offset %d", e.Offset)
	}
	if e.Field != "" {
		msg += ": " + e.Field
	}
	return msg + ": " + e.Msg
}
