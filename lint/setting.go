// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
)

// The rules here are about what a shell, a template or an editor would have made
// of a text. A kubelet hands it on as it is.

// setting is an argument or the value of a variable.
type setting struct {
	at   config.FieldPath
	what string // it, as a message calls it
	flag string // the flag whose value it is, or the name of the variable; "" for an argument of its own
	text string // of a flag (--name=value) all of it
}

// value is what follows the = of a flag, or all of another text.
func (s setting) value() string {
	if strings.HasPrefix(s.text, "-") {
		if _, value, ok := strings.Cut(s.text, "="); ok {
			return value
		}
	}
	return s.text
}

// settings returns all of p's, but for scripts that a shell is given.
func settings(p *config.Provider) []setting {
	var all []setting
	for k, a := range p.Arguments() {
		if forShell(p, k) {
			continue
		}
		s := setting{at: config.FieldPath{"args", k}, what: "this argument", text: a}
		if name, _, ok := strings.Cut(a, "="); ok && strings.HasPrefix(a, "-") {
			s.flag = name
		} else if k > 0 && isBareFlag(p.Args[k-1].Reveal()) {
			s.flag = p.Args[k-1].Reveal()
		}
		all = append(all, s)
	}
	for k, e := range p.Env {
		all = append(all, setting{config.FieldPath{"env", k, "value"}, fmt.Sprintf("the value of %q", shownName(e)), e.Name, e.Value.Reveal()})
	}
	return all
}

// remarks returns one for each setting about which says has something to say.
func remarks(p *config.Provider, says func(s setting) (suggestion, message string)) (rs []remark) {
	for _, s := range settings(p) {
		if suggestion, message := says(s); message != "" {
			rs = and(rs, within(s.at, suggestion, "%s", message)...)
		}
	}
	return rs
}

// Compiled once, not for each of many providers. The name of a variable is in one
// of the groups.
var (
	variables = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\$\{([A-Za-z_]\w*)(?::?[-=?+][^}]*)?\}|\$\(([A-Za-z_]\w*)\)|(?:^|[=:/,;])\$([A-Z_][A-Z0-9_]+)(?:$|[/:,;.])|\$env:([A-Za-z_]\w*)|(?:^|[=;])%([A-Za-z_]\w{2,})%`)
	})
	commands     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("\\$\\([^()]*[\\s/][^()]*\\)|`[^`]+`") })
	homes        = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:^|:)~[a-z0-9_-]*(?:/|$)`) })
	placeholders = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\{\{.*\}\}|^<[^<>]+>$|(?i)^(?:change[-_]?me|replace[-_]?me|todo|redacted|your[-_ ].*|x{3,}|\*{3,}|\.{3})$`)
	})
)

// wellKnown are variables whose names are no secrets that have gone astray.
var wellKnown = []string{"HOME", "PATH", "USER", "LOGNAME", "PWD", "TMPDIR", "TEMP", "TMP", "SHELL", "HOSTNAME", "NODE_NAME", "NODE_IP", "HOST_IP",
	"POD_NAME", "POD_NAMESPACE", "POD_IP", "NAMESPACE", "KUBECONFIG", "CLUSTER_NAME", "REGION", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE",
	"AWS_ACCOUNT_ID", "ACCOUNT_ID", "REGISTRY", "USERPROFILE", "PROGRAMDATA", "PROGRAMFILES", "SYSTEMROOT", "WINDIR", "APPDATA", "LOCALAPPDATA"}

// namedVariable is " NAME" for what variables found in a text, "" if that may be
// a part of a secret.
func namedVariable(p *config.Provider, found []string) string {
	for _, name := range found[1:] {
		known := slices.Contains(wellKnown, strings.ToUpper(name)) ||
			slices.ContainsFunc(p.Env, func(e config.EnvVar) bool { return e.Name == name })
		if name != "" && known {
			return " " + name
		}
	}
	return ""
}

func ruleUnexpandedVariable(p *config.Provider) []remark {
	return remarks(p, func(s setting) (string, string) {
		found := variables().FindStringSubmatch(s.text)
		if found == nil {
			return "", ""
		}
		return "set the value", "no shell expands the variable" + namedVariable(p, found) + " in " + s.what
	})
}

func ruleUnexpandedCommand(p *config.Provider) []remark {
	return remarks(p, func(s setting) (string, string) {
		if !commands().MatchString(s.text) {
			return "", ""
		}
		return "set the value to the command's output, or use a script as the plugin", "no shell runs the command in " + s.what
	})
}

func ruleUnexpandedHome(p *config.Provider) []remark {
	return remarks(p, func(s setting) (string, string) {
		if !homes().MatchString(s.value()) {
			return "", ""
		}
		return "write the absolute path", "no shell expands the ~ in " + s.what + ", so the plugin uses a directory named ~"
	})
}

func rulePlaceholder(p *config.Provider) []remark {
	return remarks(p, func(s setting) (string, string) {
		if !placeholders().MatchString(strings.TrimSpace(s.value())) {
			return "", ""
		}
		return "set the value, or render the template", s.what + " looks like an unfilled placeholder"
	})
}

func ruleLiteralQuotes(p *config.Provider) []remark {
	return remarks(p, func(s setting) (string, string) {
		if !isQuoted(s.text) && !isQuoted(s.value()) {
			return "", ""
		}
		return "remove the inner quotes", s.what + " is enclosed in quotes, which are passed to the plugin because no shell removes them"
	})
}

// isQuoted reports whether a text begins and ends with a quote, of which it has
// no other: "a" "b" is something else.
func isQuoted(s string) bool {
	for _, pair := range []string{`""`, "''", "“”", "‘’", "„“"} {
		open, shut := []rune(pair)[0], []rune(pair)[1]
		inner, ok := strings.CutPrefix(s, string(open))
		inner, closed := strings.CutSuffix(inner, string(shut))
		if ok && closed && !strings.ContainsRune(inner, open) && !strings.ContainsRune(inner, shut) {
			return true
		}
	}
	return false
}

