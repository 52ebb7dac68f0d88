// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/textfmt"
)

// Setting is a flag or a configuration field of the kubelet that affects credentials, with every
// place that sets it.
type Setting struct {
	Name   string         `json:"name"`            // such as "--image-credential-provider-config" or "featureGates.NAME"
	Value  string         `json:"value,omitempty"` // for the kubelet's next start; "" if it is not set
	Note   string         `json:"note,omitempty"`  // why Value is not the value of the last place
	Places []SettingPlace `json:"places"`          // the places without effect, then the others in the order in which the kubelet reads them; the last one wins
}

// SettingPlace is a line that sets a Setting.
type SettingPlace struct {
	File  string `json:"file"`
	Line  int    `json:"line,omitempty"`
	By    string `json:"by,omitempty"` // environment variable or key that contains the setting
	Value string `json:"value,omitempty"`
	Used  bool   `json:"used"`          // this place determines the value
	Why   string `json:"why,omitempty"` // why the place is not used
	Fix   string `json:"fix,omitempty"` // how to make it effective, if it never reaches the kubelet
}

// String returns the file and line.
func (p SettingPlace) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// IsLost reports whether the place sets a value that never reaches the kubelet.
func (p SettingPlace) IsLost() bool { return p.Fix != "" }

// settingFlags returns the flags that affect credentials.
func settingFlags() []string {
	return []string{configFlag, binDirFlag, "root-dir", KubeconfigFlag, "config", "config-dir"}
}

// settingFields returns the fields that affect credentials, except feature gates. Some have a
// flag that overrides them.
func settingFields() []struct{ field, flag string } {
	return []struct{ field, flag string }{
		{"containerRuntimeEndpoint", "container-runtime-endpoint"}, {"imageServiceEndpoint", "image-service-endpoint"},
		{"imagePullCredentialsVerificationPolicy", ""}, {"preloadedImagesVerificationAllowlist", ""},
	}
}

// Settings returns the flags and fields that affect credentials, for the kubelet's next start. It
// returns none if no service starts a kubelet.
func (r *Reader) Settings(ctx context.Context) (list []Setting) {
	rd := r.newReader(ctx)
	next := r.nextStartConfig(rd)
	if next.kind == NoKubelet {
		return nil
	}
	lost := rd.lostSources(next)
	for _, flag := range settingFlags() {
		s := Setting{Name: "--" + flag}
		s.addLost(lost, flag)
		given := findFlags(next.args, flag)[flag]
		if flag == configFlag && next.kind.isRancher() {
			given = next.flags.Config.Given
		} else if flag == binDirFlag && next.kind.isRancher() {
			given = next.flags.BinDir.Given
		}
		s.addGiven(given)
		if next.kind.isRancher() {
			s.applyRancher(&next)
		}
		list = append(list, s)
	}
	for _, f := range settingFields() {
		s := Setting{Name: f.field}
		s.addGiven(rd.fieldOccurrences(next.configs, f.field))
		if f.flag != "" {
			s.addLost(lost, f.flag)
			s.addGiven(findFlags(next.args, f.flag)[f.flag])
		}
		list = append(list, s)
	}
	for _, gate := range config.FeatureGates() {
		s := Setting{Name: "featureGates." + gate}
		s.addGiven(rd.fieldOccurrences(next.configs, "featureGates", gate))
		s.addGiven(gateOccurrences(next.args, gate))
		list = append(list, s)
	}
	for i := range list {
		for j := range list[i].Places {
			p := &list[i].Places[j]
			p.File = r.HostPath(p.File)
		}
	}
	return list
}

// addGiven adds places that reach the kubelet, in the order in which it reads them.
func (s *Setting) addGiven(given []FlagOccurrence) {
	for _, g := range given {
		for i := range s.Places {
			if p := &s.Places[i]; p.Used {
				p.Used, p.Why = false, fmt.Sprintf("%s:%d is read later", g.File, g.Line)
			}
		}
		s.Places = append(s.Places, SettingPlace{File: g.File, Line: g.Line, By: g.By, Value: g.Value, Used: true})
		s.Value = g.Value
	}
}

