// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
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

// location returns where the kubelet of this machine has its configuration: where
// the files of what starts it say, or else the first of the well-known places that
// exists; nil if there is none. What could not be looked at on the way is in the
// reading: a place may be there, and closed to this user.
func (n Node) location(ctx context.Context) (*location, *reading, error) {
	r := newReading(ctx, n)
	if !n.located() {
		return nil, r, nil
	}
	if loc, err := r.flagged(); loc != nil || err != nil {
		return loc, r, err
	}
	for _, loc := range append(wellKnown(), own()) {
		if r.exists(&loc) {
			return &loc, r, nil
		}
	}
	return nil, r, nil
}

// looked are the places that location looks at, beside the kubelet's flags.
func (n Node) looked() (names []string) {
	for _, loc := range append(wellKnown(), own()) {
		names = append(names, n.host(loc.config))
	}
	return names
}

// exists reports whether a location is there, and makes its paths those of this
// machine.
func (r *reading) exists(loc *location) bool {
	loc.config, loc.binDir = r.node.host(loc.config), r.node.host(loc.binDir)
	_, err := os.Stat(loc.config)
	r.noteHost(loc.config, err)
	return err == nil
}

// flagged is what the files of the kubelet's service name; nil if they name nothing.
func (r *reading) flagged() (*location, error) {
	flags := r.serviceFlags(r.find())
	config, binDir := flags[configFlag], flags[binDirFlag]
	switch {
	case config == "" && binDir == "":
		return nil, nil
	case config == "" || binDir == "":
		given, missing := configFlag, binDirFlag
		if config == "" {
			given, missing = missing, given
		}
		return nil, withHint(fmt.Errorf("the kubelet flags in %s include --%s but not --%s, so the kubelet does not start", strings.Join(r.naming(), " and "), given, missing), "set both kubelet flags, or neither")
	}
	loc := &location{
		name:   "the kubelet flags in " + strings.Join(r.naming(), " and "),
		via:    r.read(),
		config: r.node.host(path.Join("/", config)),
		binDir: r.node.host(path.Join("/", binDir)),
	}
	for _, known := range wellKnown() {
		if loc.config == r.node.host(known.config) && loc.binDir == r.node.host(known.binDir) {
			loc.name = known.name
		}
	}
	return loc, nil
}

// serviceFlags are the flags that the next kubelet of this node will have. Of k3s
// and rke2 they are those of the kubelet inside: both paths, or none where one of
// them is not there.
func (r *reading) serviceFlags(found started) map[string]string {
	switch found.program {
	case "k3s", "rke2":
		f, told := r.rancherFlags(found)
		if len(told.Args) == 0 && (f.Config.Type != File || f.BinDir.Type != Directory) {
			return nil
		}
		return map[string]string{configFlag: f.Config.Path, binDirFlag: f.BinDir.Path}
	}
	if found.kind != NoKubelet {
		return kubeletFlags(unshelled(texts(r.command(found))), KubeconfigFlag)
	}
	// Drop-ins and environment files are there without the unit that reads them:
	// another init system's, or the package is yet to come.
	if s := r.start("kubelet.service"); len(s.unit.execs) > 0 {
		return kubeletFlags(unshelled(texts(r.command(s))), KubeconfigFlag)
	}
	return r.scattered()
}

// unshelled adds the words that a shell is given in one: it may start the kubelet.
func unshelled(args []string) []string {
	for _, arg := range slices.Clone(args) {
		if strings.ContainsAny(arg, " \t") && !strings.HasPrefix(arg, "--") {
			args = append(args, splitWords(arg)...)
		}
	}
	return args
}

// scattered reads flags from the files that kubeadm and the kubelet packages
// install, where no service says which of them it reads: another init system's.
// Later files win.
func (r *reading) scattered() map[string]string {
	flags := map[string]string{}
	for _, name := range []string{"/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet", "/etc/sysconfig/kubelet"} {
		maps.Copy(flags, kubeletFlags(words(r.file(name))))
	}
	return flags
}
