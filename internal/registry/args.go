// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registry

import (
	"slices"
	"strings"
)

// FlagValue is the value of a flag in a list of arguments.
type FlagValue struct {
	Index int // of the argument that names the flag
	Value string
}

// FlagValues returns the values of a flag. names are the flag's names with their
// dashes. The value of a short flag may follow its letter directly, as in -rVALUE.
func FlagValues(args []string, names ...string) (found []FlagValue) {
	for k, arg := range args {
		flag, value, hasValue := strings.Cut(arg, "=")
		if short := arg[:min(len(arg), 2)]; flag != short && slices.Contains(names, short) {
			flag, value, hasValue = short, arg[2:], true
		}
		if !slices.Contains(names, flag) {
			continue
		}
		if !hasValue && k+1 < len(args) {
			value = args[k+1]
		}
		found = append(found, FlagValue{k, value})
	}
	return found
}

// MirrorArg is a mirror in the arguments of a cloud's plugin.
type MirrorArg struct {
	Index   int    // of the argument
	Source  string // the beginning of the images
	Host    string // the host of Source, in lower case
	Foreign bool   // whether the host belongs to neither the cloud nor its operator
}

// maxMirrorSource bounds a source in bytes; longer ones are ignored.
const maxMirrorSource = 1 << 10

// MirrorArgs returns the valid mirrors in the arguments of the cloud's plugin:
// the values of --mirror and of both forms of Azure's --registry-mirror.
func (c *Cloud) MirrorArgs(args []string) (list []MirrorArg) {
	for _, arg := range FlagValues(args, "--mirror", "--registry-mirror", "-r") {
		for entry := range strings.SplitSeq(arg.Value, ",") {
			source, _, found := strings.Cut(entry, "=")
			if !found {
				source, _, found = strings.Cut(entry, ":")
			}
			source = strings.TrimSpace(source)
			host, _, _ := strings.Cut(source, "/")
			if host = strings.ToLower(host); !found || host == "" || len(source) > maxMirrorSource {
				continue
			}
			own := c.Reach(host) == Own || c.Name == Azure && host == MicrosoftHost
			list = append(list, MirrorArg{arg.Index, source, host, !own})
		}
	}
	return list
}
