// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/lint/internal/rules"
)

// setting is an argument or the value of an environment variable. The kubelet passes it to the
// plugin unchanged, without a shell or template engine.
type setting struct {
	provider *config.Provider
	field    string
	label    string // how messages refer to the setting
	flag     string // name of the flag or variable; "" for an argument without a flag
	text     string // the whole argument or value; for --name=value, it includes the flag's name
}

// valueText returns the text without the flag's name and the equals sign.
func (s setting) valueText() string {
	if strings.HasPrefix(s.text, "-") {
		if _, value, ok := strings.Cut(s.text, "="); ok {
			return value
		}
	}
	return s.text
}

// argsAndEnv returns p's arguments and variables, except shell scripts.
func argsAndEnv(p *config.Provider) []setting {
	var all []setting
	for k, a := range p.Arguments() {
		if isShellScript(p, k) {
			continue
		}
		s := setting{provider: p, field: fmt.Sprintf("args[%d]", k), label: "this argument", text: a}
		if name, _, ok := strings.Cut(a, "="); ok && strings.HasPrefix(a, "-") {
			s.flag = name
		} else if k > 0 && isBareFlag(p.Args[k-1].Reveal()) {
			s.flag = p.Args[k-1].Reveal()
		}
		all = append(all, s)
	}
	for k, e := range p.Env {
		all = append(all, setting{p, fmt.Sprintf("env[%d].value", k), fmt.Sprintf("the value of %q", redactedName(e)), e.Name, e.Value.Reveal()})
	}
	return all
}

// eachSetting converts a check of one setting into a check of a provider. The check of the provider
// reports each setting for which check returns a message.
func eachSetting(check func(s setting) (fix, message string)) func(*config.Provider) []rules.Result {
	return func(p *config.Provider) (rs []rules.Result) {
		for _, s := range argsAndEnv(p) {
			if fix, message := check(s); message != "" {
				rs = append(rs, rules.NewFieldResult(s.field, fix, "%s", message)...)
			}
		}
		return rs
	}
}

// The groups of variablePattern capture the variable's name.
var (
	variablePattern = rules.LazyRegexp(`\$\{([A-Za-z_]\w*)(?::?[-=?+][^}]*)?\}|\$\(([A-Za-z_]\w*)\)|(?:^|[=:/,;])\$([A-Z_][A-Z0-9_]+)(?:$|[/:,;.])|\$env:([A-Za-z_]\w*)|(?:^|[=;])%([A-Za-z_]\w{2,})%`)
	commandPattern  = rules.LazyRegexp("\\$\\([^()]*[\\s/][^()]*\\)|`[^`]+`")
	homePattern     = rules.LazyRegexp(`(?:^|:)~[a-z0-9_-]*(?:/|$)`)
)

// wellKnownVariables lists variable names that are safe to show. Another name could be part of a
// secret.
var wellKnownVariables = []string{"HOME", "PATH", "USER", "LOGNAME", "PWD", "TMPDIR", "TEMP", "TMP", "SHELL", "HOSTNAME", "NODE_NAME", "NODE_IP", "HOST_IP",
	"POD_NAME", "POD_NAMESPACE", "POD_IP", "NAMESPACE", "KUBECONFIG", "CLUSTER_NAME", "REGION", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE",
	"AWS_ACCOUNT_ID", "ACCOUNT_ID", "REGISTRY", "USERPROFILE", "PROGRAMDATA", "PROGRAMFILES", "SYSTEMROOT", "WINDIR", "APPDATA", "LOCALAPPDATA"}

// variableName returns a space and the first of names that is safe to show: a well-known name, or
// the name of a variable in the provider's env. It returns "" if there is none, because the text
// could be part of a secret.
func (s setting) variableName(names []string) string {
	for _, name := range names {
		known := slices.Contains(wellKnownVariables, strings.ToUpper(name)) ||
			slices.ContainsFunc(s.provider.Env, func(e config.EnvVar) bool { return e.Name == name })
		if name != "" && known {
			return " " + name
		}
	}
	return ""
}

func checkVariable(s setting) (fix, message string) {
	found := variablePattern().FindStringSubmatch(s.text)
	if found == nil {
		return "", ""
	}
	return "set the value", "no shell expands the variable" + s.variableName(found[1:]) + " in " + s.label
}

func checkCommand(s setting) (fix, message string) {
	if !commandPattern().MatchString(s.text) {
		return "", ""
	}
	return "set the value to the command's output, or use a script as the plugin", "no shell runs the command in " + s.label
}

func checkHome(s setting) (fix, message string) {
	if !homePattern().MatchString(s.valueText()) {
		return "", ""
	}
	return "write the absolute path", "no shell expands the ~ in " + s.label + ", so the plugin uses a directory named ~"
}

func checkPlaceholder(s setting) (fix, message string) {
	if !rules.IsPlaceholder(s.valueText()) {
		return "", ""
	}
	return "set the value, or render the template", s.label + " looks like an unfilled placeholder"
}

func checkQuotes(s setting) (fix, message string) {
	if !isQuoted(s.text) && !isQuoted(s.valueText()) {
		return "", ""
	}
	return "remove the inner quotes", s.label + " is enclosed in quotes, which are passed to the plugin because no shell removes them"
}

// isQuoted reports whether s is enclosed in one pair of quotes. It returns false for "a" "b", which
// contains further quotes.
func isQuoted(s string) bool {
	return slices.ContainsFunc([]string{`""`, "''", "“”", "‘’", "„“"}, func(pair string) bool {
		open, shut := string([]rune(pair)[:1]), string([]rune(pair)[1:])
		inner, opened := strings.CutPrefix(s, open)
		inner, closed := strings.CutSuffix(inner, shut)
		return opened && closed && !strings.ContainsAny(inner, pair)
	})
}

func checkOuterSpace(s setting) (fix, message string) {
	trimmed := strings.TrimFunc(s.text, func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' || r == '\u200b' })
	switch {
	case trimmed == s.text || trimmed == "":
		return "", ""
	case strings.HasSuffix(s.text, "\r") || strings.HasSuffix(s.text, "\r\n"):
		return "save the file with LF line endings", s.label + " ends with a carriage return, which is passed to the plugin"
	case strings.HasSuffix(s.text, "\n"):
		return "write the value on one line, or use |- instead of |", s.label + " ends with a newline, which is passed to the plugin"
	}
	return "remove the spaces", s.label + " begins or ends with spaces, which are passed to the plugin"
}

// checkReplacedPath reports a PATH that contains neither /usr/bin nor /bin. It checks only Linux
// paths.
func checkReplacedPath(p *config.Provider) (rs []rules.Result) {
	for k, e := range p.Env {
		dirs := strings.Split(e.Value.Reveal(), ":")
		if e.Name != "PATH" || !strings.HasPrefix(dirs[0], "/") || slices.Contains(dirs, "/bin") || slices.Contains(dirs, "/usr/bin") {
			continue
		}
		rs = append(rs, rules.NewFieldResult(fmt.Sprintf("env[%d].value", k), "", "\"PATH\" replaces the kubelet's PATH but has neither /usr/bin nor /bin, so the plugin might not find other programs")...)
	}
	return rs
}

// checkNoHome reports variables that refer to files in the home directory, if HOME is not set.
// systemd does not set HOME for a service that runs as root (systemd.exec(5)).
func checkNoHome(p *config.Provider) []rules.Result {
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
			return rules.NewFieldResult(fmt.Sprintf("env[%d]", k), "set HOME, or "+strings.Join(files, " or "), "%q refers to a file in the home directory, but systemd starts the kubelet without HOME", e.Name)
		}
	}
	return nil
}