func ruleOuterBlanks(p *config.Provider) []remark {
	return remarks(p, func(s setting) (string, string) {
		trimmed := strings.TrimFunc(s.text, func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' || r == '\u200b' })
		if trimmed == s.text || trimmed == "" {
			return "", ""
		}
		switch {
		case strings.HasSuffix(s.text, "\r") || strings.HasSuffix(s.text, "\r\n"):
			return "save the file with LF line endings", s.what + " ends with a carriage return, which is passed to the plugin"
		case strings.HasSuffix(s.text, "\n"):
			return "write the value on one line, or use |- instead of |", s.what + " ends with a newline, which is passed to the plugin"
		}
		return "remove the spaces", s.what + " begins or ends with spaces, which are passed to the plugin"
	})
}

// ruleReplacedPath knows the PATH of Linux.
func ruleReplacedPath(p *config.Provider) (rs []remark) {
	for k, e := range p.Env {
		dirs := strings.Split(e.Value.Reveal(), ":")
		if e.Name != "PATH" || !strings.HasPrefix(dirs[0], "/") || slices.Contains(dirs, "/bin") || slices.Contains(dirs, "/usr/bin") {
			continue
		}
		rs = and(rs, within(config.FieldPath{"env", k, "value"}, "", "\"PATH\" replaces the kubelet's PATH but has neither /usr/bin nor /bin, so the plugin might not find other programs")...)
	}
	return rs
}

// ruleNoHome: systemd gives a service of root no HOME (systemd.exec(5)), so
// what is looked for below it is not found.
func ruleNoHome(p *config.Provider) []remark {
	has := func(names ...string) bool {
		return slices.ContainsFunc(p.Env, func(e config.EnvVar) bool { return slices.Contains(names, e.Name) && !e.Value.IsZero() })
	}
	for k, e := range p.Env {
		var files []string
		switch e.Name {
		case "AWS_PROFILE", "AWS_DEFAULT_PROFILE":
			files = []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"}
		case "CLOUDSDK_ACTIVE_CONFIG_NAME":
			files = []string{"CLOUDSDK_CONFIG"}
		}
		if files != nil && !e.Value.IsZero() && !has(append(files, "HOME")...) {
			return within(config.FieldPath{"env", k}, "set HOME, or "+strings.Join(files, " or "), "%q refers to a file in the home directory, but systemd starts the kubelet without HOME", e.Name)
		}
	}
	return nil
}

// pathRules look at what args and env name on this machine.
func pathRules() []rule[*config.Provider] {
	return []rule[*config.Provider]{
		{"missing-path", finding.SeverityWarning, ruleMissingPath},
		{"empty-file", finding.SeverityWarning, ruleEmptyFile},
	}
}

// ruleMissingPath does not say which path it is: that is a value.
func ruleMissingPath(p *config.Provider) []remark {
	return remarks(p, func(s setting) (string, string) {
		path := s.path()
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
		return "create the file or fix the path", fmt.Sprintf("%s is a path that does not exist on this machine (%s%s)", s.what, where, called("; ", path))
	})
}

func ruleEmptyFile(p *config.Provider) []remark {
	return remarks(p, func(s setting) (string, string) {
		path := s.path()
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() > 0 {
			return "", ""
		}
		return "restore the file", strings.TrimSuffix(s.what+" points to an empty file on this machine ("+called("", path)+")", " ()")
	})
}

// called is the name of a file that a cloud or Kubernetes has made well known,
// and that is no secret therefore; "" for others.
func called(before, path string) string {
	switch name := filepath.Base(path); name {
	case "azure.json", "cloud.conf", "config.json", "config.yaml", "kubeconfig", "credentials", "ca.crt", "tls.crt", "tls.key", "token":
		return before + "it ends in " + name
	}
	return ""
}

// path is the absolute path that has to be there for s; "" if it names none.
func (s setting) path() string {
	path := strings.TrimPrefix(s.value(), "file://")
	if !filepath.IsAbs(path) || strings.ContainsAny(path, ":;, \t\n") || passing(path) || !namesPath(s, path) {
		return ""
	}
	return path
}

// passing reports whether what a path leads to comes and goes while the machine
// runs: the kernel's, sockets and their like.
func passing(path string) bool {
	switch filepath.Ext(path) {
	case ".sock", ".socket", ".pid", ".lock", ".log":
		return true
	}
	return slices.ContainsFunc([]string{"/dev/", "/proc/", "/sys/"}, func(dir string) bool { return strings.HasPrefix(path+"/", dir) })
}

// namesPath reports whether an absolute path is one that has to be there: an
// argument of its own, or what a flag or variable names that is called after a
// file that is read. Directories are made by many programs, and what is called
// a path is often one of a URL or a repository.
func namesPath(s setting, path string) bool {
	words := words(s.flag)
	if s.at[0] == "args" && len(words) == 0 {
		return ofMachine(path)
	}
	isFile, isOther := false, secretName(s.flag) && filepath.Ext(path) == ""
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

// ofMachine reports whether a path without a name begins as this machine's do, or
// ends as files do: /v2/ and /team/app are others.
func ofMachine(path string) bool {
	top, _, deeper := strings.Cut(path[len(filepath.VolumeName(path))+1:], string(filepath.Separator))
	if filepath.Ext(path) != "" || !deeper {
		return filepath.Ext(path) != ""
	}
	_, err := os.Stat(filepath.VolumeName(path) + string(filepath.Separator) + top)
	return err == nil
}
