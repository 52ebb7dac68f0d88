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

// Where k3s and rke2 look without being told.
const (
	rancherConfig = "/var/lib/rancher/credentialprovider/config.yaml"
	rancherBinDir = "/var/lib/rancher/credentialprovider/bin"
)

const (
	kubeletArg = "kubelet-arg"
	dataDir    = "data-dir"
)

// rancherFlags are the two paths that k3s or rke2 looks at: those of its command
// line, which win over those of its configuration, and kubelet-arg over both.
// k3s: pkg/configfilearg, pkg/daemons/config.
func (r *reading) rancherFlags(s started) (f Flags, told *Rancher) {
	told = &Rancher{Files: r.rancherFiles(s)}
	var config, binDir, data []Given
	for _, file := range told.Files {
		values := r.rancherValues(file)
		config = replace(config, values, configFlag)
		binDir = replace(binDir, values, binDirFlag)
		data = replace(data, values, dataDir)
	}
	given := givenIn(s.args, configFlag, binDirFlag, dataDir)
	told.DataDir = cmp.Or(last(append(data, given[dataDir]...), ""), path.Join("/var/lib/rancher", s.program))
	inside := givenIn(r.rancherArgs(s, told.Files), configFlag, binDirFlag)
	told.Args = slices.Concat(inside[configFlag], inside[binDirFlag])
	config = slices.Concat(config, given[configFlag], inside[configFlag])
	binDir = slices.Concat(binDir, given[binDirFlag], inside[binDirFlag])
	f.Config = Flag{r.place(last(config, rancherConfig)), config}
	f.BinDir = Flag{r.binDir(last(binDir, rancherBinDir)), binDir}
	return f, told
}

// replace puts what a later file says of a key in the place of what was said, or,
// of a key with "+", after it.
func replace(list []Given, values map[string][]Given, key string) []Given {
	if v, ok := values[key]; ok {
		list = v
	}
	return append(slices.Clip(list), values[key+"+"]...)
}

// rancherFiles lists the configuration in the order in which it is read. The
// environment wins over --config, and that over the default.
func (r *reading) rancherFiles(s started) (files []string) {
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
	if r.there(file) {
		files = append(files, file)
	}
	for _, e := range r.list(file + ".d") {
		if ext := strings.ToLower(path.Ext(e)); ext == ".yaml" || ext == ".yml" {
			files = append(files, path.Join(file+".d", e))
		}
	}
	return files
}

// rancherValues reads a configuration: a flag a key, without its dashes.
func (r *reading) rancherValues(file string) map[string][]Given {
	var raw map[string]any
	text := r.file(file)
	if err := yaml.Unmarshal([]byte(text), &raw); err != nil {
		return nil // k3s would not start with it, and says so
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
			case key == name: // with nothing behind it, it is empty
				list = []any{""}
			}
			values[key] = []Given{} // perhaps an empty list, which takes back what was there
			for _, v := range list {
				values[key] = append(values[key], Given{Value: fmt.Sprint(v), File: file, Line: lineOf(text, key)})
			}
		}
	}
	return values
}

// lineOf is the line where a key of a YAML mapping stands; 0 if that is not seen.
func lineOf(text, key string) int {
	for i, line := range physicalLines(text) {
		if name, _, ok := strings.Cut(line, ":"); ok && strings.Trim(strings.TrimSpace(name), `"'`) == key {
			return i + 1
		}
	}
	return 0
}

// rancherArgs are kubelet-arg of the configuration in these files, and of the command,
// as the kubelet inside is told them.
// k3s: pkg/daemons/config, GetArgs. A "+" behind a name adds to what k3s itself gives,
// and a "-" puts the value before others of the name.
func (r *reading) rancherArgs(s started, files []string) (args []word) {
	var given []Given
	for _, file := range files {
		given = replace(given, r.rancherValues(file), kubeletArg)
	}
	for _, g := range append(given, givenIn(s.args, kubeletArg)[kubeletArg]...) {
		name, value, ok := strings.Cut(strings.TrimLeft(g.Value, "-"), "=")
		if !ok {
			value = "true"
		}
		w := word{"--" + strings.TrimRight(name, "-+") + "=" + value, mark{g.File, g.Line}, kubeletArg}
		if strings.HasSuffix(name, "-") {
			args = slices.Insert(args, 0, w)
		} else {
			args = append(args, w)
		}
	}
	return args
}

// dropIns is where the drop-ins of the kubelet inside are.
func (told *Rancher) dropIns() string { return path.Join(told.DataDir, "agent/etc/kubelet.conf.d") }
