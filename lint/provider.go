// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/plugin"
)

// providerRules are the rules for one provider. None prints a value of env or
// args.
func providerRules() []rule[*config.Provider] {
	return []rule[*config.Provider]{
		{"docker-helper-name", SeverityError, ruleDockerHelperName},
		{"exe-suffix", SeverityInfo, ruleExeSuffix},
		{"hidden-name", SeverityInfo, ruleHiddenName},
		{"duplicate-pattern", SeverityInfo, ruleDuplicatePattern},
		{"shadowed-pattern", SeverityInfo, ruleShadowedPattern},
		{"zero-cache", SeverityInfo, ruleZeroCache},
		{"short-cache", SeverityWarning, ruleShortCache},
		{"long-cache", SeverityWarning, ruleLongCache},
		{"old-plugin-version", SeverityWarning, ruleOldPluginVersion},
		{"joined-args", SeverityWarning, ruleJoinedArgs},
		{"secret-in-args", SeverityWarning, ruleSecretInArgs},
		{"env-name", SeverityError, ruleEnvName},
		{"duplicate-env", SeverityWarning, ruleDuplicateEnv},
		{"secret-in-env", SeverityWarning, ruleSecretInEnv},
		{"unexpanded-variable", SeverityWarning, ruleUnexpandedVariable},
		{"proxied-metadata", SeverityWarning, ruleProxiedMetadata},
		{"echoed-token", SeverityWarning, ruleEchoedToken},
		{"api-server-audience", SeverityWarning, ruleAPIServerAudience},
		{"required-annotation", SeverityInfo, ruleRequiredAnnotation},
		{"other-hosts", SeverityWarning, ruleOtherHosts},
		{"mirror-origin", SeverityWarning, ruleMirrorOrigin},
		{"mirror-not-asked", SeverityWarning, ruleMirrorNotAsked},
	}
}

func ruleDockerHelperName(p *config.Provider) []remark {
	if !strings.HasPrefix(p.Name, "docker-credential-") {
		return nil
	}
	return within(config.FieldPath{"name"}, "use the vendor's kubelet plugin", "%q is by its name a docker credential helper, which speaks another protocol than kubelet plugins", excerpt.Value(p.Name))
}

func ruleExeSuffix(p *config.Provider) []remark {
	name := excerpt.Value(p.Name)
	if ext := filepath.Ext(name); !strings.EqualFold(ext, ".exe") {
		return nil
	}
	return within(config.FieldPath{"name"}, name[:len(name)-len(".exe")], "%q: Windows finds the file without .exe too, and other systems have none with it", name)
}

func ruleHiddenName(p *config.Provider) []remark {
	if !strings.HasPrefix(p.Name, ".") || config.CheckName(p.Name) != nil {
		return nil
	}
	return within(config.FieldPath{"name"}, strings.TrimLeft(excerpt.Value(p.Name), "."), "%q is hidden in listings of the directory", excerpt.Value(p.Name))
}

func ruleDuplicatePattern(p *config.Provider) (rs []remark) {
	first := map[string]int{}
	for k, s := range p.MatchImages {
		if i, seen := first[s]; seen {
			rs = and(rs, within(config.FieldPath{"matchImages", k}, "remove it", "%q is already in matchImages[%d]", excerpt.Value(excerpt.Pattern(s)), i)...)
			continue
		}
		first[s] = k
	}
	return rs
}

func ruleZeroCache(p *config.Provider) []remark {
	// The predecessor has no default that could be changed.
	if p.DefaultCacheDuration == nil || *p.DefaultCacheDuration != 0 || p.Predecessor() {
		return nil
	}
	return within(config.FieldPath{"defaultCacheDuration"}, "", "0 means that the plugin runs for each pull, unless its answer has a cacheDuration")
}

func ruleShortCache(p *config.Provider) []remark {
	d := p.DefaultCacheDuration
	if d == nil || *d <= 0 || *d >= time.Second {
		return nil
	}
	return within(config.FieldPath{"defaultCacheDuration"}, `write the unit that is meant, such as "12h"`, "%s is too short to cache anything; is the unit right?", *d)
}

func ruleLongCache(p *config.Provider) []remark {
	d := p.DefaultCacheDuration
	if d == nil || *d <= 24*time.Hour {
		return nil
	}
	return within(config.FieldPath{"defaultCacheDuration"}, "12h", "%s outlives the credentials of most registries, and a kubelet keeps an entry even after the registry has refused it", *d)
}

func ruleOldPluginVersion(p *config.Provider) []remark {
	if p.APIVersion != plugin.V1Alpha1 && p.APIVersion != plugin.V1Beta1 {
		return nil
	}
	return within(config.FieldPath{"apiVersion"}, plugin.V1, "%s is superseded: the plugin has to answer in the same version, and newer plugins know v1 only, which kubelets speak since 1.26", p.APIVersion)
}

// Compiled once, not for each of many providers.
var (
	joinedArgs = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\S+\s+--?[A-Za-z]`) })
	variables  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\$\{[A-Za-z_]\w*\}|\$\([A-Za-z_]\w*\)`)
	})
)

