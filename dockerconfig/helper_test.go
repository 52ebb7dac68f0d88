// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package dockerconfig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/dockerjson"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// TestMain makes the test binary act as a helper if it is called docker-credential-NAME.
func TestMain(m *testing.M) {
	if name, ok := strings.CutPrefix(filepath.Base(os.Args[0]), helperPrefix); ok {
		os.Exit(runHelper(name))
	}
	os.Exit(m.Run())
}

// holdFIFOVar is an environment variable with the path of a FIFO that is closed when the test ends.
const holdFIFOVar = "HELPER_HOLD"

var helperBehaviors = map[string]func(server string) int{
	"good": func(server string) int { return printCredential(server, "u", canary.PasswordSecret) },
	"whoami": func(server string) int {
		return printCredential(server, server+" "+os.Getenv("WHO"), canary.PasswordSecret)
	},
	"args": func(server string) int {
		return printCredential(server, strings.Join(os.Args[1:], " "), canary.PasswordSecret)
	},
	"identity": func(server string) int { return printCredential(server, "<token>", canary.TokenSecret) },
	"blank":    func(server string) int { return printCredential(server, "", "") },
	"none":     func(string) int { return printError("credentials not found in native keychain\n") },
	"no-url":   func(string) int { return printError("no credentials server URL") },
	"failing": func(string) int { // as docker's helpers do, or worse
		os.Stderr.WriteString("password was " + canary.PasswordSecret)
		return printError("cannot unlock the store with " + canary.PasswordSecret)
	},
	"none-with-more": func(string) int {
		return printError("credentials not found in native keychain: " + canary.PasswordSecret)
	},
	"none-and-well": func(string) int {
		fmt.Println("credentials not found in native keychain")
		return 0
	},
	"garbage":   func(string) int { fmt.Println("user " + canary.PasswordSecret); return 0 },
	"number":    func(string) int { fmt.Println(`{"Username":"u","Secret":1}`); return 0 },
	"no-secret": func(string) int { fmt.Println(`{"Username":"` + canary.PasswordSecret + `"}`); return 0 },
	"two-values": func(string) int {
		printCredential("", "u", canary.PasswordSecret)
		return printCredential("", "u", canary.PasswordSecret)
	},
	"silent": func(string) int { return 0 },
	"flooding": func(string) int {
		for {
			if _, err := os.Stdout.Write(bytes.Repeat([]byte(canary.PasswordSecret), 1000)); err != nil {
				return 1
			}
		}
	},
	"hanging": func(string) int { waitForTestEnd(); return 0 },
	"forking": func(server string) int { // leaves a child process that keeps stdout open
		startStdoutHolder()
		return printCredential(server, "u", canary.PasswordSecret)
	},
	"forking-hanging": func(string) int { startStdoutHolder(); waitForTestEnd(); return 0 },
	"holder":          func(string) int { waitForTestEnd(); return 0 },
}

func runHelper(name string) int {
	server, _ := io.ReadAll(os.Stdin)
	return helperBehaviors[name](string(server))
}

func printCredential(server, user, password string) int {
	json.NewEncoder(os.Stdout).Encode(map[string]string{"ServerURL": server, "Username": user, "Secret": password})
	return 0
}

func printError(text string) int {
	os.Stdout.WriteString(text)
	return 1
}

// waitForTestEnd blocks until the test ends.
func waitForTestEnd() {
	if f, err := os.Open(os.Getenv(holdFIFOVar)); err == nil {
		io.Copy(io.Discard, f)
	}
}

