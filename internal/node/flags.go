// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"path"
	"slices"
	"strings"
)

// The kubelet's flags for credential providers.
const (
	configFlag = "image-credential-provider-config"
	binDirFlag = "image-credential-provider-bin-dir"
)

// givenIn returns the flags with these names in a command line.
func givenIn(args []word, names ...string) map[string][]Given {
	given := map[string][]Given{}
	for _, f := range flagsIn(texts(args), names...) {
		w := args[f.at]
		given[f.name] = append(given[f.name], Given{Value: f.value, File: w.file, Line: w.line, By: w.by})
	}
	return given
}

// flags returns the credential provider flags of a command line.
func (r *reader) flags(args []word) Flags {
	given := givenIn(args, configFlag, binDirFlag)
	return Flags{
		Config: Flag{r.place(last(given[configFlag], "")), given[configFlag]},
		BinDir: Flag{r.binDir(last(given[binDirFlag], "")), given[binDirFlag]},
	}
}

// programOf returns the first absolute path with this base name, or "".
func programOf(args []word, name string) string {
	for _, w := range args {
		if path.Base(w.text) == name && path.IsAbs(w.text) {
			return w.text
		}
	}
	return ""
}

// last returns the value of the last flag, which is the effective one.
func last(given []Given, otherwise string) string {
	if len(given) == 0 {
		return otherwise
	}
	return given[len(given)-1].Value
}

// kubeletFlags returns the effective values of the credential provider flags,
// --root-dir and the named flags.
func kubeletFlags(args []string, more ...string) map[string]string {
	flags := map[string]string{}
	for _, f := range flagsIn(args, append(more, configFlag, binDirFlag, "root-dir")...) {
		flags[f.name] = f.value
	}
	return flags
}

// kubeletFlag is a flag in a command line.
type kubeletFlag struct {
	name, value string
	at          int // index of the word
}

// flagsIn returns the flags with these names in a kubelet's command line.
func flagsIn(args []string, names ...string) (list []kubeletFlag) {
	for i := 0; i < len(args); i++ {
		name, value, inline := strings.Cut(args[i], "=")
		name, ok := strings.CutPrefix(name, "--")
		// kubelet: flags may be written with underscores.
		name = strings.ReplaceAll(name, "_", "-")
		if !ok || !slices.Contains(names, name) {
			continue
		}
		f := kubeletFlag{name, value, i}
		if !inline && i+1 < len(args) {
			i++
			f.value = args[i]
		}
		list = append(list, f)
	}
	return list
}
