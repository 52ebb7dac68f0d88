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
	kubeletArgKey = "kubelet-arg"
	dataDirKey    = "data-dir"
)

// rancherFlags returns the provider flags that k3s or rke2 uses. The command line overrides the
// configuration files, and kubelet-arg overrides both. k3s: pkg/configfilearg,
// pkg/daemons/config.
func (r *fileReader) rancherFlags(s kubeletService) (f Flags, out *Rancher) {
	out = &Rancher{Files: r.rancherFiles(s)}
	var config, binDir, data []FlagOccurrence
	for _, file := range out.Files {
		values := r.rancherValues(file)
		config = mergeValues(config, values, configFlag)
		binDir = mergeValues(binDir, values, binDirFlag)
		data = mergeValues(data, values, dataDirKey)
	}
	given := findFlags(s.args, configFlag, binDirFlag, dataDirKey)
	out.DataDir = cmp.Or(lastValue(append(data, given[dataDirKey]...), ""), path.Join("/var/lib/rancher", s.program))
	kubelet := findFlags(r.rancherArgs(s, out.Files), configFlag, binDirFlag)
	out.Args = slices.Concat(kubelet[configFlag], kubelet[binDirFlag])
	config = slices.Concat(config, given[configFlag], kubelet[configFlag])
	binDir = slices.Concat(binDir, given[binDirFlag], kubelet[binDirFlag])
	f.Config = Flag{r.describePath(lastValue(config, rancherConfig)), config}
	f.BinDir = Flag{r.describeBinDir(lastValue(binDir, rancherBinDir)), binDir}
	return f, out
}

// mergeValues merges the values of a key in a later file into list. The key itself replaces
// earlier values. The key with the suffix "+" appends to them.
func mergeValues(list []FlagOccurrence, values map[string][]FlagOccurrence, key string) []FlagOccurrence {
	if v, ok := values[key]; ok {
		list = v
	}
	return append(slices.Clip(list), values[key+"+"]...)
}

// rancherFiles returns the configuration files of k3s or rke2, in the order in which they are
// read. The variable K3S_CONFIG_FILE or RKE2_CONFIG_FILE overrides --config.
func (r *fileReader) rancherFiles(s kubeletService) (files []string) {
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
	if r.fileExists(file) {
		files = append(files, file)
	}
	for _, e := range r.readDirNames(file + ".d") {
		if ext := strings.ToLower(path.Ext(e)); ext == ".yaml" || ext == ".yml" {
			files = append(files, path.Join(file+".d", e))
		}
	}
	return files
}

// rancherValues reads the settings that affect credential providers from a configuration file.
func (r *fileReader) rancherValues(file string) map[string][]FlagOccurrence {
	var raw map[string]any
	text := r.readFile(file)
	if err := yaml.Unmarshal([]byte(text), &raw); err != nil {
		return nil // k3s does not start with this file
	}
	values := map[string][]FlagOccurrence{}
	for _, name := range []string{configFlag, binDirFlag, kubeletArgKey, dataDirKey} {
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
			case key == name: // a key without a value
				list = []any{""}
			}
			values[key] = []FlagOccurrence{} // an empty list resets earlier values
			for _, v := range list {
				values[key] = append(values[key], FlagOccurrence{Value: fmt.Sprint(v), File: file, Line: keyLine(text, key)})
			}
		}
	}
	return values
}

// keyLine returns the line of a key in a YAML mapping, or 0 if the key is not found.
func keyLine(text, key string) int {
	for i, line := range physicalLines(text) {
		if name, _, ok := strings.Cut(line, ":"); ok && strings.Trim(strings.TrimSpace(name), `"'`) == key {
			return i + 1
		}
	}
	return 0
}

// rancherArgs returns the kubelet's arguments from kubelet-arg in the files and on the command
// line. A "+" after a name appends to the value that k3s sets. A "-" inserts the value before
// other values with the same name. k3s: pkg/daemons/config, GetArgs.
func (r *fileReader) rancherArgs(s kubeletService, files []string) (args []commandWord) {
	var given []FlagOccurrence
	for _, file := range files {
		given = mergeValues(given, r.rancherValues(file), kubeletArgKey)
	}
	for _, g := range append(given, findFlags(s.args, kubeletArgKey)[kubeletArgKey]...) {
		name, value, ok := strings.Cut(strings.TrimLeft(g.Value, "-"), "=")
		if !ok {
			value = "true"
		}
		w := commandWord{"--" + strings.TrimRight(name, "-+") + "=" + value, filePosition{g.File, g.Line}, kubeletArgKey}
		if strings.HasSuffix(name, "-") {
			args = slices.Insert(args, 0, w)
		} else {
			args = append(args, w)
		}
	}
	return args
}

// dropInDir returns the directory of the kubelet's configuration drop-ins.
func (r *Rancher) dropInDir() string { return path.Join(r.DataDir, "agent/etc/kubelet.conf.d") }