func ruleJoinedArgs(p *config.Provider) (rs []remark) {
	for k, a := range p.Arguments() {
		command := k > 0 && p.Args[k-1].Reveal() == "-c" // of a shell, which does split it
		if joinedArgs().MatchString(a) && !command {
			rs = and(rs, within(config.FieldPath{"args", k}, "write each argument as an item of its own", "this is one argument with blanks in it: nothing splits it")...)
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
			rs = and(rs, within(config.FieldPath{"args", k}, "let the plugin read it from a file that only root can read", "this looks like a secret, which everybody sees in the list of processes")...)
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
			rs = and(rs, within(at, "", "a variable without a name does not reach the plugin")...)
		case i >= 0 && e.Name[i] == '=':
			rs = and(rs, within(at, "write what follows the = as the value", "a name with = in it sets another variable: the one before the first =")...)
		case i >= 0 || strings.Contains(e.Value.Reveal(), "\x00"):
			rs = and(rs, within(at, "", "a NUL in a variable keeps the plugin from being started")...)
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
			rs = and(rs, within(config.FieldPath{"env", k}, "remove it", "%q is set again in env[%d], which wins", shownName(e), i)...)
		}
	}
	return rs
}

func ruleSecretInEnv(p *config.Provider) (rs []remark) {
	for k, e := range p.Env {
		if secretName(shownName(e)) && secretValue(e.Value.Reveal()) || urlPassword(e.Value.Reveal()) {
			rs = and(rs, within(config.FieldPath{"env", k}, "let the plugin read it from a file that only root can read", "%q holds a secret, which all who can read this file can read", shownName(e))...)
		}
	}
	return rs
}

// shown is the name of v as far as a message shows it. What follows an equals
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

func ruleUnexpandedVariable(p *config.Provider) (rs []remark) {
	for k, a := range p.Arguments() {
		if variables().MatchString(a) {
			rs = and(rs, within(config.FieldPath{"args", k}, "write the value", "nothing expands the variable in this argument")...)
		}
	}
	for k, e := range p.Env {
		if variables().MatchString(e.Value.Reveal()) {
			rs = and(rs, within(config.FieldPath{"env", k, "value"}, "write the value", "nothing expands the variable in the value of %q", shownName(e))...)
		}
	}
	return rs
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
	return within(config.FieldPath{"env", proxy}, "add NO_PROXY with "+metadataAddress, "%q also sends requests to the cloud's metadata server through the proxy, unless NO_PROXY names %s", shownName(p.Env[proxy]), metadataAddress)
}

// ruleEchoedToken knows this repository's own plugin, and goes by names with
// others: what a plugin returns cannot be known here.
func ruleEchoedToken(p *config.Provider) []remark {
	if p.TokenAttributes == nil || p.TokenAttributes.CacheType != config.CachePerServiceAccount {
		return nil
	}
	field := config.FieldPath{"tokenAttributes", "cacheType"}
	switch {
	case isTokenProvider(p):
		if exchangesToken(p) {
			return nil
		}
		return within(field, string(config.CachePerToken), "without --config and --exchange-url, %s returns the token itself as the password, which is refused unless cacheType is Token", tokenProvider)
	case slices.ContainsFunc(append(p.Arguments(), p.Name), namesPassthrough):
		return within(field, string(config.CachePerToken), "a plugin that returns the token itself as the password, as this one seems to, is refused unless cacheType is Token")
	}
	return nil
}

// tokenProvider is the plugin of cmd/token-credential-provider.
const tokenProvider = "token-credential-provider"

// isTokenProvider reports whether p is that plugin, by its name or by a name
// such as zot-token-credential-provider of a link to it. The latter may be
// another's plugin, unless it is given one of that plugin's flags.
func isTokenProvider(p *config.Provider) bool {
	name := strings.TrimSuffix(p.Name, ".exe")
	return name == tokenProvider || strings.HasSuffix(name, "-"+tokenProvider) && hasFlag(p, "--registry")
}

// exchangesToken reports whether the plugin is told to exchange the token: its
// other mode is to pass it through.
func exchangesToken(p *config.Provider) bool {
	return hasFlag(p, "--config") || hasFlag(p, "--exchange-url")
}

func hasFlag(p *config.Provider, flag string) bool { return len(flagValues(p, flag)) > 0 }

func namesPassthrough(s string) bool {
	ws := words(s)
	return slices.Contains(ws, "passthrough") || slices.Contains(ws, "echo") || strings.Contains(strings.Join(ws, " "), "pass through")
}

func ruleAPIServerAudience(p *config.Provider) []remark {
	if p.TokenAttributes == nil {
		return nil
	}
	audience := p.TokenAttributes.ServiceAccountTokenAudience
	host := strings.TrimSuffix(strings.TrimPrefix(audience, "https://"), "/")
	if host != "kubernetes.default" && host != "kubernetes.default.svc" && host != "kubernetes.default.svc.cluster.local" {
		return nil
	}
	return within(config.FieldPath{"tokenAttributes", "serviceAccountTokenAudience"}, "an audience of the registry's own", "%q is usually the audience of the API server: whoever gets this token can act as the pod's service account", excerpt.Value(audience))
}

func ruleRequiredAnnotation(p *config.Provider) []remark {
	if p.TokenAttributes == nil || len(p.TokenAttributes.RequiredServiceAccountAnnotationKeys) == 0 {
		return nil
	}
	return within(config.FieldPath{"tokenAttributes", "requiredServiceAccountAnnotationKeys"}, "", "the provider is skipped, without a line in the kubelet's log at its usual level, for pods whose service account lacks one of these annotations")
}
