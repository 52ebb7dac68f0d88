// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inside

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/regcred/regcred/upstream/kubelet"
	"github.com/regcred/regcred/upstream/release"
)

const (
	kubernetesModule = "k8s.io/kubernetes"
	kubeletPackage   = kubernetesModule + "/cmd/kubelet"
)

// Version is the version that the kubelet reports. Clients treat it as the version of the
// Kubernetes release.
const Version = kubelet.Version + "+regcred"

// Build builds the kubelet and writes it to out. The first build takes a few minutes. It
// must be called from within this module.
func Build(ctx context.Context, out string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	if info, err := os.Stat(out); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is a directory or a device: give the path of a file", out)
	}
	// Write to a temporary file in the same directory, so that a partial kubelet never appears at
	// out. If the directory is not writable, this fails before the build, which takes minutes.
	part, err := os.CreateTemp(filepath.Dir(out), filepath.Base(out)+".part-")
	if err != nil {
		return err
	}
	part.Close()
	defer os.Remove(part.Name())
	dir, err := os.MkdirTemp("", "regcred-inside-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := buildKubelet(ctx, dir, part.Name()); err != nil {
		return fmt.Errorf("kubelet %s: %w", Version, err)
	}
	return os.Rename(part.Name(), out)
}

// buildKubelet builds the kubelet from sources that it copies to dir.
func buildKubelet(ctx context.Context, dir, out string) error {
	s := sourceCopy{dir: filepath.Join(dir, "kubernetes")}
	if err := s.listPackages(ctx); err != nil {
		return err
	}
	for _, step := range []func() error{s.copyPackages, s.replacePlugin, s.patchImageManager} {
		if err := step(); err != nil {
			return err
		}
	}
	modfile := filepath.Join(dir, "inside.mod")
	if err := s.writeModule(ctx, modfile); err != nil {
		return err
	}
	// With -trimpath, a later build in another directory can reuse the build cache. The program's
	// build information still contains the directory's path, so two builds differ.
	flags := "-s -w -X k8s.io/component-base/version.gitVersion=" + Version
	if _, err := release.RunGo(ctx, s.module, "build", "-modfile="+modfile, "-trimpath", "-ldflags="+flags, "-o", out, kubeletPackage); err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(out)
	if err != nil {
		return err
	}
	return kubelet.CheckRelease(info)
}

// writeModule writes a go.mod that replaces the Kubernetes module with the copy, and its go.sum.
func (s *sourceCopy) writeModule(ctx context.Context, path string) error {
	for name, to := range map[string]string{"go.mod": path, "go.sum": strings.TrimSuffix(path, ".mod") + ".sum"} {
		data, err := os.ReadFile(filepath.Join(s.module, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o600); err != nil {
			return err
		}
	}
	_, err := release.RunGo(ctx, s.module, "mod", "edit", "-replace="+kubernetesModule+"="+s.dir, path)
	return err
}
