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

// RuleUnknownVersion is the rule of the finding that containerd's version is unknown.
const RuleUnknownVersion = "mirror-version"

// Check returns findings about the configuration and all hosts.toml files. It reads the files only
// on the first call.
func (r *Runtime) Check() []finding.Finding {
	r.checked.Do(func() { r.findings = r.withVersionNote(r.findProblems()) })
	return slices.Clone(r.findings)
}

func (r *Runtime) findProblems() []finding.Finding {
	c := r.newChecker()
	c.checkConfig()
	for _, dir := range c.configPaths {
		c.checkDirectory(dir)
	}
	return c.found
}

// withVersionNote adds a note to warnings and errors if containerd's version is
// unknown.
func (r *Runtime) withVersionNote(found []finding.Finding) []finding.Finding {
	if r.Version.IsKnown() || finding.Worst(found).Compare(finding.SeverityInfo) <= 0 {
		return found
	}
	return append(found, finding.Finding{
		Rule: RuleUnknownVersion, Severity: finding.SeverityInfo, File: r.File,
		Message: fmt.Sprintf("the containerd version is unknown; the configuration was checked for containerd %v", r.versionOrNewest()),
	})
}

// checker collects the findings for one containerd release.
type checker struct {
	*registryConfig
	runtime *Runtime
	release Version
	found   []finding.Finding
}

func (r *Runtime) newChecker() *checker {
	v := r.versionOrNewest()
	return &checker{registryConfig: r.decodeRegistry(v), runtime: r, release: v}
}

func (c *checker) addFinding(rule string, severity finding.Severity, file string, line int, fix, format string, args ...any) {
	f := finding.Finding{Rule: rule, Severity: severity, File: file, Line: line, Message: fmt.Sprintf(format, args...), Fix: fix}
	if !slices.Contains(c.found, f) {
		c.found = append(c.found, f)
	}
}

func (c *checker) addConfigFinding(rule string, severity finding.Severity, keys []string, fix, format string, args ...any) {
	file, line := c.runtime.keyLocation(append([]string{"registry"}, keys...)...)
	c.addFinding(rule, severity, file, line, fix, format, args...)
}

// Hosts returns the image hosts that have their own settings, sorted.
func (r *Runtime) Hosts() (list []string) {
	c := r.newChecker()
	for _, dir := range c.configPaths {
		for _, name := range c.hostDirectories(dir) {
			list = append(list, hostFromDirName(name))
		}
	}
	for name := range c.mirrors {
		list = append(list, name)
	}
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(host string) bool {
		image, err := route.Parse(host + "/image:tag")
		return err != nil || image.Host != host
	})
}

// hostFromDirName returns the registry host of a directory name. For example, the directory
// quay.io_8443_ is for the host quay.io:8443.
func hostFromDirName(name string) string {
	if rest, ok := strings.CutSuffix(name, "_"); ok {
		if i := strings.LastIndexByte(rest, '_'); i > 0 {
			return rest[:i] + ":" + rest[i+1:]
		}
	}
	return name
}

func (c *checker) checkConfig() {
	p := &routePlanner{runtime: c.runtime, registryConfig: c.registryConfig, version: c.release}
	if c.invalidPath {
		c.addConfigFinding("mirror-config-path", finding.SeverityError, []string{"config_path"}, "set config_path = \"/etc/containerd/certs.d\"", "config_path is not a string: the CRI plugin fails to load, and the kubelet cannot use containerd")
	} else if p.loadError() != "" {
		key := "mirrors"
		if len(c.mirrors) == 0 {
			key = "configs"
		}
		c.addConfigFinding("mirror-config-path", finding.SeverityError, []string{key}, "move these settings to hosts.toml files, or remove config_path",
			"config_path and registry.mirrors or registry.configs.*.tls are mutually exclusive: the CRI plugin fails to load, and the kubelet cannot use containerd")
	}
	for host := range c.tls {
		if c.release.isAtLeast2() {
			c.addConfigFinding("mirror-old-tls", finding.SeverityWarning, []string{"configs", host}, "set ca, client or skip_verify in a hosts.toml for "+host, "containerd 2 does not read registry.configs.*.tls")
		}
	}
	if len(c.logins) > 0 {
		key := "configs"
		if _, line := c.runtime.keyLocation("registry", key); line == 0 {
			key = "auths"
		}
		c.addConfigFinding("mirror-own-login", finding.SeverityInfo, []string{key}, "", "this password is used only if the kubelet sends no credential: "+
			"a matching pull secret or provider overrides this password, even for mirrors")
	}
	c.checkConfigPathUnset()
	c.checkMultipleDirectories()
	c.checkSections()
}

