// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package process

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
)

// Environment variables for the programs that the test binary runs as. testMode selects the
// program.
const (
	testMode      = "PROGRAM_MODE"
	testStdout    = "PROGRAM_STDOUT"
	testStderr    = "PROGRAM_STDERR"
	testExit      = "PROGRAM_EXIT"
	envReportPipe = "PROGRAM_REPORT" // named pipe for reports, which a program keeps open while it runs
	envResumePipe = "PROGRAM_GO"     // named pipe from which a program reads before it continues
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(testMode); mode != "" {
		os.Exit(runTestProgram(mode))
	}
	os.Exit(m.Run())
}

// programOutput is the standard output of most programs in the tests.
const programOutput = `{"kind":"CredentialProviderResponse","auth":{}}` + "\n"

// testCommand returns a Command that runs the test binary as the program selected by mode.
func testCommand(t testing.TB, mode string, env ...string) Command {
	t.Helper()
	self := must.Get(os.Executable())(t)
	return Command{
		Path: self,
		// atexit_sleep_ms=0 prevents the race detector from sleeping for a second at exit.
		Environ:   slices.Concat(os.Environ(), []string{testMode + "=" + mode, "GORACE=atexit_sleep_ms=0"}, env),
		Timeout:   time.Minute,
		MaxOutput: 1 << 20,
	}
}

var testPrograms = map[string]func() int{
	"say": func() int { // reads its input, then writes the texts from its environment
		io.Copy(io.Discard, os.Stdin)
		return writeResponse()
	},
	"not-read": writeResponse,
	"close-stdout-early": func() int { // responds, closes stdout, and exits later
		writeResponse()
		os.Stdout.Close()
		os.Stderr.Close()
		defer reportLine("plugin %d", os.Getpid())()
		waitForResume()
		return 0
	},
	"flood-stdout": func() int { return writeBytes(os.Stdout, 1<<30) },
	"flood-stderr": func() int {
		writeBytes(os.Stderr, 1<<30)
		return writeResponse()
	},
	"hang": hangIgnoringSIGTERM,
	"fork": func() int { // leaves a child process that keeps stdout and stderr open
		startChild("child", nil)
		return writeResponse()
	},
	"fork-half": func() int { // writes half of the response, which a child process completes
		answer := os.Getenv(testStdout)
		os.Stdout.WriteString(answer[:len(answer)/2])
		startChild("child-half", nil)
		return 0
	},
	"fork-hang": func() int {
		startChild("child", nil)
		return hangIgnoringSIGTERM()
	},
	"fork-escape": func() int {
		startChild("child", &syscall.SysProcAttr{Setsid: true})
		return hangIgnoringSIGTERM()
	},
	"child": func() int {
		defer reportLine("child %d", os.Getpid())()
		waitForResume()
		// Write more than fits into a pipe. If the pipe is closed, the child is killed here.
		if writeBytes(os.Stdout, 1<<20) == 0 && writeBytes(os.Stderr, 1<<20) == 0 {
			reportLine("wrote everything")
		}
		return 0
	},
	"fork-writer": func() int {
		startChild("child-writer", nil)
		return writeResponse()
	},
	"child-writer": func() int { // ignores SIGPIPE, and reports whether its pipes were closed
		signal.Ignore(syscall.SIGPIPE)
		defer reportLine("child %d", os.Getpid())()
		waitForResume()
		if writeBytes(os.Stdout, 1<<20) != 0 && writeBytes(os.Stderr, 1<<20) != 0 {
			reportLine("cut off")
		} else {
			reportLine("wrote everything")
		}
		return 0
	},
	"count-sigterm": func() int { // writes a line to stderr for the first SIGTERM, and for a second one soon afterwards
		terms := make(chan os.Signal, 2)
		signal.Notify(terms, syscall.SIGTERM)
		defer reportLine("plugin %d", os.Getpid())()
		<-terms
		fmt.Fprintln(os.Stderr, "SIGTERM")
		select {
		case <-terms:
			fmt.Fprintln(os.Stderr, "SIGTERM")
		case <-time.After(100 * time.Millisecond):
		}
		return 0
	},
	"child-half": func() int {
		io.Copy(io.Discard, os.NewFile(3, "parent"))
		defer reportLine("child %d", os.Getpid())()
		waitForResume()
		answer := os.Getenv(testStdout)
		os.Stdout.WriteString(answer[len(answer)/2:])
		blockForever()
		return 0
	},
}

func runTestProgram(mode string) int {
	f, ok := testPrograms[mode]
	if !ok {
		fmt.Fprintln(os.Stderr, "no such mode; there are", slices.Sorted(maps.Keys(testPrograms)))
		return 99
	}
	return f()
}

func writeResponse() int {
	os.Stdout.WriteString(os.Getenv(testStdout))
	os.Stderr.WriteString(os.Getenv(testStderr))
	code, _ := strconv.Atoi(os.Getenv(testExit))
	return code
}

func writeBytes(w io.Writer, n int) int {
	chunk := bytes.Repeat([]byte("x"), 64<<10)
	for ; n > 0; n -= len(chunk) {
		if _, err := w.Write(chunk); err != nil {
			return 1
		}
	}
	return 0
}

// hangIgnoringSIGTERM writes the response, ignores SIGTERM and never exits.
func hangIgnoringSIGTERM() int {
	signal.Ignore(syscall.SIGTERM)
	defer reportLine("plugin %d", os.Getpid())()
	writeResponse()
	blockForever()
	return 0
}

func blockForever() {
	for {
		time.Sleep(time.Hour)
	}
}

// reportLine writes a line to the test. It keeps the named pipe open until the returned function is
// called or the process ends.
func reportLine(format string, args ...any) func() error {
	f, err := os.OpenFile(os.Getenv(envReportPipe), os.O_WRONLY, 0)
	if err != nil {
		return func() error { return err }
	}
	fmt.Fprintf(f, format+"\n", args...)
	return f.Close
}

func waitForResume() {
	if f, err := os.Open(os.Getenv(envResumePipe)); err == nil {
		io.Copy(io.Discard, f)
		f.Close()
	}
}

// startChild starts a child process. The child can detect the end of this process, because its file
// descriptor 3 is a pipe whose other end is then closed.
func startChild(mode string, attr *syscall.SysProcAttr) {
	self, _ := os.Executable()
	var pipe [2]int // the garbage collector would close an *os.File
	syscall.Pipe(pipe[:])
	syscall.CloseOnExec(pipe[1])
	child := exec.Command(self)
	child.Env = append(os.Environ(), testMode+"="+mode)
	child.Stdin, child.Stdout, child.Stderr, child.SysProcAttr = os.Stdin, os.Stdout, os.Stderr, attr
	child.ExtraFiles = []*os.File{os.NewFile(uintptr(pipe[0]), "parent")}
	if err := child.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// copySelf copies the test binary to a file that a test can modify.
func copySelf(t *testing.T, name string) string {
	t.Helper()
	self := must.Get(os.Executable())(t)
	data := must.Get(os.ReadFile(self))(t)
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, data, 0o755))
	return path
}
