// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package plugin

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

// testMode is the environment variable that selects the plugin as which the test binary runs:
// see TestMain.
const (
	testMode   = "PLUGIN_MODE"
	testStdout = "PLUGIN_STDOUT"
	testStderr = "PLUGIN_STDERR"
	testExit   = "PLUGIN_EXIT"
	testSignal = "PLUGIN_SIGNAL"
	testFIFO   = "PLUGIN_GO" // the path of a FIFO that a child process reads before it exits
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(testMode); mode != "" {
		os.Exit(runTestPlugin(mode))
	}
	os.Exit(m.Run())
}

// testCommand returns a Command whose plugin is the test binary.
func testCommand(t testing.TB, mode string, env ...string) Command {
	t.Helper()
	self := must.Get(os.Executable())(t)
	return Command{
		Path:       self,
		Name:       "test",
		APIVersion: V1,
		// Without GORACE, the race detector would sleep for a second at exit.
		Environ: slices.Concat(os.Environ(), []string{testMode + "=" + mode, "GORACE=atexit_sleep_ms=0"}, env),
	}
}

func testRequest() *Request {
	return &Request{
		Image:                     "registry.example/team/app",
		ServiceAccountToken:       NewSecret(canary.TokenSecret),
		ServiceAccountAnnotations: map[string]string{"example.com/role": "puller"},
	}
}

var testPlugins = map[string]func() int{
	"say": func() int { // reads the request, then writes testStdout and testStderr
		io.Copy(io.Discard, os.Stdin)
		return writeTestOutput()
	},
	"say-file": func() int { // like "say", but testStderr is the path of a file
		io.Copy(io.Discard, os.Stdin)
		text, _ := os.ReadFile(os.Getenv(testStderr))
		os.Stderr.Write(text)
		os.Unsetenv(testStderr)
		return writeTestOutput()
	},
	"not-read": writeTestOutput,
	"close-stdin": func() int {
		os.Stdin.Close()
		return writeTestOutput()
	},
	"env": func() int { // writes the environment and the arguments to standard error
		fmt.Fprintln(os.Stderr, strings.Join(os.Environ(), "\n"))
		fmt.Fprintln(os.Stderr, strings.Join(os.Args, "\n"))
		dir, _ := os.Getwd()
		fmt.Fprintln(os.Stderr, "dir="+dir)
		return writeTestOutput()
	},
	"echo-token": func() int { // writes the request to standard error
		data, _ := io.ReadAll(os.Stdin)
		os.Stderr.Write(data)
		return writeTestOutput()
	},
	"record": func() int { // writes its arguments, REGION and the request to the file testStderr
		data, _ := io.ReadAll(os.Stdin)
		text := strings.Join(append(os.Args[1:], "REGION="+os.Getenv("REGION"), string(data)), "\n")
		os.WriteFile(os.Getenv(testStderr), []byte(text), 0o600)
		os.Unsetenv(testStderr)
		return writeTestOutput()
	},
	"hang": hangIgnoringSIGTERM,
	"killed": func() int {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		blockForever()
		return 0
	},
	"serve": func() int {
		Main(ProviderFunc(testProvider))
		return 99
	},
	"serve-signal": func() int { // sends a signal to itself and ignores its context
		Main(ProviderFunc(func(context.Context, *Request) (*Response, error) {
			sig, _ := strconv.Atoi(os.Getenv(testSignal))
			syscall.Kill(os.Getpid(), syscall.Signal(sig))
			blockForever()
			return nil, nil
		}))
		return 99
	},
	"fork": func() int { // starts a child process that keeps stdout open until the FIFO testFIFO is closed
		self, _ := os.Executable()
		child := exec.Command(self)
		child.Env = append(os.Environ(), testMode+"=child")
		child.Stdout = os.Stdout
		child.Start()
		return writeTestOutput()
	},
	"child": func() int {
		if f, err := os.Open(os.Getenv(testFIFO)); err == nil {
			io.Copy(io.Discard, f)
		}
		return 0
	},
}

func runTestPlugin(mode string) int {
	f, ok := testPlugins[mode]
	if !ok {
		fmt.Fprintln(os.Stderr, "no such mode; there are", slices.Sorted(maps.Keys(testPlugins)))
		return 99
	}
	return f()
}

func writeTestOutput() int {
	os.Stdout.WriteString(os.Getenv(testStdout))
	os.Stderr.WriteString(os.Getenv(testStderr))
	code, _ := strconv.Atoi(os.Getenv(testExit))
	return code
}

// hangIgnoringSIGTERM writes its output, then ignores SIGTERM and never exits.
func hangIgnoringSIGTERM() int {
	signal.Ignore(syscall.SIGTERM)
	writeTestOutput()
	blockForever()
	return 0
}

func blockForever() {
	for {
		time.Sleep(time.Hour)
	}
}

// copySelf copies the test binary to a file that tests can change.
func copySelf(t *testing.T, name string) string {
	t.Helper()
	self := must.Get(os.Executable())(t)
	data := must.Get(os.ReadFile(self))(t)
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, data, 0o755))
	return path
}
