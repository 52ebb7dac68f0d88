// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"path"
	"slices"
	"strings"
)

// The kubelet's names of the two flags.
const (
	configFlag = "image-credential-provider-config"
	binDirFlag = "image-credential-provider-bin-dir"
)

func healthFlags() []string { return []string{healthzPort, healthzBind, "config", "config-dir"} }

// givenIn finds flags of these names in a command line, with where they stand.
func givenIn(args []word, names ...string) map[string][]Given {
	given := map[string][]Given{}
	for _, f := range flagsIn(texts(args), names...) {
		w := args[f.at]
		given[f.name] = append(given[f.name], Given{Value: f.value, File: w.file, Line: w.line, By: w.by})
	}
	return given
}

// flags are the two flags of a command line.
func (r *reading) flags(args []word) Flags {
	given := givenIn(args, configFlag, binDirFlag)
	return Flags{
		Config: Flag{r.place(last(given[configFlag], "")), given[configFlag]},
		BinDir: Flag{r.binDir(last(given[binDirFlag], "")), given[binDirFlag]},
	}
}

// programOf is the program of these words that is called so; "" if there is none.
func programOf(args []word, name string) string {
	for _, w := range args {
		if path.Base(w.text) == name && path.IsAbs(w.text) {
			return w.text
		}
	}
	return ""
}

func last(given []Given, otherwise string) string {
	if len(given) == 0 {
		return otherwise
	}
	return given[len(given)-1].Value
}

// kubeletFlags picks the flags that matter here out of a kubelet's command
// line, and those of more; the last one of a name wins.
func kubeletFlags(args []string, more ...string) map[string]string {
	flags := map[string]string{}
	for _, f := range flagsIn(args, append(more, configFlag, binDirFlag, "root-dir")...) {
		flags[f.name] = f.value
	}
	return flags
}

// kubeletFlag is a flag of a command line.
type kubeletFlag struct {
	name, value string
	at          int // the index of its word
}

// flagsIn finds flags of these names in a kubelet's command line.
func flagsIn(args []string, names ...string) (list []kubeletFlag) {
	for i := 0; i < len(args); i++ {
		name, value, inline := strings.Cut(args[i], "=")
		name, ok := strings.CutPrefix(name, "--")
		// kubelet: its flags may be written with underscores.
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
