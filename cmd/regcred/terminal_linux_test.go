// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/regcred/regcred/internal/must"
)

// TestDemoOnTerminal runs the demo on a terminal of 80 columns.
func TestDemoOnTerminal(t *testing.T) {
	regcred := must.Get(exec.LookPath("regcred"))(t)
	master, slave := openTerminal(t)
	temp := t.TempDir()
	cmd := exec.Command(regcred, "demo", "--no-color")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp, "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	must.Do(t, cmd.Start())
	slave.Close()
	screen, _ := io.ReadAll(master) // returns an error when the last writer has closed
	if err := cmd.Wait(); err != nil {
		t.Errorf("demo: %v", err)
	}
	text := strings.ReplaceAll(string(screen), "\r\n", "\n")
	if !strings.Contains(text, "\n   verdict\n     ok    ") {
		t.Errorf("the demo shows no verdict:\n%s", text)
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("something is drawn:\n%q", text)
	}
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 && !strings.Contains(line, temp) { // paths are not wrapped
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// openTerminal creates a terminal with 80 columns.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 25, Col: 80})
	}
	if err != nil {
		t.Fatal(err)
	}
	slave = must.Get(os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	return master, slave
}

// TestInterruptEndsShellLoop checks that ^C ends a shell loop, and not only the current run of
// regcred.
func TestInterruptEndsShellLoop(t *testing.T) {
	bash, err := exec.LookPath("bash") // bash checks how its child ended; dash does not
	if err != nil {
		t.Skip(err)
	}
	master, slave := openTerminal(t)
	s := newSlowCommand(t)
	loop := exec.Command(bash, append([]string{"-c", `for i in 1 2 3; do echo "begin $i"; regcred get registry.example/app "$@"; done; echo after`, "bash"}, s.flags...)...)
	loop.Env = append(s.Env, "PATH="+filepath.Dir(s.Path)+":"+os.Getenv("PATH"))
	loop.Stdin, loop.Stdout, loop.Stderr = slave, slave, slave
	loop.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must.Do(t, loop.Start())
	slave.Close()
	s.waitUntilRunning(t)
	must.Get(master.WriteString("\x03"))(t)
	go func() { // blocks if the loop ends, as expected
		if _, err := os.ReadFile(s.pipe); err == nil {
			syscall.Kill(-loop.Process.Pid, syscall.SIGTERM)
		}
	}()
	screen, _ := io.ReadAll(master) // returns an error when the last writer has closed
	err = loop.Wait()
	if text := string(screen); !strings.Contains(text, "begin 1") || strings.Contains(text, "begin 2") || strings.Contains(text, "after") {
		t.Errorf("the loop ended with %v and\n%s", err, text)
	}
}

// TestDocumentOnTerminal checks that documents for other programs contain no terminal
// escapes.
func TestDocumentOnTerminal(t *testing.T) {
	regcred := must.Get(exec.LookPath("regcred"))(t)
	config := filepath.Join(t.TempDir(), "config.json")
	text := `{"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [{"name": "p",
"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "matchImages": ["registry.example"], "defaultCacheDuration": "1m", "args": ["` + "\u009b2J\u202e" + `"]}]}`
	must.Do(t, os.WriteFile(config, []byte(text), 0o600))
	master, slave := openTerminal(t)
	cmd := exec.Command(regcred, "convert", config)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	must.Do(t, cmd.Start())
	slave.Close()
	screen, _ := io.ReadAll(master)
	if err := cmd.Wait(); err != nil {
		t.Errorf("convert: %v", err)
	}
	if strings.ContainsAny(string(screen), "\u009b\u202e") || !strings.Contains(string(screen), `\u009b2J\u202e`) {
		t.Errorf("the terminal got %q", screen)
	}
	piped, err := exec.Command(regcred, "convert", config).Output()
	if err != nil || !strings.Contains(string(piped), "\u009b2J\u202e") {
		t.Errorf("a program got %q, %v", piped, err)
	}
}
