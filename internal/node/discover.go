// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
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

// own is where a machine that is no node has its configuration: this program's
// own place. A directory of that name serves too.
func own() location {
	return location{name: "this machine's configuration", config: OwnConfig, binDir: OwnBinDir}
}

// The paths of a machine that is no node.
const (
	OwnConfig = "/etc/regcred/credential-providers.yaml"
	OwnBinDir = "/etc/regcred/bin"
)

// located reports whether the locations are places of this machine. On Windows
// they begin at the root of whatever drive is the current one, where any user may make
// a directory, and nothing here tells whose it is.
func (n Node) located() bool { return filepath.IsAbs(n.host("/")) }

// location returns the first location that exists, or nil, and what could not
// be looked at on the way: a place may be there, and closed to this user.
func (n Node) location() (loc *location, unread []string) {
	if !n.located() {
		return nil, nil
	}
	r := &reading{node: n, texts: map[string]string{}}
	for _, loc := range wellKnown() {
		if r.exists(&loc) {
			return &loc, r.unread
		}
	}
	if loc = r.kubeletService(); loc != nil {
		return loc, r.unread
	}
	if mine := own(); r.exists(&mine) {
		return &mine, r.unread
	}
	return nil, r.unread
}

// exists reports whether a location is there, and makes its paths those of this
// machine.
func (r *reading) exists(loc *location) bool {
	loc.config, loc.binDir = r.node.host(loc.config), r.node.host(loc.binDir)
	_, err := os.Stat(loc.config)
	if err != nil {
		r.note(loc.config, err)
	}
	return err == nil
}

// kubeletService finds the flags of the service kubelet.
func (r *reading) kubeletService() *location {
	s := r.unit("kubelet.service")
	flags := kubeletFlags(r.arguments(s))
	if s.exec == "" {
		flags = r.scattered()
	}
	if flags[configFlag] == "" || flags[binDirFlag] == "" {
		return nil
	}
	return &location{
		name:   "the kubelet flags in " + strings.Join(r.naming(), " and "),
		via:    slices.Sorted(maps.Keys(r.texts)),
		config: r.node.host(path.Join("/", flags[configFlag])),
		binDir: r.node.host(path.Join("/", flags[binDirFlag])),
	}
}

// scattered reads flags from the files that kubeadm and the kubelet packages
// install, where no service says which of them it reads: another init system's.
// Later files win.
func (r *reading) scattered() map[string]string {
	flags := map[string]string{}
	for _, name := range []string{"/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet", "/etc/sysconfig/kubelet"} {
		maps.Copy(flags, kubeletFlags(words(r.file(r.node.host(name)))))
	}
	return flags
}

// words splits an environment file into words. Quotes only
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
