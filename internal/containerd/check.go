// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package containerd

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/route"
	"github.com/regcred/regcred/internal/tomlfile"
)

// maxHosts bounds the directories that are checked, and the tables of a hosts.toml.
const maxHosts = 1000

// Check says what of the configuration and its hosts.toml files works otherwise than
// it reads. It reads them all, once.
func (r *Runtime) Check() []finding.Finding {
	r.once.Do(func() { r.checked = r.check() })
	return slices.Clone(r.checked)
}

func (r *Runtime) check() []finding.Finding {
	c := &checker{runtime: r}
	c.config()
	for _, root := range c.roots() {
		c.root(root)
	}
	return c.found
}

// checker collects findings.
type checker struct {
	runtime *Runtime
	found   []finding.Finding
}

func (c *checker) add(rule string, severity finding.Severity, file string, line int, fix, format string, args ...any) {
	f := finding.Finding{Rule: rule, Severity: severity, File: file, Line: line, Message: fmt.Sprintf(format, args...), Fix: fix}
	if !slices.Contains(c.found, f) {
		c.found = append(c.found, f)
	}
}

// Hosts are those of images for which there are settings of their own.
func (r *Runtime) Hosts() (list []string) {
	c := &checker{runtime: r}
	for _, root := range c.roots() {
		for _, name := range c.directories(root) {
			list = append(list, hostOf(name))
		}
	}
	for _, v := range r.Releases() {
		for name := range r.registry(v).mirrors {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(host string) bool {
		image, err := route.Parse(host + "/image:tag")
		return err != nil || image.Host != host
	})
}

// hostOf is the host that a directory is for: "quay.io_8443_" is quay.io:8443.
func hostOf(name string) string {
	if rest, ok := strings.CutSuffix(name, "_"); ok {
		if i := strings.LastIndexByte(rest, '_'); i > 0 {
			return rest[:i] + ":" + rest[i+1:]
		}
	}
	return name
}

// releases picks those of the possible releases for which something is so, and
// names them: "" if it is all of them.
func (c *checker) releases(is func(Version) bool) (some bool, names string) {
	var list []string
	all := c.runtime.Releases()
	for _, v := range all {
		if is(v) {
			list = append(list, v.String())
		}
	}
	if len(list) == len(all) {
		return len(list) > 0, ""
	}
	return len(list) > 0, strings.Join(list, ", ")
}

// whom is a subject for the releases that [checker.releases] names.
func whom(names string) string {
	if names == "" {
		return "containerd"
	}
	return "containerd (" + names + ", one of the possible versions)"
}

// roots are the directories of config_path, for any of the releases.
func (c *checker) roots() (list []string) {
	for _, v := range c.runtime.Releases() {
		for _, root := range c.runtime.registry(v).certs {
			if !slices.Contains(list, root) {
				list = append(list, root)
			}
		}
	}
	return list
}

// config checks config.toml and what it imports.
func (c *checker) config() {
	r := c.runtime
	for _, v := range r.Releases() {
		reg := r.registry(v)
		w := &way{runtime: r, registry: reg, version: v}
		if reg.noText {
			file, line := r.at("registry", "config_path")
			c.add("mirror-config-path", finding.SeverityError, file, line, "set config_path = \"/etc/containerd/certs.d\"", "config_path is not a string: the CRI plugin fails to load, and the kubelet cannot use containerd")
		} else if why := w.refused(); why != "" {
			file, line := r.at("registry", "mirrors")
			if len(reg.mirrors) == 0 {
				file, line = r.at("registry", "configs")
			}
			c.add("mirror-config-path", finding.SeverityError, file, line, "move these settings to hosts.toml files, or remove config_path",
				"config_path and registry.mirrors or registry.configs.*.tls are mutually exclusive: the CRI plugin fails to load, and the kubelet cannot use containerd")
		}
		for host := range reg.tls {
			if v.two() {
				file, line := r.at("registry", "configs", host)
				c.add("mirror-old-tls", finding.SeverityWarning, file, line, "set ca, client or skip_verify in a hosts.toml for "+host, "containerd 2 does not read registry.configs.*.tls")
			}
		}
		if len(reg.logins) > 0 {
			file, line := r.at("registry", "configs")
			if line == 0 {
				file, line = r.at("registry", "auths")
			}
			c.add("mirror-own-login", finding.SeverityInfo, file, line, "", "this password is used only if the kubelet sends no credential: "+
				"a matching pull secret or provider overrides this password, even for mirrors")
		}
	}
	c.unset()
	c.twoRoots()
	c.section()
}

// unset is the rule of [checker.unset], and usualCerts where all documents have it.
const (
	unset      = "mirror-unset"
	usualCerts = "/etc/containerd/certs.d"
)

// unset is about files that nobody reads, since no config_path leads there.
func (c *checker) unset() {
	deaf, names := c.releases(func(v Version) bool {
		reg := c.runtime.registry(v)
		return len(reg.mirrors) == 0 && (len(reg.certs) == 0 || !reg.explicit && reg.blind(v))
	})
	if !deaf || !c.hasHosts(usualCerts) {
		return
	}
	file, line := c.runtime.at("registry")
	c.add(unset, finding.SeverityWarning, file, max(line, 1), fmt.Sprintf("set config_path = %q in [plugins.%q.registry], and restart containerd", usualCerts, place(c.runtime.format)),
		"config_path is not set, so %s reads no hosts.toml in %s and pulls every image directly from its registry", whom(names), usualCerts)
}

// blind reports whether no hosts.toml is read, since config_path is taken for one directory.
func (reg *registry) blind(v Version) bool { return reg.transfer && v.oneRoot() && len(reg.certs) > 1 }

// twoRoots is about releases that read no hosts.toml of two directories.
func (c *checker) twoRoots() {
	blind, names := c.releases(func(v Version) bool {
		reg := c.runtime.registry(v)
		return reg.explicit && reg.blind(v)
	})
	if !blind || !slices.ContainsFunc(c.roots(), c.hasHosts) {
		return
	}
	severity := finding.SeverityError
	if !c.runtime.Version.Known() {
		severity = finding.SeverityWarning
	}
	file, line := c.runtime.at("registry", "config_path")
	c.add("mirror-two-directories", severity, file, line, "set config_path to one directory, or set use_local_image_pull = true",
		"config_path lists two directories, so %s reads no hosts.toml at all (containerd#12415) and pulls every image directly from its registry", whom(names))
}

func (c *checker) hasHosts(root string) bool {
	return slices.ContainsFunc(c.directories(root), func(name string) bool { return c.runtime.hasFile(filepath.Join(root, name)) })
}

// section is about a registry where another version of files has it.
func (c *checker) section() {
	for _, s := range c.runtime.files {
		for _, plugin := range []string{criV1, criV2, images} {
			line := s.Line("plugins", plugin, "registry")
			if line == 0 {
				continue
			}
			deaf, names := c.releases(func(v Version) bool { return !reads(s.format, plugin, v) })
			if deaf {
				c.add("mirror-section", finding.SeverityWarning, s.Path, line, fmt.Sprintf("in a configuration file of version %d, use [plugins.%q.registry]", s.format, place(s.format)),
					"%s ignores [plugins.%q.registry] in a configuration file of version %d", whom(names), plugin, s.format)
			}
		}
	}
}

// place is the plugin that has the registries in a file of a version.
func place(format int) string {
	switch format {
	case 1:
		return criV1
	case 2:
		return criV2
	}
	return images
}

// reads reports whether a release reads a plugin in a file of a version.
func reads(format int, plugin string, v Version) bool {
	switch {
	case plugin == place(format):
		return true
	case !v.two():
		return false
	case plugin == images:
		return true
	case plugin == criV2:
		return format <= 2 || format == 3 && v.fourth()
	}
	return false
}

// directories lists those of a root, the plausible hosts.
func (c *checker) directories(root string) (names []string) {
	entries, err := c.runtime.fs().ReadDir(root)
	if err != nil {
		return nil
	}
	for _, e := range entries[:min(len(entries), maxHosts)] {
		info, err := c.runtime.fs().Stat(filepath.Join(root, e.Name())) // a link may lead to one
		if err == nil && info.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// root checks a directory of config_path.
func (c *checker) root(root string) {
	c.misplaced(root)
	names := c.directories(root)
	for _, name := range names {
		dir := filepath.Join(root, name)
		c.name(dir, name)
		if !c.runtime.hasFile(dir) {
			c.without(dir, name, names)
			continue
		}
		c.hosts(dir, name)
	}
}

// misplaced is about files that stand where the directories of hosts are.
func (c *checker) misplaced(root string) {
	entries, err := c.runtime.fs().ReadDir(root)
	if err != nil {
		return
	}
	for _, e := range entries[:min(len(entries), maxHosts)] {
		path := filepath.Join(root, e.Name())
		info, err := c.runtime.fs().Stat(path)
		if err != nil || !info.Mode().IsRegular() || !c.isHostsFile(path) {
			continue
		}
		if e.Name() == "hosts.toml" {
			c.add("mirror-directory", finding.SeverityWarning, path, 1, "move it to "+filepath.Join(root, "HOST", "hosts.toml")+", where HOST is the registry host of the images",
				"containerd never reads this file: each registry host needs its own directory with a hosts.toml")
			continue
		}
		c.add("mirror-directory", finding.SeverityError, path, 1, fmt.Sprintf("rename this file, create a directory with its old name, and move the file to %s", filepath.Join(path, "hosts.toml")),
			"this is a file, but it must be a directory that contains a hosts.toml: every pull from %s fails", hostOf(e.Name()))
	}
}

// isHostsFile reports whether a file says what a hosts.toml does, whatever its name.
func (c *checker) isHostsFile(path string) bool {
	f, err := tomlfile.Read(context.Background(), c.runtime.fs(), path)
	if f == nil || err != nil {
		return filepath.Base(path) == "docker.io"
	}
	return f.Line("server") > 0 || f.Line("host") > 0 || filepath.Base(path) == "docker.io"
}

// name is about a directory whose name is that of no image's host.
func (c *checker) name(dir, name string) {
	const rule = "mirror-directory"
	switch {
	case name == "registry-1.docker.io" || name == "index.docker.io":
		c.add(rule, finding.SeverityWarning, dir, 0, "rename it to docker.io", "containerd never looks up %s: the host for Docker Hub images is docker.io", name)
	case name == "http:" || name == "https:":
		c.add(rule, finding.SeverityWarning, dir, 0, "remove the scheme", "this is not a host name")
	case name != strings.ToLower(name):
		c.add(rule, finding.SeverityWarning, dir, 0, "rename it to "+strings.ToLower(name), "image references use lower-case host names")
	}
}

// without is about a directory that has no hosts.toml, and hides what is for all.
func (c *checker) without(dir, name string, names []string) {
	if name == "_default" || !slices.Contains(names, "_default") {
		return
	}
	if !c.runtime.hasFile(filepath.Join(filepath.Dir(dir), "_default")) {
		return
	}
	c.add("mirror-hides-default", finding.SeverityWarning, dir, 0, "add a hosts.toml, or remove the directory",
		"this directory has no hosts.toml and overrides _default, so only the host itself is queried")
}

// hosts checks a hosts.toml.
func (c *checker) hosts(dir, name string) {
	path := filepath.Join(dir, "hosts.toml")
	var sound *hostsFile
	var last *brokenError
	var unreadable error
	bad, names := c.releases(func(v Version) bool {
		h, err := c.runtime.readHosts(dir, v)
		if err != nil {
			unreadable = err
			return false
		}
		if h.broken != nil {
			last = h.broken
			return true
		}
		sound = h
		return false
	})
	if unreadable != nil {
		c.add("mirror-unread", finding.SeverityError, path, 1, "replace this file with a readable regular file, or remove it", "%v: every pull from this host fails", unreadable)
		return
	}
	if bad {
		severity := finding.SeverityWarning
		if sound == nil {
			severity = finding.SeverityError
		}
		fix := "correct the file, then run regcred doctor --image IMAGE"
		if strings.HasPrefix(last.what, "the file has no host table") {
			fix = "add an empty [host] table at the end of the file"
		}
		c.add("mirror-unread", severity, path, max(last.line, 1), fix, "%s; %s silently ignores the whole file and pulls only from the image's own host", last.what, whom(names))
	}
	if sound == nil || sound.file == nil {
		return
	}
	for i := range sound.hosts {
		c.host(sound, &sound.hosts[i], name, i == len(sound.hosts)-1)
	}
	c.unordered(sound)
	c.unknown(sound)
}

// mode is whether a file may be read by others than its owner.
func (c *checker) open(path string) bool {
	info, err := c.runtime.fs().Stat(path)
	return err == nil && info.Mode()&fs.FileMode(0o044) != 0
}

// line is where a host stands, or else the file begins.
func (h *host) place() int { return cmp.Or(h.line, 1) }
