// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cloudplugin

import (
	"slices"
	"strings"
)

// Argument is the value of a flag, and where that stands among the arguments.
type Argument struct {
	Index int
	Value string
}

// Flag returns the values of a flag, or of its several names, with their
// dashes. A value may follow a letter at once.
func Flag(args []string, names ...string) (found []Argument) {
	for k, arg := range args {
		flag, value, valued := strings.Cut(arg, "=")
		if short := arg[:min(len(arg), 2)]; flag != short && slices.Contains(names, short) {
			flag, value, valued = short, arg[2:], true // as in -rVALUE
		}
		if !slices.Contains(names, flag) {
			continue
		}
		if !valued && k+1 < len(args) {
			value = args[k+1]
		}
		found = append(found, Argument{k, value})
	}
	return found
}

// Mirror is a name whose images a runtime is told to pull from a registry of
// the cloud.
type Mirror struct {
	Arg     int    // where it stands among the arguments
	Source  string // what images begin with
	Host    string // of the source, in lower case
	Strange bool   // that host is neither the cloud's nor its owner's
}

// maxMirror bounds a source in bytes. Longer ones are nobody's.
const maxMirror = 1 << 10

// Mirrors returns those among the arguments that can be read: --mirror and, in
// its two forms, Azure's --registry-mirror.
func (p *Plugin) Mirrors(args []string) (list []Mirror) {
	for _, arg := range Flag(args, "--mirror", "--registry-mirror", "-r") {
		for entry := range strings.SplitSeq(arg.Value, ",") {
			source, _, found := strings.Cut(entry, "=")
			if !found {
				source, _, found = strings.Cut(entry, ":")
			}
			source = strings.TrimSpace(source)
			host, _, _ := strings.Cut(source, "/")
			if host = strings.ToLower(host); !found || host == "" || len(source) > maxMirror {
				continue
			}
			// Microsoft's own is Azure's, and AKS maps it on clusters without a
			// way out.
			own := p.Reach(host) == Own || p.Cloud == Azure && host == "mcr.microsoft.com"
			list = append(list, Mirror{arg.Index, source, host, !own})
		}
	}
	return list
}
