// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package release

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/flock"
)

// Release is a release of Kubernetes as a Go module.
type Release struct {
	Version string // for example "v1.33.13"
	Dir     string // the module's sources; must not be changed
	GODEBUG string // Go version whose defaults apply, for example "go1.24"

	flags      []string // flags of go build that select the go.mod
	moduleRoot string   // directory of this module
}

// kubernetesModule is the path of the Kubernetes module.
const kubernetesModule = "k8s.io/kubernetes"

// OpenRelease writes a go.mod for a release, such as 1.33.13 or v1.33.13, to a directory in the
// user's cache, and downloads missing modules. If the Go proxy does not have the release, the error
// lists the available releases.
//
// The release that this module requires is built with this module's go.mod, so that it needs no
// downloads. CheckRelease in package kubelet reports whether that go.mod has the release's library
// versions.
func OpenRelease(ctx context.Context, version string) (*Release, error) {
	r := &Release{Version: "v" + strings.TrimPrefix(version, "v")}
	if !regexp.MustCompile(`^v1\.\d+\.\d+$`).MatchString(r.Version) {
		return nil, fmt.Errorf("release %q: not a release of Kubernetes: write it as 1.33.13", version)
	}
	var err error
	if r.moduleRoot, err = RunGo(ctx, "", "list", "-m", "-f", "{{.Dir}}"); err != nil {
		return nil, err
	}
	if r.Dir, err = r.requiredDir(ctx); err != nil || r.Dir != "" {
		return r, err
	}
	if r.Dir, err = r.download(ctx); err != nil {
		return nil, err
	}
	if err := r.writeModule(ctx); err != nil {
		return nil, fmt.Errorf("release %s: %w", r.Version, err)
	}
	return r, nil
}

// CacheDir returns a directory in the user's cache for files that are generated from the release.
// Other packages use the directory too.
func (r *Release) CacheDir() (dir string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "regcred-node", r.Version)
	return dir, os.MkdirAll(dir, 0o755)
}

// requiredDir returns the source directory of the release that this module requires, or ""
// if r is another release.
func (r *Release) requiredDir(ctx context.Context) (dir string, err error) {
	out, err := RunGo(ctx, r.moduleRoot, "list", "-m", "-f", "{{.Version}} {{.Dir}}", kubernetesModule)
	if err != nil {
		return "", err
	}
	version, dir, _ := strings.Cut(out, " ")
	if version != r.Version {
		return "", nil
	}
	own, err := RunGo(ctx, r.moduleRoot, "list", "-m", "-f", "{{.GoVersion}}")
	r.GODEBUG = "go" + own[:max(0, strings.LastIndex(own, "."))] // 1.26.0 has the defaults of 1.26
	return dir, err
}

// download downloads the module and returns its source directory.
func (r *Release) download(ctx context.Context) (dir string, err error) {
	out, err := RunGo(ctx, r.moduleRoot, "mod", "download", "-json", kubernetesModule+"@"+r.Version)
	var got struct{ Dir, Error string }
	if jsonErr := json.Unmarshal([]byte(out), &got); jsonErr == nil && got.Dir != "" {
		return got.Dir, nil
	}
	err = fmt.Errorf("release %s: %w", r.Version, cmp.Or(goCommandError(got.Error), err, errors.New("go mod download names no directory")))
	list, listErr := RunGo(ctx, r.moduleRoot, "list", "-m", "-versions", "-f", `{{join .Versions " "}}`, kubernetesModule)
	if listErr != nil {
		return "", err
	}
	minor := r.Version[:strings.LastIndex(r.Version, ".")+1]
	near := slices.DeleteFunc(strings.Fields(list), func(v string) bool { return !strings.HasPrefix(v, minor) })
	if slices.Contains(near, r.Version) {
		return "", err // The proxy has the release, so something else has failed.
	}
	if len(near) == 0 {
		return "", fmt.Errorf("%w\nthe Go proxy has no version of this minor release; it has %s", err, list)
	}
	return "", fmt.Errorf("%w\nof this minor release the Go proxy has %s", err, strings.Join(near, ", "))
}

