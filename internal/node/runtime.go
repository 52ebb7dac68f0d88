// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Runtime describes the container runtime of a node.
type Runtime struct {
	Name    string    // "containerd" or "CRI-O"
	PID     int       // 0 if the runtime is not running and only its unit was found
	From    string    // source of Environ, such as "containerd, process 812"
	Environ []string  // environment of the process, or the environment that the unit sets
	Started time.Time // zero if unknown
}

// knownRuntimes lists the supported container runtimes.
func knownRuntimes() []struct{ name, comm, unit string } {
	return []struct{ name, comm, unit string }{
		{"containerd", "containerd", "containerd.service"},
		{"CRI-O", "crio", "crio.service"},
	}
}

// Runtime returns the container runtime with the given process ID. If pid is 0, it returns the
// first runtime that is running or, if none is running, the first that has a unit. It returns
// nil if there is no runtime.
func (r *Reader) Runtime(ctx context.Context, pid int) *Runtime {
	rd := r.newReader(ctx)
	for _, want := range knownRuntimes() {
		var environ []string
		var err error
		running := rd.findRunning(func(p *process) bool {
			if p.commandName() != want.comm || pid != 0 && p.pid != pid {
				return false
			}
			environ, err = p.readStrings("environ")
			return true
		})
		if running == nil {
			continue
		}
		from := fmt.Sprintf("%s, process %d", want.name, running.PID)
		if err != nil {
			environ, from = rd.unitEnvironment(want.unit), fmt.Sprintf("%s, from %s: only root can read the environment of process %d", want.name, want.unit, running.PID)
		}
		return &Runtime{Name: want.name, PID: running.PID, From: from, Environ: environ, Started: r.StartTime(running)}
	}
	for _, want := range knownRuntimes() {
		if rd.readUnit(want.unit, "").fragment != "" {
			return &Runtime{Name: want.name, From: want.name + ", from " + want.unit, Environ: rd.unitEnvironment(want.unit)}
		}
	}
	return nil
}

// unitEnvironment returns the environment that a unit sets.
func (r *fileReader) unitEnvironment(unit string) (environ []string) {
	vars, _ := r.unitVariables(r.readUnit(unit, ""))
	for name, v := range vars {
		environ = append(environ, name+"="+v.value)
	}
	slices.Sort(environ)
	return environ
}

// AutoEndpoint makes [Node.RuntimeEndpoint] search for the runtime's endpoint.
const AutoEndpoint = "auto"

// runtimeSockets returns the runtimes' default CRI sockets.
func runtimeSockets() []string {
	return []string{
		"/run/containerd/containerd.sock",
		"/run/crio/crio.sock",
		"/run/k3s/containerd/containerd.sock",
		"/run/cri-dockerd.sock",
	}
}

// RuntimeEndpoint returns endpoint unless endpoint is [AutoEndpoint]. For [AutoEndpoint], it
// returns the endpoint of the running kubelet that o names or, without a kubelet, the socket of
// the only runtime on this machine.
func (n Node) RuntimeEndpoint(endpoint string, o *Origin) (string, error) {
	if endpoint != AutoEndpoint {
		return endpoint, nil
	}
	if o.KubeletPID != 0 {
		return n.kubeletRuntime(o)
	}
	var found []string
	for _, socket := range runtimeSockets() {
		if info, err := os.Stat(n.HostPath(socket)); err == nil && info.Mode()&fs.ModeSocket != 0 {
			found = append(found, n.HostPath(socket))
		}
	}
	switch len(found) {
	case 0:
		return "", withHint(fmt.Errorf("no container runtime found: no socket at %s", strings.Join(runtimeSockets(), ", ")),
			"set --runtime-endpoint unix:///path, or use the running kubelet's endpoint with --as-kubelet")
	case 1:
		return "unix://" + found[0], nil
	}
	return "", usageError("choose one: --runtime-endpoint unix://"+found[0],
		"found %d container runtimes: %s", len(found), strings.Join(found, ", "))
}

// kubeletRuntime returns the endpoint through which a running kubelet pulls images.
func (n Node) kubeletRuntime(o *Origin) (string, error) {
	p, err := n.openProcess(o.KubeletPID)
	if err != nil {
		return "", err
	}
	defer p.Close()
	// The process may have executed another program since it was found.
	if err := errors.Join(p.checkOwner(os.Geteuid()), p.checkRoot()); err != nil {
		return "", err
	}
	args, err := p.readStrings("cmdline")
	if err != nil {
		return "", err
	}
	cfg, err := n.readTrustedConfig(args, o.Dir)
	if err != nil {
		return "", withHint(fmt.Errorf("--as-kubelet: %w", err), "give --runtime-endpoint")
	}
	const imageFlag, runtimeFlag = "image-service-endpoint", "container-runtime-endpoint"
	flags := effectiveFlags(args, imageFlag, runtimeFlag)
	image := cmp.Or(flags[imageFlag], cfg.ImageServiceEndpoint)
	runtime := cmp.Or(flags[runtimeFlag], cfg.ContainerRuntimeEndpoint, defaultRuntime)
	return cmp.Or(image, runtime), nil
}

// absoluteConfigFlags returns a kubelet's --config and --config-dir arguments with absolute
// paths. dir is the kubelet's working directory.
func absoluteConfigFlags(args []string, dir string) (list []string) {
	for _, f := range parseFlags(args, "config", "config-dir") {
		if f.value != "" && !filepath.IsAbs(f.value) {
			f.value = dir + "/" + f.value // do not clean the path, because a trailing slash matters
		}
		list = append(list, "--"+f.name+"="+f.value)
	}
	return list
}

// readTrustedConfig reads the configuration of a running kubelet. dir is the kubelet's working
// directory. It rejects files that other users can change, because regcred sends credentials to
// the socket that these files specify.
func (n Node) readTrustedConfig(args []string, dir string) (cfg kubeletFields, err error) {
	r := Node{}.newFileCache().newReader(context.Background()) // the kubelet's root directory is this machine's root directory
	args = absoluteConfigFlags(args, dir)
	files := r.configFiles(args)
	if len(r.unreadablePaths) > 0 {
		return cfg, &fs.PathError{Op: "open", Path: r.unreadablePaths[0], Err: fs.ErrPermission}
	}
	var paths []string
	for _, f := range files {
		paths = append(paths, f.path)
	}
	if dir := effectiveFlags(args, "config-dir")["config-dir"]; dir != "" {
		if _, err := os.Lstat(dir); err != nil {
			return cfg, fmt.Errorf("the kubelet's --config-dir: %w", err)
		}
		paths = append(paths, filepath.Clean(dir))
	}
	for _, path := range paths {
		if err := n.CheckTrust(&Origin{From: "the kubelet's configuration", Config: path}, nil); err != nil {
			return cfg, err
		}
	}
	c := newKubeletConfig()
	for _, file := range files {
		if err := r.loadContent(file.path).err; err != nil {
			return cfg, err
		}
		if err := c.mergeFile(file, []byte(r.readFile(file.path))); err != nil {
			return cfg, fmt.Errorf("%s: %w", file.path, err)
		}
	}
	return c.decodeFields()
}
