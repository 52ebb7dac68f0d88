// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// The paths of a machine that is not a node.
const (
	OwnConfig = "/etc/regcred/credential-providers.yaml"
	OwnBinDir = "/etc/regcred/bin"
)

// wellKnown returns the locations of node images, and regcred's own location, in the
// order in which they are tried.
func wellKnown() (list []location) {
	for _, k := range kinds() {
		same := func(l location) bool { return l.name == k.place.name }
		if k.place.name != "" && !slices.ContainsFunc(list, same) {
			list = append(list, k.place)
		}
	}
	return append(list, location{name: "this machine's configuration", config: OwnConfig, binDir: OwnBinDir})
}

// location returns the location in the flags of the kubelet's service, or otherwise the
// first well-known location that exists, or nil. unread lists paths
// that this user has no permission to read.
func (r *Reading) location(ctx context.Context) (loc *location, unread []string, err error) {
	if !r.hasPaths() {
		return nil, nil, nil
	}
	rd := r.reader(ctx)
	if loc, err = rd.flaggedLocation(r.kubeletService(rd)); loc != nil || err != nil {
		return loc, rd.unread, err
	}
	for _, loc := range wellKnown() {
		loc.config, loc.binDir = r.Host(loc.config), r.Host(loc.binDir)
		_, err := os.Stat(loc.config)
		rd.noteHost(loc.config, err)
		if err == nil {
			return &loc, rd.unread, nil
		}
	}
	return nil, rd.unread, nil
}

// flaggedLocation returns the location in the flags of the kubelet's service; nil if
// they set none.
func (r *reader) flaggedLocation(s kubeletService) (*location, error) {
	flags := r.serviceFlags(s)
	config, binDir := flags[configFlag], flags[binDirFlag]
	switch {
	case config == "" && binDir == "":
		return nil, nil
	case config == "" || binDir == "":
		given, missing := configFlag, binDirFlag
		if config == "" {
			given, missing = missing, given
		}
		return nil, withHint(fmt.Errorf("the kubelet flags in %s include --%s but not --%s, so the kubelet does not start", strings.Join(r.flagFiles(), " and "), given, missing), "set both kubelet flags, or neither")
	}
	loc := &location{
		name:   "the kubelet flags in " + strings.Join(r.flagFiles(), " and "),
		via:    r.usedFiles(),
		config: r.Host(path.Join("/", config)),
		binDir: r.Host(path.Join("/", binDir)),
	}
	for _, known := range wellKnown() {
		if known.config != OwnConfig && loc.config == r.Host(known.config) && loc.binDir == r.Host(known.binDir) {
			loc.name = known.name
		}
	}
	return loc, nil
}

// serviceFlags returns the flags of the kubelet's next start.
func (r *reader) serviceFlags(s kubeletService) map[string]string {
	if s.kind.isRancher() {
		flags, rancher := r.rancherFlags(s)
		next := (&Setup{Flags: flags, Rancher: rancher}).Next()
		return map[string]string{configFlag: next.Config, binDirFlag: next.BinDir}
	}
	if s.kind != NoKubelet {
		return kubeletFlags(splitShellWords(texts(r.command(s))), KubeconfigFlag)
	}
	// Drop-ins and environment files can exist without the unit, for example if the
	// package is not installed yet.
	if s := r.unitService("kubelet.service"); len(s.unit.execs) > 0 {
		return kubeletFlags(splitShellWords(texts(r.command(s))), KubeconfigFlag)
	}
	return r.flagsFromDefaultsFiles()
}

// splitShellWords adds the words of arguments that may be commands of a shell.
func splitShellWords(args []string) []string {
	for _, arg := range slices.Clone(args) {
		if strings.ContainsAny(arg, " \t") && !strings.HasPrefix(arg, "--") {
			args = append(args, splitWords(arg)...)
		}
	}
	return args
}

// flagsFromDefaultsFiles returns the flags in the files that kubeadm and the kubelet
// packages install, for an unknown init system. Later files override earlier ones.
func (r *reader) flagsFromDefaultsFiles() map[string]string {
	flags := map[string]string{}
	for _, name := range []string{"/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet", "/etc/sysconfig/kubelet"} {
		maps.Copy(flags, kubeletFlags(splitFlags(r.file(name))))
	}
	return flags
}