// goCommandError returns the go command's error message as an error, or nil.
func goCommandError(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// writeModule writes the go.mod, which is the release's with this module's name, and the
// checksums of its dependencies.
func (r *Release) writeModule(ctx context.Context) error {
	data, err := os.ReadFile(filepath.Join(r.Dir, "go.mod"))
	if err != nil {
		return err
	}
	name, err := RunGo(ctx, r.moduleRoot, "list", "-m")
	if err != nil {
		return err
	}
	text, err := convertGoMod(string(data), name, r.Version)
	if err != nil {
		return err
	}
	r.GODEBUG = godebugVersion(text)
	dir, err := r.CacheDir()
	if err != nil {
		return err
	}
	// go build adds to both files, so a changed go.mod gets a new file name.
	modfile := filepath.Join(dir, fmt.Sprintf("%x.mod", sha256.Sum256([]byte(text))))
	// -mod=mod adds the checksums of the staging modules. The checksum database verifies them.
	r.flags = []string{"-mod=mod", "-modfile=" + modfile}
	if _, err := os.Stat(modfile); err == nil {
		return nil
	}
	sums, err := os.ReadFile(filepath.Join(r.Dir, "go.sum"))
	if err != nil {
		return err
	}
	unlock, err := flock.LockDir(ctx, dir)
	if err != nil {
		return err
	}
	defer unlock()
	part := filepath.Join(dir, "part")
	for _, f := range []struct {
		path string
		data []byte
	}{{strings.TrimSuffix(modfile, ".mod") + ".sum", sums}, {modfile, []byte(text)}} {
		if err := os.WriteFile(part, f.data, 0o644); err != nil {
			return err
		}
		if err := os.Rename(part, f.path); err != nil {
			return err
		}
	}
	return nil
}

var (
	moduleLinePattern   = regexp.MustCompile(`(?m)^module .*$`)
	stagingLinePattern  = regexp.MustCompile(`(?m)^\s*(k8s\.io/[a-z0-9-]+) v0\.0\.0$`)
	localReplacePattern = regexp.MustCompile(`(?m)^\s*(?:replace )?k8s\.io/\S+ => \./.*\n`)
	godebugLinePattern  = regexp.MustCompile(`(?m)^godebug default=(\S+)$`)
)

// convertGoMod converts a release's go.mod for use by this module. The release replaces the staging
// modules with directories. In the result, they have their released versions.
func convertGoMod(text, name, version string) (string, error) {
	pinned := "v0" + strings.TrimPrefix(version, "v1")
	for _, line := range []*regexp.Regexp{moduleLinePattern, stagingLinePattern} {
		if !line.MatchString(text) {
			return "", fmt.Errorf("its go.mod is not of the form that is known: no line is like %s", line)
		}
	}
	text = moduleLinePattern.ReplaceAllString(text, "module "+name)
	text = localReplacePattern.ReplaceAllString(text, "")
	var replaces strings.Builder
	for _, m := range stagingLinePattern.FindAllStringSubmatch(text, -1) {
		fmt.Fprintf(&replaces, "replace %s => %[1]s %s\n", m[1], pinned)
	}
	return text + "\nrequire " + kubernetesModule + " " + version + "\n\n" + replaces.String(), nil
}

// godebugVersion returns the Go version whose defaults a go.mod selects, or "".
func godebugVersion(text string) string {
	if m := godebugLinePattern.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// Build builds a package and writes the program to out. pkg is a package of Kubernetes, or
// "./directory" of this module. flags are passed to go build.
func (r *Release) Build(ctx context.Context, out, pkg string, flags ...string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	args := slices.Concat([]string{"build"}, r.flags, []string{"-o", out}, flags, []string{pkg})
	if _, err := RunGo(ctx, r.moduleRoot, args...); err != nil {
		return fmt.Errorf("build %s of Kubernetes %s: %w", pkg, r.Version, err)
	}
	return nil
}
