// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/lint/internal/rules"
	"github.com/regcred/regcred/plugin"
)

// settingRules returns the rules for args and env, and for texts in other fields that a tool should have
// replaced. Their messages contain no values of args and env.
func settingRules() []rules.Rule[*config.Provider] {
	const literal = "literal-value" // passed to the plugin as written
	return []rules.Rule[*config.Provider]{
		rules.WarningRule(literal, checkJoinedArgs),
		rules.WarningRule(literal, checkSplitFlag),
		rules.WarningRule(literal, checkEmptyArgument),
		rules.WarningRule("plaintext-secret", checkSecretInArgs),
		rules.ErrorRule("env-name", checkEnvName),
		rules.WarningRule("duplicate-env", checkDuplicateEnv),
		rules.InfoRule("overridden-variable", checkEmptyVariable),
		rules.WarningRule("plaintext-secret", checkSecretInEnv),
		rules.WarningRule(literal, eachSetting(checkVariable)),
		rules.WarningRule(literal, eachSetting(checkCommand)),
		rules.WarningRule(literal, eachSetting(checkHome)),
		rules.WarningRule(literal, eachSetting(checkPlaceholder)),
		rules.WarningRule(literal, checkUnfilledField),
		rules.WarningRule(literal, eachSetting(checkQuotes)),
		rules.WarningRule(literal, eachSetting(checkOuterSpace)),
		rules.InfoRule("overridden-variable", checkReplacedPath),
		rules.InfoRule("no-home", checkNoHome),
		rules.WarningRule("proxied-metadata", checkProxiedMetadata),
	}
}

func checkSplitFlag(p *config.Provider) (rs []rules.Result) {
	for k, a := range p.Arguments() {
		if k > 0 && (a == "true" || a == "false") && isBareFlag(p.Args[k-1].Reveal()) {
			rs = append(rs, rules.NewFieldResult(fmt.Sprintf("args[%d]", k), "write the flag and its value as one item, joined by =", "a boolean flag accepts a value only after =, so the flag is true and this text is a separate argument")...)
		}
	}
	return rs
}

func isBareFlag(arg string) bool {
	name := strings.TrimLeft(arg, "-")
	return len(name) < len(arg) && name != "" && !strings.ContainsAny(arg, "= \t")
}

func checkJoinedArgs(p *config.Provider) (rs []rules.Result) {
	for k, a := range p.Arguments() {
		first, rest := strings.TrimSpace(a), ""
		if i := strings.IndexFunc(first, unicode.IsSpace); i >= 0 {
			first, rest = first[:i], strings.TrimSpace(first[i:])
		}
		flagFollows := len(rest) > 1 && rest[0] == '-' && strings.IndexFunc(strings.TrimLeft(rest, "-"), unicode.IsLetter) == 0
		if rest != "" && !isShellScript(p, k) && (flagFollows || isBareFlag(first)) {
			rs = append(rs, rules.NewFieldResult(fmt.Sprintf("args[%d]", k), "write each argument as a separate item", "this is a single argument that contains spaces, and no shell splits it")...)
		}
	}
	return rs
}

// isShellScript reports whether args[k] is the script of "sh -c". A shell splits and expands such
// an argument.
func isShellScript(p *config.Provider, k int) bool { return k > 0 && p.Args[k-1].Reveal() == "-c" }

func checkEmptyArgument(p *config.Provider) (rs []rules.Result) {
	for k, a := range p.Arguments() {
		if strings.TrimSpace(a) == "" && (k == 0 || !isBareFlag(p.Args[k-1].Reveal())) {
			rs = append(rs, rules.NewFieldResult(fmt.Sprintf("args[%d]", k), "remove the argument", "the plugin receives an empty argument, which most plugins reject")...)
		}
	}
	return rs
}

func checkSecretInArgs(p *config.Provider) (rs []rules.Result) {
	for k, a := range p.Arguments() {
		name, value, ok := strings.Cut(a, "=")
		if !ok && k+1 < len(p.Args) {
			value = p.Args[k+1].Reveal()
		}
		if strings.HasPrefix(name, "-") && isSecretName(name) && isPossibleSecret(value) {
			rs = append(rs, rules.NewFieldResult(fmt.Sprintf("args[%d]", k), "store it in a file that only root can read", "this looks like a secret, and every user can see it in the process list")...)
		}
	}
	return rs
}

