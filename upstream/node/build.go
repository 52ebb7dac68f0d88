// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/regcred/regcred/internal/flock"
	"github.com/regcred/regcred/upstream/inside"
	"github.com/regcred/regcred/upstream/kubelet"
	"github.com/regcred/regcred/upstream/plugins"
	"github.com/regcred/regcred/upstream/release"
)

// UpstreamECR is the name of AWS's own plugin in [BinDir].
const UpstreamECR = "upstream-" + plugins.ECR

// BinDir returns the directory with this repository's plugins and AWS's plugin
// [UpstreamECR].
func BinDir() string { return filepath.Join(testRunDir(), "bin") }

// RegcredPath returns the path of the regcred program.
func RegcredPath() string { return programPath("regcred") }

// ControllerPath returns the path of the regcred-controller program.
func ControllerPath() string { return programPath("regcred-controller") }

// DispatcherPath returns the path of the plugin that "regcred install" installs for a kubelet.
func DispatcherPath() string { return programPath(plugins.Dispatcher) }

// programPath returns the path of a program that was built for the run and is not a plugin.
func programPath(name string) string { return filepath.Join(testRunDir(), "programs", name) }

// buildAll builds all programs into the run's directory, including additional control
// plane programs in more.
func buildAll(ctx context.Context, dir string, more ...string) error {
	bin, programs := filepath.Join(dir, "bin"), filepath.Join(dir, "programs")
	for _, d := range []string{bin, programs} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	jobs := append(kubernetesBuildJobs(ctx, programs, append([]string{"kube-apiserver"}, more...)),
		func() error { _, err := plugins.BuildInRepository(programs, "node/waiter"); return err },
		func() error { _, err := plugins.Build(programs, "regcred"); return err },
		func() error { _, err := plugins.Build(programs, "regcred-controller"); return err },
		func() error { _, err := plugins.Build(programs, plugins.Dispatcher); return err },
		func() error { _, err := plugins.BuildUpstreamECR(bin); return err },
	)
	for _, name := range []string{plugins.ECR, plugins.GCR, plugins.ACR, plugins.DockerConfig, plugins.Token, plugins.Static} {
		jobs = append(jobs, func() error { _, err := plugins.Build(bin, name); return err })
	}
	return runJobs(jobs)
}

// kubernetesBuildJobs returns jobs that build the chosen kubelet and its control plane.
func kubernetesBuildJobs(ctx context.Context, programs string, control []string) []func() error {
	ofKubelet := []string{"kubelet"}
	if selectedVersions.control == selectedVersions.kubelet && !selectedVersions.hasRegcred {
		ofKubelet, control = nil, append(ofKubelet, control...)
	}
	jobs := []func() error{func() error { return buildKubernetes(ctx, selectedVersions.control, programs, control...) }}
	switch {
	case selectedVersions.hasRegcred:
		jobs = append(jobs, func() error { return inside.Build(ctx, filepath.Join(programs, "kubelet")) })
	case ofKubelet != nil:
		jobs = append(jobs, func() error { return buildKubernetes(ctx, selectedVersions.kubelet, programs, ofKubelet...) })
	}
	return jobs
}

// runJobs runs all jobs, at most one per CPU at a time.
func runJobs(jobs []func() error) error {
	free := make(chan struct{}, runtime.NumCPU())
	errs := make([]error, len(jobs))
	var wg sync.WaitGroup
	for i, job := range jobs {
		wg.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			errs[i] = job()
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// buildKubernetes builds programs of a Kubernetes release with that release's
// dependencies. It keeps them in the user's cache, since a release does not change.
func buildKubernetes(ctx context.Context, version, programs string, names ...string) error {
	r, err := release.OpenRelease(ctx, version)
	if err != nil {
		return err
	}
	dir, err := r.CacheDir()
	if err != nil {
		return err
	}
	dir = filepath.Join(dir, runtime.GOARCH)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	done, err := lockBuild(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	defer done()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := buildOnce(ctx, r, path); err != nil {
			return err
		}
		if err := os.Symlink(path, filepath.Join(programs, name)); err != nil {
			return err
		}
	}
	return nil
}

// buildOnce builds a program of a release unless it was already built with this version of Go.
func buildOnce(ctx context.Context, r *release.Release, path string) error {
	if info, err := buildinfo.ReadFile(path); err == nil && info.GoVersion == runtime.Version() {
		return nil
	}
	name := filepath.Base(path)
	fmt.Fprintf(os.Stderr, "node: building %s %s: a minute or two, once\n", name, r.Version)
	// Clients refuse a server whose version they cannot parse.
	flags := "-s -w -X k8s.io/component-base/version.gitVersion=" + r.Version
	if err := r.Build(ctx, path+".part", "k8s.io/kubernetes/cmd/"+name, "-ldflags", flags); err != nil {
		return err
	}
	if r.Version == kubelet.Version { // built with this module's go.mod
		info, err := buildinfo.ReadFile(path + ".part")
		if err == nil {
			err = kubelet.CheckRelease(info)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return os.Rename(path+".part", path)
}

// lockBuild locks path, so that concurrent processes do not build the same programs twice. It waits
// for the process that holds the lock.
func lockBuild(path string) (done func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		held, err := flock.TryLock(f)
		switch {
		case held || errors.Is(err, errors.ErrUnsupported):
			return func() { f.Close() }, nil
		case err != nil:
			f.Close()
			return nil, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}
