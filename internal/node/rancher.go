// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	kubeletArg = "kubelet-arg"
	dataDir    = "data-dir"
)

// rancherFlags returns the paths that k3s or rke2 uses. Its command line overrides its
// configuration, and kubelet-arg overrides both.
// k3s: pkg/configfilearg, pkg/daemons/config.
func (r *reader) rancherFlags(s kubeletService) (f Flags, out *Rancher) {
	out = &Rancher{Files: r.rancherFiles(s)}
	var config, binDir, data []Given
	for _, file := range out.Files {
		values := r.rancherValues(file)
		config = merge(config, values, configFlag)
		binDir = merge(binDir, values, binDirFlag)
		data = merge(data, values, dataDir)
	}
	given := givenIn(s.args, configFlag, binDirFlag, dataDir)
	out.DataDir = cmp.Or(last(append(data, given[dataDir]...), ""), path.Join("/var/lib/rancher", s.program))
	kubelet := givenIn(r.rancherArgs(s, out.Files), configFlag, binDirFlag)
	out.Args = slices.Concat(kubelet[configFlag], kubelet[binDirFlag])
	config = slices.Concat(config, given[configFlag], kubelet[configFlag])
	binDir = slices.Concat(binDir, given[binDirFlag], kubelet[binDirFlag])
	f.Config = Flag{r.place(last(config, rancherConfig)), config}
	f.BinDir = Flag{r.binDir(last(binDir, rancherBinDir)), binDir}
	return f, out
}

// merge adds the values of a key in a later file: the key replaces earlier values,
// and the key with "+" appends to them.
func merge(list []Given, values map[string][]Given, key string) []Given {
	if v, ok := values[key]; ok {
		list = v
	}
	return append(slices.Clip(list), values[key+"+"]...)
}

// rancherFiles returns the configuration files in the order in which they are read.
// The environment overrides --config.
func (r *reader) rancherFiles(s kubeletService) (files []string) {
	file := s.vars[strings.ToUpper(s.program)+"_CONFIG_FILE"].value
	if file == "" {
		file = path.Join("/etc/rancher", s.program, "config.yaml")
		for i, arg := range s.args {
			switch value, inline := strings.CutPrefix(arg.text, "--config="); {
			case inline:
				file = value
			case (arg.text == "--config" || arg.text == "-c") && i+1 < len(s.args):
				file = s.args[i+1].text
			default:
				continue
			}
			break
		}
	}
	if r.exists(file) {
		files = append(files, file)
	}
	for _, e := range r.list(file + ".d") {
		if ext := strings.ToLower(path.Ext(e)); ext == ".yaml" || ext == ".yml" {
			files = append(files, path.Join(file+".d", e))
		}
	}
	return files
}

// rancherValues reads the values of flags in a configuration file.
func (r *reader) rancherValues(file string) map[string][]Given {
	var raw map[string]any
	text := r.file(file)
	if err := yaml.Unmarshal([]byte(text), &raw); err != nil {
		return nil // k3s does not start with this file
	}
	values := map[string][]Given{}
	for _, name := range []string{configFlag, binDirFlag, kubeletArg, dataDir} {
		for _, key := range []string{name, name + "+"} {
			v, set := raw[key]
			if !set {
				continue
			}
			list, ok := v.([]any)
			switch {
			case ok:
			case v != nil:
				list = []any{v}
			case key == name: // a key without value
				list = []any{""}
			}
			values[key] = []Given{} // an empty list resets earlier values
			for _, v := range list {
				values[key] = append(values[key], Given{Value: fmt.Sprint(v), File: file, Line: lineOf(text, key)})
			}
		}
	}
	return values
}

// lineOf returns the line of a key in a YAML mapping; 0 if it is not found.
func lineOf(text, key string) int {
	for i, line := range physicalLines(text) {
		if name, _, ok := strings.Cut(line, ":"); ok && strings.Trim(strings.TrimSpace(name), `"'`) == key {
			return i + 1
		}
	}
	return 0
}

// rancherArgs returns the kubelet's arguments: kubelet-arg in the files and in the
// command.
// k3s: pkg/daemons/config, GetArgs. "+" after a name appends to the value that k3s sets, and
// "-" inserts the value before others with the name.
func (r *reader) rancherArgs(s kubeletService, files []string) (args []word) {
	var given []Given
	for _, file := range files {
		given = merge(given, r.rancherValues(file), kubeletArg)
	}
	for _, g := range append(given, givenIn(s.args, kubeletArg)[kubeletArg]...) {
		name, value, ok := strings.Cut(strings.TrimLeft(g.Value, "-"), "=")
		if !ok {
			value = "true"
		}
		w := word{"--" + strings.TrimRight(name, "-+") + "=" + value, position{g.File, g.Line}, kubeletArg}
		if strings.HasSuffix(name, "-") {
			args = slices.Insert(args, 0, w)
		} else {
			args = append(args, w)
		}
	}
	return args
}

// dropIns returns the directory of the kubelet's drop-ins.
func (r *Rancher) dropIns() string { return path.Join(r.DataDir, "agent/etc/kubelet.conf.d") }