const (
	ruleConfigPathUnset = "mirror-unset"
	documentedCertDir   = "/etc/containerd/certs.d" // config_path in containerd's documentation
)

// checkConfigPathUnset reports hosts.toml files that are not read because config_path is not set.
func (c *checker) checkConfigPathUnset() {
	read := len(c.mirrors) > 0 || len(c.configPaths) > 0 && (c.configPathSet || !c.treatsListAsOneDir(c.release))
	if read || !c.hasHosts(documentedCertDir) {
		return
	}
	file, line := c.runtime.keyLocation("registry")
	c.addFinding(ruleConfigPathUnset, finding.SeverityWarning, file, max(line, 1), fmt.Sprintf("set config_path = %q in [plugins.%q.registry], and restart containerd", documentedCertDir, registryPlugin(c.runtime.format)),
		"config_path is not set, so containerd reads no hosts.toml in %s and pulls every image directly from its registry", documentedCertDir)
}

// treatsListAsOneDir reports whether containerd treats the list in config_path as one directory
// name. If it does, it reads no hosts.toml.
func (reg *registryConfig) treatsListAsOneDir(v Version) bool {
	return reg.usesTransferService && v.allowsOnlyOneDirectory() && len(reg.configPaths) > 1
}

// checkMultipleDirectories reports a config_path with several directories, because some releases
// read none of them.
func (c *checker) checkMultipleDirectories() {
	if !c.configPathSet || !c.treatsListAsOneDir(c.release) || !slices.ContainsFunc(c.configPaths, c.hasHosts) {
		return
	}
	c.addConfigFinding("mirror-two-directories", finding.SeverityError, []string{"config_path"}, "set config_path to one directory, or set use_local_image_pull = true",
		"config_path lists two directories, so containerd reads no hosts.toml at all (containerd#12415) and pulls every image directly from its registry")
}

func (c *checker) hasHosts(dir string) bool {
	return slices.ContainsFunc(c.hostDirectories(dir), func(name string) bool { return c.runtime.hasHostsFile(filepath.Join(dir, name)) })
}

// checkSections reports registry tables that containerd ignores, because they belong to another
// format version of the file.
func (c *checker) checkSections() {
	for _, s := range c.runtime.files {
		for _, plugin := range []string{criPluginV1, criPluginV2, imagesPluginV3} {
			line := s.Line("plugins", plugin, "registry")
			if line > 0 && !readsPlugin(s.format, plugin, c.release) {
				c.addFinding("mirror-section", finding.SeverityWarning, s.Path, line, fmt.Sprintf("in a configuration file of version %d, use [plugins.%q.registry]", s.format, registryPlugin(s.format)),
					"containerd ignores [plugins.%q.registry] in a configuration file of version %d", plugin, s.format)
			}
		}
	}
}

// registryPlugin returns the plugin that contains the registry table in a file of the
// given version.
func registryPlugin(format int) string {
	switch format {
	case 1:
		return criPluginV1
	case 2:
		return criPluginV2
	}
	return imagesPluginV3
}

// readsPlugin reports whether a containerd release reads a plugin's table in a file of the given
// format version.
func readsPlugin(format int, plugin string, v Version) bool {
	switch {
	case plugin == registryPlugin(format):
		return true
	case !v.isAtLeast2():
		return false
	case plugin == imagesPluginV3:
		return true
	case plugin == criPluginV2:
		return format <= 2 || format == 3 && v.supportsFormat4()
	}
	return false
}

