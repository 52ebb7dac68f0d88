// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// The kubelet's names of the two flags.
const (
	configFlag = "image-credential-provider-config"
	binDirFlag = "image-credential-provider-bin-dir"
)

// location is a place where some kind of node has its configuration. Paths
// are as they are on the node, without [Node.Root].
type location struct {
	name, config, binDir string
	via                  []string // the files that name the two
}

// wellKnown are the locations that the node images of distributions use, in
// the order in which they are tried.
func wellKnown() []location {
	return []location{
		{name: "the EKS node configuration", config: "/etc/eks/image-credential-provider/config.json", binDir: "/etc/eks/image-credential-provider"},
		{name: "the GKE node configuration", config: "/etc/srv/kubernetes/cri_auth_config.yaml", binDir: "/home/kubernetes/bin"},
		{name: "the AKS node configuration", config: "/var/lib/kubelet/credential-provider-config.yaml", binDir: "/var/lib/kubelet/credential-provider"},
		{name: "the k3s/rke2 node configuration", config: "/var/lib/rancher/credentialprovider/config.yaml", binDir: "/var/lib/rancher/credentialprovider/bin"},
	}
}

// location returns the first location that exists, or nil.
func (n Node) location() (*location, error) {
	for _, loc := range wellKnown() {
		loc.config, loc.binDir = n.host(loc.config), n.host(loc.binDir)
		_, err := os.Stat(loc.config)
		if err == nil {
			return &loc, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, withHint(fmt.Errorf("look for %s: %w", loc.name, err), "give --config and --bin-dir, or run as root")
		}
	}
	return n.discoverKubeadm()
}

// discoverKubeadm reads the kubelet's flags from the files that kubeadm and
// the kubelet packages install. Later files win, as on the kubelet's command
// line.
func (n Node) discoverKubeadm() (*location, error) {
	var files []string
	for _, dir := range []string{"/usr/lib/systemd/system", "/etc/systemd/system"} {
		dropIns, err := filepath.Glob(filepath.Join(n.host(dir), "kubelet.service.d", "*.conf"))
		if err != nil {
			return nil, err
		}
		files = append(files, dropIns...)
	}
	for _, name := range []string{"/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet", "/etc/sysconfig/kubelet"} {
		files = append(files, n.host(name))
	}
	flags := map[string]string{}
	var used []string
	for _, name := range files {
		data, err := read(name)
		if err != nil {
			continue // most of them do not exist; an unreadable one is no better
		}
		found := kubeletFlags(words(string(data)))
		maps.Copy(flags, found)
		if len(found) > 0 {
			used = append(used, name)
		}
	}
	if flags[configFlag] == "" || flags[binDirFlag] == "" {
		return nil, nil
	}
	return &location{
		name:   "the kubelet flags in " + strings.Join(used, " and "),
		via:    used,
		config: n.host(path.Join("/", flags[configFlag])),
		binDir: n.host(path.Join("/", flags[binDirFlag])),
	}, nil
}

// words splits an environment file or a systemd unit into words. Quotes only
// ever surround whole lists of flags there, so they count as space.
func words(text string) []string {
	var list []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		line = strings.NewReplacer(`"`, " ", "'", " ", "=--", "= --").Replace(strings.TrimSuffix(line, `\`))
		list = append(list, strings.Fields(line)...)
	}
	return list
}

// kubeletFlags picks the flags that matter here out of a kubelet's command
// line, and those of more; the last one of a name wins.
func kubeletFlags(args []string, more ...string) map[string]string {
	flags := map[string]string{}
	for i, arg := range args {
		name, value, inline := strings.Cut(arg, "=")
		name, ok := strings.CutPrefix(name, "--")
		if !ok {
			continue
		}
		// kubelet: its flags may be written with underscores.
		name = strings.ReplaceAll(name, "_", "-")
		if name != configFlag && name != binDirFlag && name != "root-dir" && !slices.Contains(more, name) {
			continue
		}
		if !inline && i+1 < len(args) {
			value = args[i+1]
		}
		flags[name] = value
	}
	return flags
}