// addLost adds places that set a flag but never reach the kubelet.
func (s *Setting) addLost(lost []flagSource, flag string) {
	for _, source := range lost {
		if source.flag == flag {
			s.Places = append(s.Places, SettingPlace{File: source.file, Line: source.line, By: source.by, Why: source.why, Fix: source.fix})
			continue
		}
		for _, f := range parseFlags(source.words, flag) {
			s.Places = append(s.Places, SettingPlace{File: source.file, Line: source.line, By: source.by, Value: f.value, Why: source.why, Fix: source.fix})
		}
	}
}

// applyRancher sets the value that k3s or rke2 uses, which has defaults and depends on whether the
// files exist.
func (s *Setting) applyRancher(next *nextStartConfig) {
	setup := &Setup{Flags: next.flags, Rancher: next.rancher}
	used := setup.NextFlags()
	switch s.Name {
	case "--" + configFlag:
		s.Value = used.Config
	case "--" + binDirFlag:
		s.Value = used.BinDir
	default:
		return
	}
	switch {
	case s.Value == "":
		s.Note = fmt.Sprintf("%s sets both flags only if %s is a file and %s is a directory", next.program, next.flags.Config.Path, next.flags.BinDir.Path)
	case len(s.Places) == 0:
		s.Note = next.program + "'s default"
	}
}

// gateOccurrences returns the occurrences of a feature gate in flags.
func gateOccurrences(args []commandWord, gate string) (list []FlagOccurrence) {
	for _, g := range findFlags(args, featureGatesFlag)[featureGatesFlag] {
		for part := range strings.SplitSeq(g.Value, ",") {
			if name, value, _ := strings.Cut(part, "="); strings.TrimSpace(name) == gate {
				g.Value, g.By = strings.TrimSpace(value), cmp.Or(g.By, "--"+featureGatesFlag)
				list = append(list, g)
			}
		}
	}
	return list
}

// fieldOccurrences returns where the kubelet's configuration files set a field.
func (r *fileReader) fieldOccurrences(files []configFile, field ...string) (list []FlagOccurrence) {
	for _, file := range files {
		text := r.readFile(file.path)
		var raw map[string]any
		if yaml.Unmarshal([]byte(text), &raw) != nil {
			continue
		}
		var value any = raw
		for _, name := range field {
			table, _ := value.(map[string]any)
			value = table[name]
		}
		if value != nil {
			list = append(list, FlagOccurrence{Value: fmt.Sprint(value), File: file.path, Line: keyLine(text, field[len(field)-1]), By: strings.Join(field, ".")})
		}
	}
	return list
}

// flagSource is a line with kubelet flags that do not reach the kubelet.
type flagSource struct {
	filePosition
	by    string   // variable or key
	words []string // the flags
	flag  string   // flag that the line is meant to set, if it is not written as a flag
	why   string
	fix   string
}

// lostSources returns the lines that set kubelet flags without effect.
func (r *fileReader) lostSources(next nextStartConfig) (list []flagSource) {
	signs := r.fileCache.newReader(r.ctx) // the result must not depend on these files
	signs.service = r.service
	if next.kind.isRancher() {
		list = signs.lostRancherSources(next)
	} else if next.unit != nil {
		list = signs.lostUnitSources(next.unit)
	}
	for _, d := range signs.misplacedDropIns(next.kubeletService) {
		for _, name := range d.files {
			file := path.Join(d.dir, name)
			list = append(list, unreadSettings(signs.loadContent(file).text, file, fmt.Sprintf("systemd does not read %s", d.dir), d.fix())...)
		}
	}
	list = append(list, signs.lostDefaultsFiles(next)...)
	return append(list, signs.flagsAsFields(next.configs)...)
}

// unitAssignment is a setting or variable of a unit file, before later files override it.
type unitAssignment struct {
	filePosition
	name, value string // name is "" for a start command
}

// unitAssignments returns the start commands and variables in a unit file or drop-in.
func unitAssignments(text, file string) (list []unitAssignment) {
	section := ""
	for _, line := range logicalLines(text) {
		key, value, _ := strings.Cut(line.value, "=")
		at := filePosition{file, line.line}
		switch key = strings.TrimSpace(key); {
		case strings.HasPrefix(line.value, "["):
			section = line.value
		case section != "[Service]":
		case key == "ExecStart" && strings.TrimSpace(value) != "":
			list = append(list, unitAssignment{at, "", strings.TrimSpace(value)})
		case key == "Environment":
			for _, word := range splitWords(value) {
				if name, value, ok := strings.Cut(word, "="); ok {
					list = append(list, unitAssignment{at, name, value})
				}
			}
		}
	}
	return list
}