func startStdoutHolder() {
	child := exec.Command(filepath.Join(filepath.Dir(os.Args[0]), helperPrefix+"holder"))
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// createHelpers creates a helper for each role. It returns their directory and environment.
func createHelpers(t testing.TB) (dir string, environ []string) {
	t.Helper()
	self := must.Get(os.Executable())(t)
	dir = t.TempDir()
	for name := range helperBehaviors {
		must.Do(t, os.Symlink(self, filepath.Join(dir, helperPrefix+name)))
	}
	fifo := filepath.Join(t.TempDir(), "hold")
	must.Do(t, syscall.Mkfifo(fifo, 0o600))
	f := must.Get(os.OpenFile(fifo, os.O_RDWR, 0))(t)
	t.Cleanup(func() { f.Close() })
	return dir, []string{holdFIFOVar + "=" + fifo, "GORACE=atexit_sleep_ms=0", "WHO=me", "SECRET=" + canary.EnvSecret}
}

func TestHelperGet(t *testing.T) {
	dir, environ := createHelpers(t)
	const notShown = "the helper's output is hidden because it might contain secrets: to see it, run the helper manually as the same user and in the same environment"
	const notAnswer = "invalid credential helper response: "
	tests := []struct {
		name string
		want Auth
		err  string // after the helper's name and server
	}{
		{"good", testAuth(), ""},
		{"whoami", Auth{Username: "r.io me", Password: plugin.NewSecret(canary.PasswordSecret)}, ""},
		{"args", Auth{Username: "get", Password: plugin.NewSecret(canary.PasswordSecret)}, ""},
		{"identity", Auth{IdentityToken: plugin.NewSecret(canary.TokenSecret)}, ""},
		{"forking", testAuth(), ""},
		{"blank", Auth{}, ""},
		{"none", Auth{}, ""},
		{"no-url", Auth{}, `exit status 1: "no credentials server URL"`},
		{"failing", Auth{}, "exit status 1; " + notShown},
		{"none-with-more", Auth{}, "exit status 1; " + notShown},
		{"none-and-well", Auth{}, notAnswer + "line 1, column 1: not JSON from here on"},
		{"garbage", Auth{}, notAnswer + "line 1, column 1: not JSON from here on"},
		{"number", Auth{}, notAnswer + "line 1, column 26: a number where a string is expected"},
		{"no-secret", Auth{}, notAnswer + "Username or Secret is missing"},
		{"two-values", Auth{}, notAnswer + "line 2, column 1: not JSON: unexpected text after the last bracket: remove the text"},
		{"silent", Auth{}, "the response is empty"},
		{"flooding", Auth{}, "standard output is longer than 1048576 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Helper{Name: tt.name, Dir: dir, Environ: environ}.Get(t.Context(), "r.io")
			want := fmt.Sprintf("docker-credential-%s get %q: %s", tt.name, "r.io", tt.err)
			if (err != nil || tt.err != "") && fmt.Sprint(err) != want {
				t.Errorf("error %v, want %s", err, want)
			}
			if !got.Equal(tt.want) {
				t.Error("another credential than wanted") // not printed: it is a secret
			}
			canary.AssertAbsent(t, "error", fmt.Sprint(err))
		})
	}
}

// TestHelperDeadline verifies that Get returns at the deadline, even if a child process keeps
// standard output open.
func TestHelperDeadline(t *testing.T) {
	dir, environ := createHelpers(t)
	for _, name := range []string{"hanging", "forking-hanging"} {
		_, err := Helper{Name: name, Dir: dir, Environ: environ, Timeout: 200 * time.Millisecond}.Get(t.Context(), "r.io")
		want := `docker-credential-` + name + ` get "r.io": no response within 200ms: context deadline exceeded`
		if fmt.Sprint(err) != want || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Helper{Name: "hanging", Dir: dir, Environ: environ}).Get(ctx, "r.io"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want a cancellation", err)
	}
}