// hostDirectories returns the names of the directories in dir, one for each image host.
func (c *checker) hostDirectories(dir string) (names []string) {
	entries, err := c.runtime.fs().ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries[:min(len(entries), maxHostEntries)] {
		info, err := c.runtime.fs().Stat(filepath.Join(dir, e.Name())) // follows symlinks
		if err == nil && info.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

func (c *checker) checkDirectory(root string) {
	c.checkMisplaced(root)
	names := c.hostDirectories(root)
	for _, name := range names {
		dir := filepath.Join(root, name)
		c.checkDirectoryName(dir, name)
		if !c.runtime.hasHostsFile(dir) {
			c.checkOverridesDefault(dir, name, names)
			continue
		}
		c.checkHostsFile(dir, name)
	}
}

// checkMisplaced reports hosts.toml files directly in root. They must be in a directory for their
// host.
func (c *checker) checkMisplaced(root string) {
	entries, err := c.runtime.fs().ReadDir(root)
	if err != nil {
		return
	}
	for _, e := range entries[:min(len(entries), maxHostEntries)] {
		path := filepath.Join(root, e.Name())
		info, err := c.runtime.fs().Stat(path)
		if err != nil || !info.Mode().IsRegular() || !c.isHostsFile(path) {
			continue
		}
		if e.Name() == "hosts.toml" {
			c.addFinding("mirror-directory", finding.SeverityWarning, path, 1, "move it to "+filepath.Join(root, "HOST", "hosts.toml")+", where HOST is the registry host of the images",
				"containerd never reads this file: each registry host needs its own directory with a hosts.toml")
			continue
		}
		c.addFinding("mirror-directory", finding.SeverityError, path, 1, fmt.Sprintf("rename this file, create a directory with its old name, and move the file to %s", filepath.Join(path, "hosts.toml")),
			"this is a file, but it must be a directory that contains a hosts.toml: every pull from %s fails", hostFromDirName(e.Name()))
	}
}

// isHostsFile reports whether a file is probably meant as a hosts.toml. It has a server or host
// table, or its name is docker.io.
func (c *checker) isHostsFile(path string) bool {
	f, err := tomlfile.Read(context.Background(), c.runtime.fs(), path)
	if f == nil || err != nil {
		return filepath.Base(path) == "docker.io"
	}
	return f.Line("server") > 0 || f.Line("host") > 0 || filepath.Base(path) == "docker.io"
}

// checkDirectoryName reports a directory whose name can never be an image's host.
func (c *checker) checkDirectoryName(dir, name string) {
	const rule = "mirror-directory"
	switch {
	case name == "registry-1.docker.io" || name == "index.docker.io":
		c.addFinding(rule, finding.SeverityWarning, dir, 0, "rename it to docker.io", "containerd never looks up %s: the host for Docker Hub images is docker.io", name)
	case name == "http:" || name == "https:":
		c.addFinding(rule, finding.SeverityWarning, dir, 0, "remove the scheme", "this is not a host name")
	case name != strings.ToLower(name):
		c.addFinding(rule, finding.SeverityWarning, dir, 0, "rename it to "+strings.ToLower(name), "image references use lower-case host names")
	}
}

// checkOverridesDefault reports a directory without hosts.toml that overrides _default.
func (c *checker) checkOverridesDefault(dir, name string, names []string) {
	if name == "_default" || !slices.Contains(names, "_default") || !c.runtime.hasHostsFile(filepath.Join(filepath.Dir(dir), "_default")) {
		return
	}
	c.addFinding("mirror-hides-default", finding.SeverityWarning, dir, 0, "add a hosts.toml, or remove the directory",
		"this directory has no hosts.toml and overrides _default, so only the host itself is queried")
}

// checkHostsFile checks the hosts.toml in dir. name is the last element of dir, which determines
// the images to which the file applies.
func (c *checker) checkHostsFile(dir, name string) {
	h, err := c.runtime.readHosts(dir, c.release)
	if err != nil {
		c.addFinding("mirror-unread", finding.SeverityError, filepath.Join(dir, "hosts.toml"), 1, "replace this file with a readable regular file, or remove it", "%v: every pull from this host fails", err)
		return
	}
	if h.parseError != nil {
		fix := cmp.Or(h.parseError.fix, "correct the file, then run regcred doctor --image IMAGE")
		c.addFinding("mirror-unread", finding.SeverityError, h.path, max(h.parseError.line, 1), fix, "%s; containerd silently ignores the whole file and pulls only from the image's own host", h.parseError.message)
		return
	}
	if h.file == nil {
		return
	}
	for i := range h.hosts {
		c.checkHost(h, &h.hosts[i], name, i == len(h.hosts)-1)
	}
	c.checkTables(h)
	c.checkKeys(h)
}

// isReadableByOthers reports whether users other than the file's owner can read it.
func (c *checker) isReadableByOthers(path string) bool {
	info, err := c.runtime.fs().Stat(path)
	return err == nil && info.Mode()&fs.FileMode(0o044) != 0
}

// lineOrDefault returns the line of the host's table or, if unknown, the file's first
// line.
func (h *host) lineOrDefault() int { return cmp.Or(h.line, 1) }
