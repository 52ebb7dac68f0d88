// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cmd_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
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
	krew, err := os.ReadFile("../deploy/kubectl/krew.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"release.sh":               string(script),
		"go.mod":                   "module example.test/tiny\n\ngo 1.26.0\n\ntoolchain " + runtime.Version() + "\n",
		"LICENSE":                  "licence\n",
		"README.md":                "read me\n",
		"deploy/a/b":               "for nodes\n",
		"cmd/regcred/main.go":      "package main\n\nvar version string\n\nfunc main() { println(version) }\n",
		"docs/playground/main.go":  tinyPlayground,
		"deploy/kubectl/script":    "#!/bin/sh\n",
		"deploy/kubectl/krew.yaml": string(krew),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
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
	bash(t, dir, "cmp dist/SHA256SUMS '"+other+"/deep/dist/SHA256SUMS' && cd dist && sha256sum -c SHA256SUMS && test $(wc -l <SHA256SUMS) = 6")
	bash(t, dir, `cd dist && tar -xzf *_linux_*.tar.gz && cd *_linux_amd64 && test "$(stat -c %a deploy deploy/a deploy/a/b deploy/kubectl/script | tr '\n' ' ')" = '755 755 644 755 ' &&
		test -x regcred && ! zip -sf ../*_windows_*.zip | grep deploy`)
	bash(t, dir, `cd dist && tar -xzf regcred-playground_1.2.3.tar.gz && cd regcred-playground_1.2.3 && test "$(ls | tr '\n' ' ')" = 'LICENSE index.html ' &&
		test "$(cat index.html)" = v1.2.3`)
	checkKrew(t, filepath.Join(dir, "dist"))
}

// tinyPlayground writes a site as docs/playground does.
const tinyPlayground = `package main

import (
	"flag"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("o", "", "")
	version := flag.String("version", "", "")
	flag.Parse()
	os.MkdirAll(*dir, 0o755)
	os.WriteFile(filepath.Join(*dir, "index.html"), []byte(*version), 0o600)
}
`

// checkKrew: the manifest for krew names the archives that are there, by their
// sums, and files that are in them.
func checkKrew(t *testing.T, dist string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dist, "regcred.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, Homepage, ShortDescription, Description string
			Platforms                                        []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, SHA256, Bin string
				Files            []struct{ From, To string }
			}
		}
	}
	if err := yaml.UnmarshalStrict(data, &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Metadata.Name != "regcred" || manifest.Spec.Version != "v1.2.3" || len(manifest.Spec.Platforms) != 2 {
		t.Errorf("got %+v", manifest)
	}
	for _, p := range manifest.Spec.Platforms {
		archive, err := os.ReadFile(filepath.Join(dist, path.Base(p.URI)))
		if err != nil {
			t.Error(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(archive)); got != p.SHA256 || !strings.HasSuffix(p.URI, "/v1.2.3/"+path.Base(p.URI)) {
			t.Errorf("%s has the sum %s, and the manifest says %s", p.URI, got, p.SHA256)
		}
		for _, f := range p.Files {
			if list := contents(t, filepath.Join(dist, path.Base(p.URI))); !strings.Contains(list, f.From+"\n") {
				t.Errorf("%s has no %s:\n%s", p.URI, f.From, list)
			}
		}
	}
}

// contents lists the files in an archive, one a line.
func contents(t *testing.T, archive string) string {
	t.Helper()
	command := []string{"tar", "-tzf", archive}
	if strings.HasSuffix(archive, ".zip") {
		command = []string{"zip", "-sf", archive}
	}
	out, err := exec.Command(command[0], command[1:]...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestReleaseRefuses: it says what is wrong before it builds anything, and
// whatever goes wrong leaves nothing in the way of the next try.
func TestReleaseRefuses(t *testing.T) {
	for _, tt := range []struct{ name, before, args, want string }{
		{"a changed file", "echo >>README.md", "v1.2.3 dist", "not clean"},
		{"a new file", "echo >cmd/regcred/new.go", "v1.2.3 dist", "cmd/regcred/new.go"},
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
