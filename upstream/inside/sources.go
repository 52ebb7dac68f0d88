// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inside

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/regcred/regcred/upstream/kubelet"
	"github.com/regcred/regcred/upstream/release"
)

const (
	pluginPackageDir   = "pkg/credentialprovider/plugin"       // in the Kubernetes module
	imageManagerFile   = "pkg/kubelet/images/image_manager.go" // in the Kubernetes module
	replacementPackage = "github.com/regcred/regcred/upstream/inside/plugin"
)

// sourceCopy is a copy of the Kubernetes packages that a kubelet is built from.
type sourceCopy struct {
	dir string // directory of the copy

	module   string   // directory of this module
	release  string   // directory of the Kubernetes release in the module cache; must not be changed
	packages []string // directories of the packages, relative to release
}

// listPackages lists the packages to copy.
func (s *sourceCopy) listPackages(ctx context.Context) (err error) {
	if s.module, err = release.RunGo(ctx, "", "list", "-m", "-f", "{{.Dir}}"); err != nil {
		return err
	}
	s.release, err = release.RunGo(ctx, s.module, "list", "-m", "-f", "{{.Dir}}", kubernetesModule)
	if err == nil && s.release == "" {
		err = fmt.Errorf("the module %s is not in the module cache: run go mod download in upstream/", kubernetesModule)
	}
	if err != nil {
		return err
	}
	const format = "{{with .Module}}{{if eq .Path \"" + kubernetesModule + "\"}}{{$.Dir}}{{end}}{{end}}"
	list, err := release.RunGo(ctx, s.module, "list", "-deps", "-f", format, kubeletPackage, replacementPackage)
	if err != nil {
		return err
	}
	for dir := range strings.SplitSeq(list, "\n") {
		rel, err := filepath.Rel(s.release, dir)
		if err != nil {
			return err
		}
		s.packages = append(s.packages, rel)
	}
	if !slices.Contains(s.packages, filepath.FromSlash(pluginPackageDir)) {
		return fmt.Errorf("%s: the kubelet of %s no longer imports it", pluginPackageDir, kubelet.Version)
	}
	return nil
}

// copyPackages copies the packages, except the one that package plugin replaces.
func (s *sourceCopy) copyPackages() error {
	for _, dir := range append(s.packages, ".") {
		if dir == filepath.FromSlash(pluginPackageDir) {
			continue
		}
		keep := isSourceFile
		if dir == "." {
			keep = func(name string) bool { return name == "go.mod" || name == "go.sum" }
		}
		if err := copyFiles(filepath.Join(s.release, dir), filepath.Join(s.dir, dir), keep); err != nil {
			return err
		}
	}
	return nil
}

// replacePlugin copies this repository's package plugin over the kubelet's.
func (s *sourceCopy) replacePlugin() error {
	return copyFiles(filepath.Join(s.module, "inside", "plugin"), filepath.Join(s.dir, pluginPackageDir), isSourceFile)
}

// patchImageManager applies [PatchImageManager] to the copy.
func (s *sourceCopy) patchImageManager() error {
	path := filepath.Join(s.dir, imageManagerFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed, err := PatchImageManager(kubelet.Version, text)
	if err != nil {
		return err
	}
	return os.WriteFile(path, changed, 0o600)
}

// isSourceFile reports whether a build needs the file, which is every file except tests.
func isSourceFile(name string) bool { return !strings.HasSuffix(name, "_test.go") }

// copyFiles copies a directory's files. The copies are writable.
func copyFiles(from, to string, keep func(name string) bool) error {
	entries, err := os.ReadDir(from)
	if err == nil {
		err = os.MkdirAll(to, 0o700)
	}
	if err != nil {
		return err
	}
	copied := 0
	for _, e := range entries {
		if !e.Type().IsRegular() || !keep(e.Name()) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, e.Name()), data, 0o600)
		}
		if err != nil {
			return err
		}
		copied++
	}
	if copied == 0 {
		return errors.New(from + ": there is nothing to copy")
	}
	return nil
}