// unreadSettings returns the settings of a unit file or drop-in that systemd does not read.
func unreadSettings(text, file, why, fix string) (list []flagSource) {
	for _, a := range unitAssignments(text, file) {
		list = append(list, flagSource{filePosition: a.filePosition, by: a.name, words: splitVariableWords(a.value), why: why, fix: fix})
	}
	return list
}

// lostUnitSources returns the settings of a unit that other settings override or that the start
// command does not use.
func (r *fileReader) lostUnitSources(u *systemdUnit) (list []flagSource) {
	var assignments []unitAssignment
	for _, file := range u.files {
		assignments = append(assignments, unitAssignments(r.readFile(file), file)...)
	}
	for _, e := range u.envFiles {
		for _, file := range r.globPaths(expandSpecifiers(strings.TrimPrefix(e.value, "-"), u.name)) {
			for _, v := range environmentAssignments(r.readFile(file), file) {
				assignments = append(assignments, unitAssignment{v.filePosition, v.name, v.value})
			}
		}
	}
	vars, _ := r.unitVariables(u)
	for _, a := range assignments {
		if why, fix := u.overrideReason(a, vars); why != "" {
			list = append(list, flagSource{filePosition: a.filePosition, by: a.name, words: splitVariableWords(a.value), why: why, fix: fix})
		}
	}
	return append(list, r.hiddenUnitSources(u)...)
}

// overrideReason returns why an assignment has no effect on the start command, and how to fix it. It
// returns "" if it has.
func (s *systemdUnit) overrideReason(a unitAssignment, vars map[string]envVariable) (why, fix string) {
	start := s.startCommand()
	v, isSet := vars[a.name]
	switch {
	case a.name == "" && a.filePosition == start.filePosition:
	case a.name == "" && start.file == "":
		return "a later empty ExecStart= removes it", "set ExecStart= again with the flags"
	case a.name == "":
		return fmt.Sprintf("%s:%d sets the start command again", start.file, start.line), "put the flags into that start command"
	case !isSet:
		return "another setting removes the variable", "remove the UnsetEnvironment= or empty Environment= setting"
	case v.filePosition != a.filePosition:
		return fmt.Sprintf("%s:%d sets %s again", v.file, v.line, a.name), "put all flags into one assignment of " + a.name
	case !usesVariable(start.value, a.name):
		return fmt.Sprintf("the start command (%s:%d) does not use $%s", start.file, start.line, a.name), "add $" + a.name + " to the start command"
	}
	return "", ""
}

// usesVariable reports whether a start command refers to a variable.
func usesVariable(command, name string) bool {
	return regexp.MustCompile(`\$(\{` + name + `\}|` + name + `\b)`).MatchString(command)
}

// hiddenUnitSources returns the settings in unit files and drop-ins that files with the same name
// hide, and in files whose name does not end in .conf.
func (r *fileReader) hiddenUnitSources(u *systemdUnit) (list []flagSource) {
	for _, dir := range unitDirs() {
		if file := path.Join(dir, u.name); file != u.fragment && u.fragment != "" && !r.isSameFile(file, u.fragment) {
			list = append(list, unreadSettings(r.loadContent(file).text, file, u.fragment+" hides this file", "put the flags into a drop-in")...)
		}
		for _, name := range r.unitNames(u) {
			for _, n := range append(nameAndPrefixes(name), "service") {
				list = append(list, r.hiddenDropIns(u, path.Join(dir, n+".d"))...)
			}
		}
	}
	return list
}

