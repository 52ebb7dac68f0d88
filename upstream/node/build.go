// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/regcred/regcred/internal/flock"
	"github.com/regcred/regcred/upstream/kubelet"
	"github.com/regcred/regcred/upstream/plugins"
)

// UpstreamECR is the name of AWS's own plugin in [BinDir].
const UpstreamECR = "upstream-" + plugins.ECR

// BinDir is the directory with this repository's plugins, and AWS's own one
// as [UpstreamECR].
func BinDir() string { return filepath.Join(dir(), "bin") }

// Regcred is the path of the program regcred.
func Regcred() string { return program("regcred") }

// Dispatcher is the path of the plugin that "regcred install" gives a kubelet.
func Dispatcher() string { return program(plugins.Dispatcher) }

// program is the path of what was built for the run and is no plugin.
func program(name string) string { return filepath.Join(dir(), "programs", name) }

// buildAll builds into a directory of the run, more programs of Kubernetes among
// it. Kubernetes is kept in the user's cache, where go build replaces it only by
// something else.
func buildAll(dir string, more ...string) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	cache = filepath.Join(cache, "regcred-node", kubelet.Version+"-"+runtime.GOARCH)
	bin, programs := filepath.Join(dir, "bin"), filepath.Join(dir, "programs")
	for _, d := range []string{cache, bin, programs} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	jobs := []func() error{
		func() error { return buildKubernetes(cache, programs, "kubelet") },
		func() error { return buildKubernetes(cache, programs, "kube-apiserver") },
		func() error {
			return goBuild([]string{"CGO_ENABLED=0"}, filepath.Join(programs, "waiter"), "./node/waiter")
		},
		func() error { _, err := plugins.Build(programs, "regcred"); return err },
		func() error { _, err := plugins.Build(programs, plugins.Dispatcher); return err },
		func() error { _, err := plugins.BuildUpstreamECR(bin); return err },
	}
	for _, name := range []string{plugins.ECR, plugins.GCR, plugins.ACR, plugins.DockerConfig, plugins.Token, plugins.Static} {
		jobs = append(jobs, func() error { _, err := plugins.Build(bin, name); return err })
	}
	for _, name := range more {
		jobs = append(jobs, func() error { return buildKubernetes(cache, programs, name) })
	}
	return parallel(jobs)
}

// parallel runs a few jobs at a time.
func parallel(jobs []func() error) error {
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

func buildKubernetes(cache, programs, name string) error {
	path := filepath.Join(cache, name)
	done, err := turn(path + ".lock")
	if err != nil {
		return err
	}
	defer done()
	if _, err := os.Stat(path); err != nil {
		fmt.Fprintf(os.Stderr, "node: building %s %s: a minute or two, once\n", name, kubelet.Version)
	}
	// Clients refuse a server whose version they cannot parse.
	flags := "-s -w -X k8s.io/component-base/version.gitVersion=" + kubelet.Version
	if err := goBuild(nil, path, "-ldflags", flags, "k8s.io/kubernetes/cmd/"+name); err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(path)
	if err == nil {
		err = kubelet.CheckRelease(info)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.Symlink(path, filepath.Join(programs, name))
}

// turn waits until nobody else builds the same: it would take both as long again.
func turn(path string) (done func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		held, err := flock.Hold(f)
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

// goBuild runs go build in the module's directory.
func goBuild(environ []string, out string, args ...string) error {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	cmd := exec.Command("go", append([]string{"build", "-o", out}, args...)...)
	cmd.Dir = strings.TrimSpace(string(module))
	cmd.Env = append(os.Environ(), environ...)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", args[len(args)-1], err, said)
	}
	return nil
}