// TestHelperSearch verifies that helpers are searched in the PATH of the helper's environment, but
// not in relative directories.
func TestHelperSearch(t *testing.T) {
	dir, environ := createHelpers(t)
	t.Chdir(filepath.Dir(dir))
	relative := filepath.Base(dir)
	path := func(dirs ...string) []string {
		return append(environ[:len(environ):len(environ)], "PATH=/nowhere", "PATH="+strings.Join(dirs, ":"))
	}
	empty := t.TempDir()
	os.WriteFile(filepath.Join(empty, helperPrefix+"good"), nil, 0o644) // not executable
	os.Mkdir(filepath.Join(empty, helperPrefix+"args"), 0o755)
	tests := []struct {
		name, helper, dir string
		environ           []string
		err               string
	}{
		{"second directory", "good", "", path(empty, dir), ""},
		{"a directory of that name", "args", "", path(empty, dir), ""},
		{"relative", "good", "", path(relative, ""), `docker-credential-good get "r.io": not found in PATH "` + relative + `:"`},
		{"no PATH", "good", "", environ, `docker-credential-good get "r.io": not found in PATH ""`},
		{"explicit", "good", dir, environ, ""},
		{"explicit and relative", "good", relative, environ, ""},
		{"explicit, missing", "absent", dir, path(dir), `docker-credential-absent get "r.io": start "` + dir + `/docker-credential-absent": no such file or directory`},
		{"explicit, not executable", "good", empty, path(dir), `docker-credential-good get "r.io": start "` + empty + `/docker-credential-good": not executable (mode -rw-r--r--); run chmod +x: permission denied`},
		{"a path", "../good", dir, path(dir), `docker-credential-(hidden name) get "r.io": invalid helper name: omit the docker-credential- prefix and use only letters, digits, dots, hyphens and underscores`},
		{"no name", "", dir, path(dir), `docker-credential-(hidden name) get "r.io": invalid helper name: omit the docker-credential- prefix and use only letters, digits, dots, hyphens and underscores`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Helper{Name: tt.helper, Dir: tt.dir, Environ: tt.environ}.Get(t.Context(), "r.io")
			if (err != nil || tt.err != "") && fmt.Sprint(err) != tt.err {
				t.Errorf("error %v, want %s", err, tt.err)
			}
			if got.IsZero() != (tt.err != "") {
				t.Error("a credential with an error, or none without")
			}
		})
	}
}

// TestHelperAsksItself verifies that a plugin does not call the helper that runs it.
func TestHelperAsksItself(t *testing.T) {
	dir, environ := createHelpers(t)
	environ = append(environ, dockerjson.CallerEnvName+"=docker-credential-good")
	_, err := Helper{Name: "good", Dir: dir, Environ: environ}.Get(t.Context(), "r.io")
	const want = `docker-credential-good get "r.io": the helper would call itself (REGCRED_ASKED_BY is set): remove this helper from the docker config file`
	if fmt.Sprint(err) != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if _, err := (Helper{Name: "whoami", Dir: dir, Environ: environ}).Get(t.Context(), "r.io"); err != nil {
		t.Errorf("another helper: %v", err)
	}
}

func TestHelperInheritsEnvironment(t *testing.T) {
	dir, environ := createHelpers(t)
	for _, entry := range environ {
		key, value, _ := strings.Cut(entry, "=")
		t.Setenv(key, value)
	}
	t.Setenv("PATH", dir)
	t.Setenv("WHO", "you")
	got, err := Helper{Name: "whoami"}.Get(t.Context(), "r.io")
	if err != nil || got.Username != "r.io you" {
		t.Errorf("user %q, error %v", got.Username, err)
	}
}

func FuzzDecodeResponse(f *testing.F) {
	f.Add([]byte(`{"ServerURL":"r.io","Username":"u","Secret":"` + canary.PasswordSecret + `"}`))
	f.Add([]byte(`{"username":"<token>","SECRET":"` + canary.PasswordSecret + `"} `))
	f.Add([]byte(canary.PasswordSecret))
	f.Fuzz(func(t *testing.T, data []byte) {
		auth, err := decodeResponse(data)
		canary.AssertAbsent(t, "error", fmt.Sprint(err))
		if err != nil && !auth.IsZero() {
			t.Error("a credential beside an error")
		}
	})
}

// TestHelperErrorHidesUser verifies that the error does not contain user info. Docker accepts any
// text as the key of a helper.
func TestHelperErrorHidesUser(t *testing.T) {
	_, err := Helper{Name: "none-such", Dir: t.TempDir()}.Get(t.Context(), "https://user:"+canary.PasswordSecret+"@registry.example")
	if err == nil || !strings.Contains(err.Error(), `"https://…@registry.example"`) {
		t.Errorf("got %v", err)
	}
	canary.AssertAbsent(t, "the error", fmt.Sprint(err))
}