func (r *fileReader) hiddenDropIns(u *systemdUnit, dir string) (list []flagSource) {
	names := r.readDirNames(dir)
	for _, e := range names {
		file := path.Join(dir, e)
		text := r.loadContent(file).text
		if slices.ContainsFunc(u.files, func(read string) bool { return read == file || r.isSameFile(read, file) }) || !kubeletSettingPattern.MatchString(text) {
			continue
		}
		stem, _, isCopy := strings.Cut(e, ".conf")
		if !isCopy {
			stem = strings.TrimSuffix(e, path.Ext(e))
		}
		why, fix := "systemd reads only files that end in .conf", "rename it to "+stem+".conf"
		if !strings.HasSuffix(e, ".conf") && slices.Contains(names, stem+".conf") {
			continue // a backup, which must not replace the drop-in
		}
		if strings.HasSuffix(e, ".conf") {
			why, fix = "another file with this name hides it", "give the drop-in another name"
			if i := slices.IndexFunc(u.files, func(read string) bool { return path.Base(read) == e }); i >= 0 {
				why = u.files[i] + " hides it"
			}
		}
		list = append(list, unreadSettings(text, file, why, fix)...)
	}
	return list
}

// lostDefaultsFiles returns the flags in environment files of kubelet packages that no unit reads.
func (r *fileReader) lostDefaultsFiles(next nextStartConfig) (list []flagSource) {
	if next.init != InitSystemd || next.kind.kindSpec().argsFile != "" {
		return nil
	}
	var read []string
	if next.unit != nil {
		for _, e := range next.unit.envFiles {
			read = append(read, r.globPaths(expandSpecifiers(strings.TrimPrefix(e.value, "-"), next.unit.name))...)
		}
	}
	for _, file := range []string{"/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet", "/etc/sysconfig/kubelet", "/etc/kubernetes/kubelet.env"} {
		if slices.ContainsFunc(read, func(f string) bool { return f == file || r.isSameFile(f, file) }) {
			continue
		}
		fix := fmt.Sprintf("add EnvironmentFile=-%s to %s, or set the flags where it reads them", file, next.name)
		if next.kind.isRancher() {
			fix = fmt.Sprintf("set the flags in /etc/rancher/%s/config.yaml", next.program)
		}
		for _, v := range environmentAssignments(r.loadContent(file).text, file) {
			list = append(list, flagSource{filePosition: v.filePosition, by: v.name, words: splitVariableWords(v.value), why: next.name + " does not read this file", fix: fix})
		}
	}
	return list
}

// flagsAsFields returns the fields of the kubelet's configuration files that are meant to be flags.
// The kubelet logs unknown fields and ignores them.
func (r *fileReader) flagsAsFields(files []configFile) (list []flagSource) {
	for _, file := range files {
		text := r.loadContent(file.path).text
		var raw map[string]any
		if yaml.Unmarshal([]byte(text), &raw) != nil {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(raw)) {
			source := flagSource{filePosition: filePosition{file.path, keyLine(text, key)}, by: key, why: key + " is not a field of KubeletConfiguration"}
			source.fix = fmt.Sprintf("use the flags --%s and --%s", configFlag, binDirFlag)
			switch name := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(key)); {
			case strings.HasPrefix(name, "imagecredentialproviderconfig"):
				source.flag = configFlag
			case strings.HasPrefix(name, "imagecredentialproviderbindir"):
				source.flag = binDirFlag
			case name == "providers" || name == "credentialproviders" || name == "credentialproviderconfig":
				source.flag, source.fix = configFlag, "put the providers into a CredentialProviderConfig, and set --"+configFlag
			default:
				continue
			}
			if value, ok := raw[key].(string); ok {
				source.words, source.flag = []string{"--" + source.flag + "=" + value}, ""
			}
			list = append(list, source)
		}
	}
	return list
}

