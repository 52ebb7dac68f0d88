// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/excerpt"
)

// settingRules are the rules for args and env. None prints a value of either.
func settingRules() []rule[*config.Provider] {
	return []rule[*config.Provider]{
		{"joined-args", finding.SeverityWarning, ruleJoinedArgs},
		{"split-flag", finding.SeverityWarning, ruleSplitFlag},
		{"empty-argument", finding.SeverityWarning, ruleEmptyArgument},
		{"secret-in-args", finding.SeverityWarning, ruleSecretInArgs},
		{"env-name", finding.SeverityError, ruleEnvName},
		{"duplicate-env", finding.SeverityWarning, ruleDuplicateEnv},
		{"empty-variable", finding.SeverityInfo, ruleEmptyVariable},
		{"secret-in-env", finding.SeverityWarning, ruleSecretInEnv},
		{"unexpanded-variable", finding.SeverityWarning, ruleUnexpandedVariable},
		{"unexpanded-command", finding.SeverityWarning, ruleUnexpandedCommand},
		{"unexpanded-home", finding.SeverityWarning, ruleUnexpandedHome},
		{"placeholder", finding.SeverityWarning, rulePlaceholder},
		{"literal-quotes", finding.SeverityWarning, ruleLiteralQuotes},
		{"outer-blanks", finding.SeverityWarning, ruleOuterBlanks},
		{"replaced-path", finding.SeverityInfo, ruleReplacedPath},
		{"no-home", finding.SeverityInfo, ruleNoHome},
		{"proxied-metadata", finding.SeverityWarning, ruleProxiedMetadata},
	}
}

func ruleSplitFlag(p *config.Provider) (rs []remark) {
	for k, a := range p.Arguments() {
		if k > 0 && (a == "true" || a == "false") && isBareFlag(p.Args[k-1].Reveal()) {
			rs = and(rs, within(config.FieldPath{"args", k}, "write the flag and its value as one item, joined by =", "a boolean flag accepts a value only after =, so the flag is true and this text is a separate argument")...)
		}
	}
	return rs
}

// isBareFlag reports whether an argument is a flag without a value.
func isBareFlag(arg string) bool {
	name := strings.TrimLeft(arg, "-")
	return len(name) < len(arg) && name != "" && !strings.ContainsAny(arg, "= \t")
}

func ruleJoinedArgs(p *config.Provider) (rs []remark) {
	for k, a := range p.Arguments() {
		first, rest := strings.TrimSpace(a), ""
		if i := strings.IndexFunc(first, unicode.IsSpace); i >= 0 {
			first, rest = first[:i], strings.TrimSpace(first[i:])
		}
		flagBehind := len(rest) > 1 && rest[0] == '-' && strings.IndexFunc(strings.TrimLeft(rest, "-"), unicode.IsLetter) == 0
		if rest != "" && !forShell(p, k) && (flagBehind || isBareFlag(first)) {
			rs = and(rs, within(config.FieldPath{"args", k}, "write each argument as a separate item", "this is a single argument that contains spaces, and no shell splits it")...)
		}
	}
	return rs
}

// forShell reports whether an argument is what a shell is given as its script,
// which it does split and expand.
func forShell(p *config.Provider, k int) bool { return k > 0 && p.Args[k-1].Reveal() == "-c" }

func ruleEmptyArgument(p *config.Provider) (rs []remark) {
	for k, a := range p.Arguments() {
		if strings.TrimSpace(a) == "" && (k == 0 || !isBareFlag(p.Args[k-1].Reveal())) {
			rs = and(rs, within(config.FieldPath{"args", k}, "remove the argument", "the plugin receives an empty argument, which most plugins reject")...)
		}
	}
	return rs
}

func ruleSecretInArgs(p *config.Provider) (rs []remark) {
	for k, a := range p.Arguments() {
		name, value, ok := strings.Cut(a, "=")
		if !ok && k+1 < len(p.Args) {
			value = p.Args[k+1].Reveal()
		}
		if strings.HasPrefix(name, "-") && secretName(name) && secretValue(value) {
			rs = and(rs, within(config.FieldPath{"args", k}, "store it in a file that only root can read", "this looks like a secret, and every user can see it in the process list")...)
		}
	}
	return rs
}

