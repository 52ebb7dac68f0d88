// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// AutoEndpoint has the container runtime searched for.
const AutoEndpoint = "auto"

// runtimeSockets are where runtimes serve CRI.
func runtimeSockets() []string {
	return []string{
		"/run/containerd/containerd.sock",
		"/run/crio/crio.sock",
		"/run/k3s/containerd/containerd.sock",
		"/run/cri-dockerd.sock",
	}
}

// RuntimeEndpoint returns the endpoint that was asked for; of [AutoEndpoint],
// that of the origin's kubelet, or else of the one runtime on this machine.
func (n Node) RuntimeEndpoint(endpoint string, o *Origin) (string, error) {
	if endpoint != AutoEndpoint {
		return endpoint, nil
	}
	if o.Kubelet != 0 {
		return n.kubeletRuntime(o)
	}
	var found []string
	for _, socket := range runtimeSockets() {
		if info, err := os.Stat(n.host(socket)); err == nil && info.Mode()&fs.ModeSocket != 0 {
			found = append(found, n.host(socket))
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

// kubeletRuntime returns where a running kubelet has its images pulled: by its
// flags, or else its configuration file and the drop-ins of that.
func (n Node) kubeletRuntime(o *Origin) (string, error) {
	p, err := n.openProcess(o.Kubelet)
	if err != nil {
		return "", err
	}
	defer p.Close()
	// It is another moment than that at which it was found.
	if err := errors.Join(p.checkOwner(os.Geteuid()), p.checkRoot()); err != nil {
		return "", err
	}
	args, err := p.list("cmdline")
	if err != nil {
		return "", err
	}
	k := kubelet{dir: o.Dir, flags: kubeletFlags(args, "image-service-endpoint", "container-runtime-endpoint", "config", "config-dir")}
	cfg, err := n.readTrusted(&k)
	if err != nil {
		return "", withHint(fmt.Errorf("--as-kubelet: %w", err), "give --runtime-endpoint")
	}
	image := cmp.Or(k.flags["image-service-endpoint"], cfg.ImageServiceEndpoint)
	runtime := cmp.Or(k.flags["container-runtime-endpoint"], cfg.ContainerRuntimeEndpoint, defaultRuntime)
	return cmp.Or(image, runtime), nil
}

// readTrusted reads the kubelet's configuration, and refuses one that others may
// change: credentials go to the socket that it names.
func (n Node) readTrusted(k *kubelet) (cfg kubeletFields, err error) {
	files, err := k.configFiles()
	if err != nil {
		return cfg, err
	}
	for _, file := range append(files, configFile{path: k.path("config-dir")}) {
		if file.path == "" {
			continue
		}
		if err := n.CheckTrust(&Origin{From: "the kubelet's configuration", Config: file.path}, nil); err != nil {
			return cfg, err
		}
	}
	return readConfig(files)
}

// configFiles lists the kubelet's configuration in the order in which it is read.
func (k *kubelet) configFiles() (files []configFile, err error) {
	if dir := k.path("config-dir"); dir != "" {
		if strings.HasSuffix(k.flags["config-dir"], "/") {
			dir += "/" // a link, then, is walked too
		}
		if files, err = kubeletDropIns(dir); err != nil {
			return nil, err
		}
	}
	if file := k.path("config"); file != "" {
		files = slices.Insert(files, 0, configFile{path: file})
	}
	return files, nil
}

// readConfig reads the kubelet's configuration.
func readConfig(files []configFile) (cfg kubeletFields, err error) {
	c := newKubeletConfig()
	for _, file := range files {
		data, err := read(file.path)
		if err != nil {
			return cfg, err
		}
		if err := c.add(file, data); err != nil {
			return cfg, fmt.Errorf("%s: %w", file.path, err)
		}
	}
	return c.decode()
}

// kubeletDropIns lists the files of a --config-dir, sub-directories included.
func kubeletDropIns(dir string) (files []configFile, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".conf" {
			files = append(files, configFile{path, true})
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("the kubelet's --config-dir: %w", err)
	}
	return files, err
}
