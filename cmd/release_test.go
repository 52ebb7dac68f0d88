// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// releasable is a checkout with one program and this repository's release.sh.
func releasable(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("releases are built on Linux")
	}
	for _, tool := range []string{"bash", "git", "jq", "zip"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	script, err := os.ReadFile("../release.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"release.sh":    string(script),
		"go.mod":        "module example.test/tiny\n\ngo 1.26.0\n\ntoolchain " + runtime.Version() + "\n",
		"LICENSE":       "licence\n",
		"README.md":     "read me\n",
		"cmd/x/main.go": "package main\n\nvar version string\n\nfunc main() { println(version) }\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	bash(t, dir, "git init -q && git add -A && git -c user.name=a -c user.email=a@example.test commit -qm begin")
	return dir
}

func bash(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// TestReleaseIsReproducible: the clone, its age and depth, who builds and how
// their machine is set up are not seen in what is released.
func TestReleaseIsReproducible(t *testing.T) {
	dir := releasable(t)
	other := filepath.Join(t.TempDir(), "a longer name")
	bash(t, dir, "git clone -q . '"+other+"'")
	bash(t, dir, "export GOENV=off; umask 022; LC_ALL=C ./release.sh v1.2.3 dist linux/amd64 windows/amd64")
	begin := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	if err := os.Chtimes(filepath.Join(other, "LICENSE"), begin, begin); err != nil {
		t.Fatal(err)
	}
	bash(t, other, `git tag v1.2.3; umask 077
		printf 'GOFLAGS=-buildvcs=true\nGOEXPERIMENT=nogreenteagc\n' >../goenv
		export GOENV=$PWD/../goenv LC_ALL=C.UTF-8 TZ=Asia/Tokyo GZIP=-1 TAR_OPTIONS=--owner=7 ZIPOPT=-0 GOAMD64=v3
		./release.sh v1.2.3 deep/dist linux/amd64 windows/amd64`)
	bash(t, dir, "cmp dist/SHA256SUMS '"+other+"/deep/dist/SHA256SUMS' && cd dist && sha256sum -c SHA256SUMS && test $(wc -l <SHA256SUMS) = 4")
}

// TestReleaseRefuses: it says what is wrong before it builds anything, and
// whatever goes wrong leaves nothing in the way of the next try.
func TestReleaseRefuses(t *testing.T) {
	for _, tt := range []struct{ name, before, args, want string }{
		{"a changed file", "echo >>README.md", "v1.2.3 dist", "not clean"},
		{"a new file", "echo >cmd/x/new.go", "v1.2.3 dist", "cmd/x/new.go"},
		{"a tag elsewhere", "git tag v1.2.3 $(git commit-tree -m other HEAD^{tree})", "v1.2.3 dist", "another commit"},
		{"something there", "mkdir ../full; echo >../full/x", "v1.2.3 ../full", "not an empty directory"},
		{"no version", "true", "1.2.3 dist", "VERSION OUTDIR"},
		{"a platform that is none", "true", "v1.2.3 dist linux/none", "unsupported GOOS/GOARCH"},
		{"a missing tool", "mkdir ../bin; for t in bash git go sed dirname; do ln -s $(command -v $t) ../bin/; done; export PATH=$PWD/../bin", "v1.2.3 dist", "jq is not installed"},
		{"no checkout", "rm -rf .git", "v1.2.3 dist", "not a checkout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := releasable(t)
			cmd := exec.Command("bash", "-c", "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a; "+
				tt.before+" && ./release.sh "+tt.args)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), tt.want) {
				t.Errorf("%v, and no %q in:\n%s", err, tt.want, out)
			}
			left, err := filepath.Glob(filepath.Join(dir, "dist"))
			hidden, err2 := filepath.Glob(filepath.Join(dir, ".release*"))
			if err != nil || err2 != nil || len(left)+len(hidden) > 0 {
				t.Errorf("%q and %q are left (%v, %v)", left, hidden, err, err2)
			}
		})
	}
}
