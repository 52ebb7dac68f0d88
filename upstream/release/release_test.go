// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package release

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
)

const goMod = `module k8s.io/kubernetes

go 1.24.0

godebug default=go1.24

require (
	github.com/spf13/pflag v1.0.5
	k8s.io/api v0.0.0
	k8s.io/klog/v2 v2.130.1
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
)
`

func TestModuleText(t *testing.T) {
	text := must.Get(convertGoMod(goMod, "example.com/here", "v1.33.13"))(t)
	for _, want := range []string{"module example.com/here\n", "require k8s.io/kubernetes v1.33.13\n", "replace k8s.io/api => k8s.io/api v0.33.13\n", "k8s.io/klog/v2 v2.130.1\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "./staging") || godebugVersion(text) != "go1.24" {
		t.Errorf("what is beside its sources, or GODEBUG %q:\n%s", godebugVersion(text), text)
	}
}

func TestModuleTextOfAnotherForm(t *testing.T) {
	if _, err := convertGoMod(strings.ReplaceAll(goMod, "v0.0.0", "v0.33.13"), "example.com/here", "v1.33.13"); err == nil {
		t.Error("a module without staging modules: no error")
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, version := range []string{"", "1.33", "2.0.1", "v1.33.13-rc.1", "../1.33.13"} {
		if _, err := OpenRelease(t.Context(), version); err == nil || !strings.Contains(err.Error(), "1.33.13") {
			t.Errorf("%q: %v", version, err)
		}
	}
}

// TestWorkspace verifies that RunGo uses this module and accepts another module file, even within a
// workspace.
func TestWorkspace(t *testing.T) {
	want := must.Get(os.Getwd())(t)
	want = filepath.Dir(want)
	work := filepath.Join(t.TempDir(), "go.work")
	must.Do(t, os.WriteFile(work, []byte("go 1.26.0\nuse "+want+"\nuse "+filepath.Dir(want)+"\n"), 0o600))
	t.Setenv("GOWORK", work)
	got, err := RunGo(t.Context(), "", "list", "-m", "-modfile="+filepath.Join(want, "go.mod"), "-f", "{{.Dir}}")
	if err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// TestCanceledBuild verifies that a canceled go command ends and leaves no build files.
func TestCanceledBuild(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the tool is a script of the shell")
	}
	dir, temp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	tool := filepath.Join(dir, "tool")
	const script = "#!/bin/sh\ncase \"$*\" in *-V=full*) ;; *) : >\"$0.begun\"; sleep 1 ;; esac\nexec \"$@\"\n"
	must.Do(t, os.WriteFile(tool, []byte(script), 0o700))
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	enough := errors.New("enough of it")
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(tool + ".begun"); err == nil {
				stop(enough)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := RunGo(ctx, dir, "build", "-a", "-toolexec="+tool, "errors"); !errors.Is(err, enough) {
		t.Errorf("got %v, want %v", err, enough)
	}
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("it has left %v, %v", left, err)
	}
}