func ruleEnvName(p *config.Provider) (rs []remark) {
	if p.Predecessor() {
		return nil // Validate refuses more than these.
	}
	for k, e := range p.Env {
		at := config.FieldPath{"env", k, "name"}
		switch i := strings.IndexAny(e.Name, "=\x00"); {
		case e.Name == "":
			rs = and(rs, within(at, "set the name, or remove the entry", "a variable without a name is not passed to the plugin")...)
		case i >= 0 && e.Name[i] == '=':
			rs = and(rs, within(at, "move the text after the = to value", "the name contains =, so only the text before the first = becomes the variable's name")...)
		case i >= 0 || strings.Contains(e.Value.Reveal(), "\x00"):
			rs = and(rs, within(at, "remove the NUL (\\0 in a double-quoted YAML string)", "the variable contains a NUL, so the plugin cannot start")...)
		case strings.ContainsFunc(e.Name, unicode.IsSpace) || strings.ContainsAny(e.Name, "$%\"'`"):
			rs = and(rs, within(at, "set only the name", "the name contains spaces, quotes, $ or %%, so no program reads the variable")...)
		}
	}
	return rs
}

func ruleDuplicateEnv(p *config.Provider) (rs []remark) {
	if p.Predecessor() {
		return nil // Validate refuses them.
	}
	last := map[string]int{}
	for k, e := range p.Env {
		last[e.Name] = k
	}
	for k, e := range p.Env {
		if i := last[e.Name]; i != k && e.Name != "" {
			rs = and(rs, within(config.FieldPath{"env", k}, "remove the entry", "%q is set again in env[%d], which takes precedence", shownName(e), i)...)
		}
	}
	return rs
}

// ruleEmptyVariable leaves out those that are emptied on purpose: proxies.
func ruleEmptyVariable(p *config.Provider) (rs []remark) {
	for k, e := range p.Env {
		if name := strings.ToLower(e.Name); e.Name != "" && e.Value.IsZero() && !strings.HasSuffix(name, "_proxy") {
			rs = and(rs, within(config.FieldPath{"env", k}, "", "%q is empty, which overrides the value from the kubelet's environment", shownName(e))...)
		}
	}
	return rs
}

func ruleSecretInEnv(p *config.Provider) (rs []remark) {
	for k, e := range p.Env {
		if secretName(shownName(e)) && secretValue(e.Value.Reveal()) || urlPassword(e.Value.Reveal()) {
			rs = and(rs, within(config.FieldPath{"env", k}, "store it in a file that only root can read", "%q contains a secret that every user with read access to this file can see", shownName(e))...)
		}
	}
	return rs
}

// shownName is the name of v as far as a message shows it. What follows an equals
// sign was meant for the value.
func shownName(v config.EnvVar) string {
	name, _, _ := strings.Cut(v.Name, "=")
	return excerpt.Value(name)
}

// secretName reports whether the name of a variable or flag ends as those of
// secrets do: AWS_SECRET_ACCESS_KEY, but not AWS_ACCESS_KEY_ID or TOKEN_FILE.
func secretName(name string) bool {
	words := words(name)
	if len(words) == 0 {
		return false
	}
	switch last := words[len(words)-1]; last {
	case "password", "passwd", "secret", "token", "apikey", "passphrase":
		return true
	case "key":
		return len(words) > 1 && slices.Contains([]string{"access", "api", "private", "secret"}, words[len(words)-2])
	}
	return false
}

// secretValue excludes what only switches a secret on or says where it is.
func secretValue(v string) bool {
	switch strings.ToLower(v) {
	case "", "true", "false", "yes", "no", "0", "1":
		return false
	}
	return !strings.HasPrefix(v, "/") && !strings.HasPrefix(v, "-") && !strings.HasPrefix(v, "file:")
}

func urlPassword(v string) bool {
	if !strings.Contains(v, "://") {
		return false
	}
	u, err := url.Parse(v)
	if err != nil || u.User == nil {
		return false
	}
	_, has := u.User.Password()
	return has
}

// words splits a name at what is neither letter nor digit, in lower case.
func words(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

const metadataAddress = "169.254.169.254"

// ruleProxiedMetadata looks at the proxy for http, which is what the clouds'
// metadata servers speak.
func ruleProxiedMetadata(p *config.Provider) []remark {
	proxy, exempt := -1, false
	for k, e := range p.Env {
		switch {
		case strings.EqualFold(e.Name, "HTTP_PROXY") && !e.Value.IsZero():
			proxy = k
		case strings.EqualFold(e.Name, "NO_PROXY"):
			v := e.Value.Reveal()
			exempt = exempt || v == "*" || strings.Contains(v, metadataAddress) || strings.Contains(v, "169.254.0.0/16")
		}
	}
	if proxy < 0 || exempt {
		return nil
	}
	return within(config.FieldPath{"env", proxy}, "add "+metadataAddress+" to NO_PROXY", "%q also sends metadata server requests through the proxy, unless NO_PROXY includes %s", shownName(p.Env[proxy]), metadataAddress)
}
