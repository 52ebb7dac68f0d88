// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/lint/internal/rules"
)

// fileRules returns the rules that check the files on this machine that args and env refer to.
func fileRules() []rules.Rule[*config.Provider] {
	return []rules.Rule[*config.Provider]{
		rules.WarningRule("missing-path", eachSetting(checkMissingPath)),
		rules.WarningRule("missing-path", eachSetting(checkEmptyFile)),
	}
}

// checkMissingPath reports a path that does not exist. The finding does not contain the path,
// because a value can be a secret.
func checkMissingPath(s setting) (fix, message string) {
	path := s.absolutePath()
	if path == "" {
		return "", ""
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return "", ""
	}
	where := "its directory is also missing"
	if info, err := os.Stat(filepath.Dir(path)); err == nil && info.IsDir() {
		where = "its directory exists"
	}
	return "create the file or fix the path", fmt.Sprintf("%s is a path that does not exist on this machine (%s%s)", s.label, where, wellKnownNameHint("; ", path))
}

func checkEmptyFile(s setting) (fix, message string) {
	path := s.absolutePath()
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() > 0 {
		return "", ""
	}
	return "restore the file", strings.TrimSuffix(s.label+" points to an empty file on this machine ("+wellKnownNameHint("", path)+")", " ()")
}

// wellKnownNameHint returns a hint such as "it ends in config.json", after prefix, if the path ends
// in a well-known file name. Otherwise it returns "". A well-known name cannot be a secret.
func wellKnownNameHint(prefix, path string) string {
	switch name := filepath.Base(path); name {
	case "azure.json", "cloud.conf", "config.json", "config.yaml", "kubeconfig", "credentials", "ca.crt", "tls.crt", "tls.key", "token":
		return prefix + "it ends in " + name
	}
	return ""
}

// absolutePath returns the absolute path of the file that s refers to. It returns "" if the file is not
// required.
func (s setting) absolutePath() string {
	path := strings.TrimPrefix(s.valueText(), "file://")
	if !filepath.IsAbs(path) || strings.ContainsAny(path, ":;, \t\n") || isTransient(path) || !isRequiredFile(s, path) {
		return ""
	}
	return path
}

// isTransient reports whether a file can appear and disappear while the machine is
// running, such as a socket or kernel file.
func isTransient(path string) bool {
	switch filepath.Ext(path) {
	case ".sock", ".socket", ".pid", ".lock", ".log":
		return true
	}
	return slices.ContainsFunc([]string{"/dev/", "/proc/", "/sys/"}, func(dir string) bool { return strings.HasPrefix(path+"/", dir) })
}

// isRequiredFile reports whether the plugin probably reads the file at path. For an argument
// without a flag, path must look like a local path. Otherwise, the name of the flag or variable
// must contain a word for an input file, such as "config". "dir" and "path" are not such words,
// because programs create directories, and a "path" is often part of a URL or repository.
func isRequiredFile(s setting, path string) bool {
	words := splitWords(s.flag)
	if strings.HasPrefix(s.field, "args") && len(words) == 0 {
		return isLocalPath(path)
	}
	isFile, isOther := false, isSecretName(s.flag) && filepath.Ext(path) == ""
	for _, word := range words {
		switch word {
		case "log", "logs", "output", "out", "cache", "url", "uri", "api", "endpoint", "prefix", "route", "image", "repository", "tmp", "temp", "tmpdir",
			"xdg", "home", "state", "work", "pid", "lock", "socket", "sock", "unix", "dump", "record", "trace", "metrics":
			isOther = true
		case "file", "config", "configfile", "kubeconfig", "cert", "certificate", "ca", "cacert", "bundle", "credentials", "conf", "key":
			isFile = true
		}
	}
	return isFile && !isOther
}

// isLocalPath reports whether an argument looks like a file path, and not like a URL path such as
// /v2/ or /team/app. A file path has a file extension, or its first directory exists on this
// machine.
func isLocalPath(path string) bool {
	top, _, deeper := strings.Cut(path[len(filepath.VolumeName(path))+1:], string(filepath.Separator))
	if hasExtension := filepath.Ext(path) != ""; hasExtension || !deeper {
		return hasExtension
	}
	_, err := os.Stat(filepath.VolumeName(path) + string(filepath.Separator) + top)
	return err == nil
}
