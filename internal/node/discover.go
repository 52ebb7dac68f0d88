// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// wellKnownLocations returns the locations that node images use, and then regcred's default
// location. The order is the order of the search.
func wellKnownLocations() (list []configLocation) {
	for _, k := range kindTable() {
		same := func(l configLocation) bool { return l.name == k.location.name }
		if k.location.name != "" && !slices.ContainsFunc(list, same) {
			list = append(list, k.location)
		}
	}
	return append(list, configLocation{name: "this machine's configuration", config: DefaultConfig, binDir: DefaultBinDir})
}

// findLocation returns the location in the flags of the kubelet's service. If they set none, it
// returns the first well-known location that exists, or nil. unread lists paths that this user
// has no permission to read.
func (r *Reader) findLocation(ctx context.Context) (loc *configLocation, unread []string, err error) {
	if !r.hasAbsolutePaths() {
		return nil, nil, nil
	}
	rd := r.newReader(ctx)
	if loc, err = rd.locationFromFlags(r.kubeletService(rd)); loc != nil || err != nil {
		return loc, rd.unreadablePaths, err
	}
	for _, loc := range wellKnownLocations() {
		loc.config, loc.binDir = r.HostPath(loc.config), r.HostPath(loc.binDir)
		_, err := os.Stat(loc.config)
		rd.recordUnreadableHost(loc.config, err)
		if err == nil {
			return &loc, rd.unreadablePaths, nil
		}
	}
	return nil, rd.unreadablePaths, nil
}

// locationFromFlags returns the location in the flags of the kubelet's service. It returns nil
// if the flags set no location.
func (r *fileReader) locationFromFlags(s kubeletService) (*configLocation, error) {
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
	loc := &configLocation{
		name:        "the kubelet flags in " + strings.Join(r.flagFiles(), " and "),
		sourceFiles: r.usedFiles(),
		config:      r.HostPath(r.absolutePath(config)),
		binDir:      r.HostPath(r.absolutePath(binDir)),
	}
	for _, known := range wellKnownLocations() {
		if known.config != DefaultConfig && loc.config == r.HostPath(known.config) && loc.binDir == r.HostPath(known.binDir) {
			loc.name = known.name
		}
	}
	return loc, nil
}

// serviceFlags returns the provider flags for the kubelet's next start.
func (r *fileReader) serviceFlags(s kubeletService) map[string]string {
	if s.kind.isRancher() {
		flags, rancher := r.rancherFlags(s)
		next := (&Setup{Flags: flags, Rancher: rancher}).NextFlags()
		return map[string]string{configFlag: next.Config, binDirFlag: next.BinDir}
	}
	if s.kind != NoKubelet {
		return effectiveFlags(splitShellWords(wordTexts(r.nextCommandWords(s))), KubeconfigFlag)
	}
	// Drop-ins and environment files can exist without the unit file, for example before the
	// kubelet's package is installed.
	if s := r.unitService("kubelet.service"); len(s.unit.execs) > 0 {
		return effectiveFlags(splitShellWords(wordTexts(r.nextCommandWords(s))), KubeconfigFlag)
	}
	return r.flagsFromDefaultsFiles()
}

// splitShellWords returns args and, in addition, the words of arguments that may be shell
// commands.
func splitShellWords(args []string) []string {
	for _, arg := range slices.Clone(args) {
		if strings.ContainsAny(arg, " \t") && !strings.HasPrefix(arg, "--") {
			args = append(args, splitWords(arg)...)
		}
	}
	return args
}

// flagsFromDefaultsFiles returns the flags in the environment files of kubeadm and the kubelet
// packages. Later files override earlier files. It is used if no service is found.
func (r *fileReader) flagsFromDefaultsFiles() map[string]string {
	flags := map[string]string{}
	for _, name := range []string{"/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet", "/etc/sysconfig/kubelet"} {
		maps.Copy(flags, effectiveFlags(splitFlags(r.readFile(name))))
	}
	return flags
}

// Default paths on a machine that is not a node.
const (
	DefaultConfig = "/etc/regcred/credential-providers.yaml"
	DefaultBinDir = "/etc/regcred/bin"
)