// lostRancherSources returns the settings of k3s or rke2 that other settings override.
func (r *fileReader) lostRancherSources(next nextStartConfig) (list []flagSource) {
	values := map[string]map[string][]FlagOccurrence{}
	for _, file := range next.rancher.Files {
		values[file] = r.rancherValues(file)
	}
	for i, file := range next.rancher.Files {
		for _, key := range []string{configFlag, binDirFlag, kubeletArgKey} {
			given := slices.Concat(values[file][key], values[file][key+"+"])
			for _, later := range next.rancher.Files[i+1:] {
				if _, replaces := values[later][key]; replaces && len(given) > 0 {
					text := r.readFile(later)
					why := fmt.Sprintf("%s:%d sets %s again", later, keyLine(text, key), key)
					for _, g := range given {
						list = append(list, rancherSource(g, key, why, "use one list, or "+key+"+ in the later file"))
					}
					break
				}
			}
		}
		list = append(list, r.lostRancherKeys(file, next.program)...)
	}
	usual := path.Join("/etc/rancher", next.program, "config.yaml")
	if !slices.Contains(next.rancher.Files, usual) {
		for key, given := range r.rancherValues(usual) {
			why := next.program + " reads another file"
			if len(next.rancher.Files) > 0 {
				why = next.program + " reads " + next.rancher.Files[0] + " instead"
			}
			for _, g := range given {
				list = append(list, rancherSource(g, strings.TrimSuffix(key, "+"), why, "move the settings to that file"))
			}
		}
	}
	return list
}

// lostRancherKeys returns keys that a later line of the same file sets again, and misspelled keys.
func (r *fileReader) lostRancherKeys(file, program string) (list []flagSource) {
	last := map[string]int{}
	lines := physicalLines(r.readFile(file))
	for i := len(lines) - 1; i >= 0; i-- {
		name, value, ok := strings.Cut(lines[i], ":")
		name, value = strings.Trim(name, `"'`), strings.Trim(strings.TrimSpace(value), `"'`)
		if !ok || strings.HasPrefix(name, " ") || strings.HasPrefix(name, "#") {
			continue
		}
		g := FlagOccurrence{Value: value, File: file, Line: i + 1}
		known := []string{configFlag, binDirFlag, kubeletArgKey}
		plain := strings.TrimSuffix(strings.ReplaceAll(strings.ToLower(name), "_", "-"), "s")
		switch {
		case slices.Contains(known, name) && last[name] > 0:
			list = append(list, rancherSource(g, name, fmt.Sprintf("line %d sets %s again", last[name], name), "use one key with a list"))
		case slices.Contains(known, plain) && plain != name:
			list = append(list, rancherSource(g, plain, program+" ignores the key "+name, "write "+plain))
		}
		last[name] = max(last[name], i+1)
	}
	return list
}

func rancherSource(g FlagOccurrence, key, why, fix string) flagSource {
	s := flagSource{filePosition: filePosition{g.File, g.Line}, by: key, why: why, fix: fix}
	if key == kubeletArgKey {
		s.words = []string{"--" + strings.TrimLeft(g.Value, "-")}
	} else {
		s.by, s.words = "", []string{"--" + key + "=" + g.Value}
	}
	return s
}

// LostFlags describes lines that set the provider flags without effect, and how to fix each. If the
// kubelet uses the same value anyway, a line is not included.
type LostFlags struct {
	File, Message, Fix string
	Line               int
	Replaced           bool // the kubelet uses another value instead
}

// LostFlags returns the lines that set the provider flags without effect. Drop-ins in directories
// that systemd does not read are in [Reader.CheckUnits].
func (r *Reader) LostFlags(ctx context.Context) (list []LostFlags) {
	misplaced := map[string]bool{}
	rd := r.newReader(ctx)
	for _, d := range rd.misplacedDropIns(r.kubeletService(rd)) {
		misplaced[r.HostPath(d.dir)] = true
	}
	for _, s := range r.Settings(ctx) {
		if s.Name != "--"+configFlag && s.Name != "--"+binDirFlag {
			continue
		}
		for _, p := range s.Places {
			if !p.IsLost() || p.Value != "" && p.Value == s.Value || misplaced[path.Dir(p.File)] {
				continue
			}
			flag := s.Name
			if p.Value != "" {
				flag += "=" + textfmt.QuoteShellWord(p.Value)
			}
			i := slices.IndexFunc(list, func(l LostFlags) bool { return l.File == p.File && l.Line == p.Line })
			if i < 0 {
				list = append(list, LostFlags{File: p.File, Line: p.Line, Message: flag + " has no effect: " + p.Why, Fix: p.Fix, Replaced: s.Value != ""})
			} else { // the line sets both flags; each is visited once
				list[i].Message = flag + " and " + strings.Replace(list[i].Message, " has no effect: ", " have no effect: ", 1)
			}
		}
	}
	return list
}
