// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/plugin"
)

// The checks in this file run the plugin in a different environment, such as without HOME.

// compareInEnvironment sends the base request in a changed environment and compares the
// response with base.
func (s *suite) compareInEnvironment(severity finding.Severity, where string, base *plugin.Response, change func(*plugin.Command), kubelet, fix string) []Finding {
	cmd := s.cmd
	change(&cmd)
	r := s.sendRequestWith(cmd, s.newRequest(s.baseVersion()))
	did := r.action + ", " + where
	if !r.hasResponse() {
		return newFinding(severity, did, r.describeOutcome(), kubelet, fix)
	}
	if what := s.describeDifference(base, r.exchange.Response); what != "" {
		return newFinding(severity, did, "the response differs: "+what, kubelet, fix)
	}
	return passFinding(did, "the same response")
}

func checkEnvEmpty(s *suite, base *plugin.Response) []Finding {
	if names := s.endpointOverrides(); len(names) > 0 {
		return skipFinding("the inherited environment sets a custom cloud endpoint (%s), but this check would remove that setting, so the plugin might contact the real cloud; "+
			"pass the plugin's whole configuration with --env (Command.Env)", strings.Join(names, ", "))
	}
	return s.compareInEnvironment(finding.SeverityWarning, "with only the configured environment variables", base,
		func(c *plugin.Command) {
			c.Environ = slices.DeleteFunc(s.pluginEnviron(), func(entry string) bool { return !isEssentialVariable(entry) })
		},
		"The plugin inherits the kubelet's environment, which contains few variables when the kubelet runs as a service.",
		"Read settings only from arguments and configured variables (env), and do not rely on PATH to find programs.")
}

// isEssentialVariable reports whether an environment variable is kept when the environment is
// cleared, because programs need it to run or to reach servers.
func isEssentialVariable(entry string) bool {
	name, _, _ := strings.Cut(entry, "=")
	switch strings.ToUpper(name) {
	case "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY":
		return true
	}
	return runtime.GOOS == "windows" && strings.EqualFold(name, "SystemRoot")
}

// endpointOverrides returns the inherited environment variables that set the address of a cloud
// API, for example of a test server. It omits variables that are also set in Command.Env.
func (s *suite) endpointOverrides() []string {
	var names []string
	for _, entry := range s.pluginEnviron() {
		name, _, _ := strings.Cut(entry, "=")
		kept := slices.ContainsFunc(s.cmd.Env, func(e plugin.Secret) bool { return strings.HasPrefix(e.Reveal(), name+"=") })
		if isEndpointOverride(name) && !kept && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// isEndpointOverride reports whether a variable sets the address of a cloud API.
func isEndpointOverride(name string) bool {
	switch name {
	case "AWS_CONTAINER_CREDENTIALS_FULL_URI",
		"AZURE_AUTHORITY_HOST", "AZURE_ENVIRONMENT_FILEPATH", "AZURE_POD_IDENTITY_AUTHORITY_HOST",
		"IDENTITY_ENDPOINT", "IMDS_ENDPOINT", "MSI_ENDPOINT",
		"GCE_METADATA_HOST", "GCE_METADATA_IP", "GCE_METADATA_ROOT":
		return true
	}
	return strings.HasPrefix(name, "AWS_ENDPOINT_URL") || strings.HasPrefix(name, "AWS_EC2_METADATA_")
}

func checkEnvHome(s *suite, base *plugin.Response) []Finding {
	return s.compareInEnvironment(finding.SeverityError, "without HOME", base,
		func(c *plugin.Command) {
			c.Environ = slices.DeleteFunc(s.pluginEnviron(), func(entry string) bool {
				name, _, _ := strings.Cut(entry, "=")
				return name == "HOME" || runtime.GOOS == "windows" && strings.EqualFold(name, "USERPROFILE")
			})
		},
		"If the kubelet runs as a system service, HOME is not set for the kubelet or the plugin.",
		"Do not use a home directory. Read files from configured paths.")
}

// pluginEnviron returns a copy of the environment that the plugin inherits. The copy is never nil.
func (s *suite) pluginEnviron() []string {
	inherited := s.cmd.Environ
	if inherited == nil {
		inherited = os.Environ()
	}
	return append([]string{}, inherited...)
}

func checkDirRoot(s *suite, base *plugin.Response) []Finding {
	return s.compareInEnvironment(finding.SeverityError, "in the directory /", base,
		func(c *plugin.Command) { c.Dir = filepath.VolumeName(c.Path) + string(filepath.Separator) },
		"Under systemd, the working directory of the kubelet and the plugin is /.",
		"Do not rely on the working directory. Use absolute paths.")
}

func checkDirReadOnly(s *suite, base *plugin.Response) []Finding {
	dir, err := os.MkdirTemp("", "plugintest-")
	if err != nil {
		return skipFinding("create a temporary directory: %v", err)
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o555)
	if isWritableDir(dir) {
		dir = "/proc" // a directory in which not even root can create files
	}
	if isWritableDir(dir) {
		return skipFinding("the check needs a read-only directory, but the current user can write to any directory")
	}
	return s.compareInEnvironment(finding.SeverityError, "in a read-only directory", base,
		func(c *plugin.Command) { c.Dir = dir },
		"On many nodes, the kubelet's working directory is on a read-only file system.",
		"Do not write files, or write them only to a configured directory.")
}

func isWritableDir(dir string) bool {
	f, err := os.CreateTemp(dir, "plugintest-")
	if err != nil {
		_, missing := os.Stat(dir)
		return missing != nil
	}
	f.Close()
	os.Remove(f.Name())
	return true
}

func checkLeavesFiles(s *suite) []Finding {
	dir, err := os.MkdirTemp("", "plugintest-")
	if err != nil {
		return skipFinding("create a temporary directory: %v", err)
	}
	defer os.RemoveAll(dir)
	work, temp := filepath.Join(dir, "work"), filepath.Join(dir, "temp")
	for _, d := range []string{work, temp} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return skipFinding("create a temporary directory: %v", err)
		}
	}
	cmd := s.cmd
	cmd.Dir = work
	cmd.Environ = append(s.pluginEnviron(), "TMPDIR="+temp, "TMP="+temp, "TEMP="+temp)
	r := s.sendRequestWith(cmd, s.newRequest(s.baseVersion()))
	if r.failedAt(plugin.StageStart) {
		return notStartedFinding()
	}
	did := r.action + ", in an empty directory with an empty TMPDIR"
	if left := listFiles(dir, work, temp); len(left) > 0 {
		return newFinding(finding.SeverityWarning, did, "it left behind "+quoteList(left),
			"The kubelet runs the plugin for many pulls, so files that the plugin leaves behind fill the disk and might contain credentials.",
			"There is no need to write files, because the kubelet caches the response. Remove temporary files before exiting.")
	}
	return passFinding(did, "no files were left behind")
}

// listFiles returns the files below dir, except the paths in before. It stops after about 100
// files.
func listFiles(dir string, before ...string) []string {
	var left []string
	filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && path != dir && !slices.Contains(before, path) {
			name, _ := filepath.Rel(dir, path)
			left = append(left, name)
		}
		if len(left) > 100 {
			return fs.SkipAll
		}
		return nil
	})
	return left
}
