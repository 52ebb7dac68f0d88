// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Recorder replaces docker-credential-regcred in the tests. It records each call by a client and
// runs the real helper.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Environment variables of the recorder.
const (
	helperPathEnv = "REGCRED_TEST_HELPER" // path of the real helper
	callsFileEnv  = "REGCRED_TEST_CALLS"  // file to which a line per call is appended
	stderrTextEnv = "REGCRED_TEST_STDERR" // text to write to standard error in addition
)

// notFoundMessage is the text with which a helper reports that it has no credentials for a server.
const notFoundMessage = "credentials not found in native keychain"

// recordedCall is a line of the calls file.
type recordedCall struct {
	Args   []string
	Stdin  string
	Answer string // "found", "not found" or "error"
}

func main() {
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "recorder:", err)
		code = 1
	}
	os.Exit(code)
}

func run() (code int, err error) {
	stdin, err := io.ReadAll(io.LimitReader(os.Stdin, 1<<16))
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(os.Getenv(helperPathEnv), os.Args[1:]...)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(stdin), os.Stderr
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	fmt.Fprint(os.Stderr, os.Getenv(stderrTextEnv))
	if err := appendCall(recordedCall{os.Args[1:], string(stdin), classifyResponse(cmd, out)}); err != nil {
		return 0, err
	}
	_, err = os.Stdout.Write(out)
	return cmd.ProcessState.ExitCode(), err
}

func classifyResponse(cmd *exec.Cmd, out []byte) string {
	switch {
	case cmd.ProcessState.Success():
		return "found"
	case strings.TrimSpace(string(out)) == notFoundMessage:
		return "not found"
	default:
		return "error"
	}
}

// appendCall appends a call to the calls file. It uses a single write because clients may call the
// helper concurrently.
func appendCall(c recordedCall) error {
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(os.Getenv(callsFileEnv), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}