func checkEnvName(p *config.Provider) (rs []rules.Result) {
	if p.APIVersion == plugin.OutOfTree {
		return nil // Validate checks these names, and more strictly
	}
	for k, e := range p.Env {
		at := fmt.Sprintf("env[%d].name", k)
		switch i := strings.IndexAny(e.Name, "=\x00"); {
		case e.Name == "":
			rs = append(rs, rules.NewFieldResult(at, "set the name, or remove the entry", "a variable without a name is not passed to the plugin")...)
		case i >= 0 && e.Name[i] == '=':
			rs = append(rs, rules.NewFieldResult(at, "move the text after the = to value", "the name contains =, so only the text before the first = becomes the variable's name")...)
		case i >= 0 || strings.Contains(e.Value.Reveal(), "\x00"):
			rs = append(rs, rules.NewFieldResult(at, "remove the NUL (\\0 in a double-quoted YAML string)", "the variable contains a NUL, so the plugin cannot start")...)
		case strings.ContainsFunc(e.Name, unicode.IsSpace) || strings.ContainsAny(e.Name, "$%\"'`"):
			rs = append(rs, rules.NewFieldResult(at, "set only the name", "the name contains spaces, quotes, $ or %%, so no program reads the variable")...)
		}
	}
	return rs
}

func checkDuplicateEnv(p *config.Provider) (rs []rules.Result) {
	if p.APIVersion == plugin.OutOfTree {
		return nil // Validate rejects duplicates in this version
	}
	last := map[string]int{}
	for k, e := range p.Env {
		last[e.Name] = k
	}
	for k, e := range p.Env {
		if i := last[e.Name]; i != k && e.Name != "" {
			rs = append(rs, rules.NewFieldResult(fmt.Sprintf("env[%d]", k), "remove the entry", "%q is set again in env[%d], which takes precedence", redactedName(e), i)...)
		}
	}
	return rs
}

// checkEmptyVariable reports empty variables. It ignores proxy variables, because they are often
// empty on purpose.
func checkEmptyVariable(p *config.Provider) (rs []rules.Result) {
	for k, e := range p.Env {
		if name := strings.ToLower(e.Name); e.Name != "" && e.Value.IsZero() && !strings.HasSuffix(name, "_proxy") {
			rs = append(rs, rules.NewFieldResult(fmt.Sprintf("env[%d]", k), "", "%q is empty, which overrides the value from the kubelet's environment", redactedName(e))...)
		}
	}
	return rs
}

func checkSecretInEnv(p *config.Provider) (rs []rules.Result) {
	for k, e := range p.Env {
		if isSecretName(redactedName(e)) && isPossibleSecret(e.Value.Reveal()) || passwordInURL(e.Value.Reveal()) {
			rs = append(rs, rules.NewFieldResult(fmt.Sprintf("env[%d]", k), "store it in a file that only root can read", "%q contains a secret that every user with read access to this file can see", redactedName(e))...)
		}
	}
	return rs
}

// redactedName returns the variable's name up to an equals sign. The text after the sign was
// probably meant as the value, so it can be a secret.
func redactedName(v config.EnvVar) string {
	name, _, _ := strings.Cut(v.Name, "=")
	return excerpt.TruncateValue(name)
}

// isSecretName reports whether the name of a variable or flag suggests a secret. It is true for
// AWS_SECRET_ACCESS_KEY, and false for AWS_ACCESS_KEY_ID and TOKEN_FILE.
func isSecretName(name string) bool {
	words := append([]string{"", ""}, splitWords(name)...)
	switch kind, last := words[len(words)-2], words[len(words)-1]; last {
	case "password", "passwd", "secret", "token", "apikey", "passphrase":
		return true
	case "key":
		return slices.Contains([]string{"access", "api", "private", "secret"}, kind)
	}
	return false
}

// isPossibleSecret reports whether v could be a secret. It returns false for booleans, paths and
// flags.
func isPossibleSecret(v string) bool {
	switch strings.ToLower(v) {
	case "", "true", "false", "yes", "no", "0", "1":
		return false
	}
	return !strings.HasPrefix(v, "/") && !strings.HasPrefix(v, "-") && !strings.HasPrefix(v, "file:")
}

func passwordInURL(v string) bool {
	u, err := url.Parse(v)
	if err != nil || !strings.Contains(v, "://") {
		return false
	}
	_, has := u.User.Password() // works if User is nil
	return has
}

// splitWords splits a name into lower-case words.
func splitWords(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

const metadataServerIP = "169.254.169.254"

// checkProxiedMetadata reports a proxy that also receives requests to the metadata server. It
// checks only HTTP_PROXY, because metadata servers use plain HTTP.
func checkProxiedMetadata(p *config.Provider) []rules.Result {
	proxy, exempt := -1, false
	for k, e := range p.Env {
		switch {
		case strings.EqualFold(e.Name, "HTTP_PROXY") && !e.Value.IsZero():
			proxy = k
		case strings.EqualFold(e.Name, "NO_PROXY"):
			v := e.Value.Reveal()
			exempt = exempt || v == "*" || strings.Contains(v, metadataServerIP) || strings.Contains(v, "169.254.0.0/16")
		}
	}
	if proxy < 0 || exempt {
		return nil
	}
	return rules.NewFieldResult(fmt.Sprintf("env[%d]", proxy), "add "+metadataServerIP+" to NO_PROXY", "%q also sends metadata server requests through the proxy, unless NO_PROXY includes %s", redactedName(p.Env[proxy]), metadataServerIP)
}
