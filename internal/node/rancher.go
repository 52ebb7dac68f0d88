// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
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
	told.DataDir = last(append(data, given[dataDir]...), path.Join("/var/lib/rancher", s.program))
	config, binDir = append(config, given[configFlag]...), append(binDir, given[binDirFlag]...)
	for _, g := range r.rancherArgs(s, told.Files) {
		name, value, _ := strings.Cut(strings.TrimLeft(g.Value, "-"), "=")
		g.Value, g.By = value, kubeletArg
		switch name = strings.ReplaceAll(name, "_", "-"); name {
		case configFlag:
			config = append(config, g)
		case binDirFlag:
			binDir = append(binDir, g)
		default:
			continue
		}
		told.Args = append(told.Args, g)
	}
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
			list, ok := raw[key].([]any)
			if !ok && raw[key] != nil {
				list = []any{raw[key]}
			}
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

// rancherArgs are kubelet-arg of the configuration in these files, and of the command.
func (r *reading) rancherArgs(s started, files []string) (args []Given) {
	for _, file := range files {
		args = replace(args, r.rancherValues(file), kubeletArg)
	}
	return append(args, givenIn(s.args, kubeletArg)[kubeletArg]...)
}

// rancherKubelet are the arguments that the kubelet inside is told, and where its
// drop-ins are.
func (r *reading) rancherKubelet(s started, told *Rancher) (args []word, dir string) {
	for _, g := range r.rancherArgs(s, told.Files) {
		args = append(args, word{"--" + strings.TrimLeft(g.Value, "-"), mark{g.File, g.Line}, kubeletArg})
	}
	return args, path.Join(told.DataDir, "agent/etc/kubelet.conf.d")
}
