// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/plugin"
)

// providerRules are the rules for one provider. None prints a value of env or
// args.
func providerRules() []rule[*config.Provider] {
	return append(settingRules(), []rule[*config.Provider]{
		{"docker-helper-name", finding.SeverityError, ruleDockerHelperName},
		{"exe-suffix", finding.SeverityInfo, ruleExeSuffix},
		{"hidden-name", finding.SeverityInfo, ruleHiddenName},
		{"duplicate-pattern", finding.SeverityInfo, ruleDuplicatePattern},
		{"shadowed-pattern", finding.SeverityInfo, ruleShadowedPattern},
		{"wildcard-ladder", finding.SeverityInfo, ruleWildcardLadder},
		{"zero-cache", finding.SeverityInfo, ruleZeroCache},
		{"short-cache", finding.SeverityWarning, ruleShortCache},
		{"long-cache", finding.SeverityWarning, ruleLongCache},
		{"old-plugin-version", finding.SeverityWarning, ruleOldPluginVersion},
		{"echoed-token", finding.SeverityWarning, ruleEchoedToken},
		{"api-server-audience", finding.SeverityWarning, ruleAPIServerAudience},
		{"required-annotation", finding.SeverityInfo, ruleRequiredAnnotation},
		{"other-hosts", finding.SeverityWarning, ruleOtherHosts},
		{"mirror-origin", finding.SeverityWarning, ruleMirrorOrigin},
		{"mirror-not-asked", finding.SeverityWarning, ruleMirrorNotAsked},
	}...)
}

func ruleDockerHelperName(p *config.Provider) []remark {
	if !strings.HasPrefix(p.Name, "docker-credential-") {
		return nil
	}
	return within(config.FieldPath{"name"}, "use the vendor's kubelet plugin", "%q is named like a docker credential helper, which uses a different protocol from kubelet plugins", excerpt.Value(p.Name))
}

func ruleExeSuffix(p *config.Provider) []remark {
	name := excerpt.Value(p.Name)
	if ext := filepath.Ext(name); !strings.EqualFold(ext, ".exe") {
		return nil
	}
	return within(config.FieldPath{"name"}, name[:len(name)-len(".exe")], "%q: omit .exe, which Windows does not require and other systems do not use", name)
}

func ruleHiddenName(p *config.Provider) []remark {
	if !strings.HasPrefix(p.Name, ".") || config.CheckName(p.Name) != nil {
		return nil
	}
	return within(config.FieldPath{"name"}, strings.TrimLeft(excerpt.Value(p.Name), "."), "%q begins with a dot, so directory listings hide it", excerpt.Value(p.Name))
}

func ruleDuplicatePattern(p *config.Provider) (rs []remark) {
	first := map[string]int{}
	for k, s := range p.MatchImages {
		if i, seen := first[s]; seen {
			rs = and(rs, within(config.FieldPath{"matchImages", k}, "remove the duplicate", "%q is already in matchImages[%d]", excerpt.Value(excerpt.Pattern(s)), i)...)
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
	return within(config.FieldPath{"defaultCacheDuration"}, "", "0 disables caching, so the plugin runs for each pull unless its response sets cacheDuration")
}

func ruleShortCache(p *config.Provider) []remark {
	d := p.DefaultCacheDuration
	if d == nil || *d <= 0 || *d >= time.Second {
		return nil
	}
	return within(config.FieldPath{"defaultCacheDuration"}, `set a duration with a unit, such as "12h"`, "%s is too short to cache anything, so the plugin runs for each pull", *d)
}

func ruleLongCache(p *config.Provider) []remark {
	d := p.DefaultCacheDuration
	if d == nil || *d <= 24*time.Hour {
		return nil
	}
	return within(config.FieldPath{"defaultCacheDuration"}, "12h", "%s exceeds the lifetime of most registry credentials, and the kubelet keeps a cache entry even after the registry rejects the credential", *d)
}

func ruleOldPluginVersion(p *config.Provider) []remark {
	if p.APIVersion != plugin.V1Alpha1 && p.APIVersion != plugin.V1Beta1 {
		return nil
	}
	return within(config.FieldPath{"apiVersion"}, plugin.V1, "%s is superseded: newer plugins support only v1, which requires kubelet 1.26 or later", p.APIVersion)
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
		return within(field, string(config.CachePerToken), "without --config and --exchange-url, %s returns the token as the password and therefore requires cacheType Token", tokenProvider)
	case slices.ContainsFunc(append(p.Arguments(), p.Name), namesPassthrough):
		return within(field, string(config.CachePerToken), "this plugin seems to return the token as the password; if so, it requires cacheType Token")
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
	// CRI-O's plugin reads the pull secrets of the pod's namespace with the token.
	if p.TokenAttributes == nil || p.Name == "crio-credential-provider" {
		return nil
	}
	audience := p.TokenAttributes.ServiceAccountTokenAudience
	host := strings.TrimSuffix(strings.TrimPrefix(audience, "https://"), "/")
	if host != "kubernetes.default" && host != "kubernetes.default.svc" && host != "kubernetes.default.svc.cluster.local" {
		return nil
	}
	return within(config.FieldPath{"tokenAttributes", "serviceAccountTokenAudience"}, "set an audience specific to the registry", "%q is usually the API server's audience, so anyone who gets this token can act as the pod's service account", excerpt.Value(audience))
}

func ruleRequiredAnnotation(p *config.Provider) []remark {
	if p.TokenAttributes == nil || len(p.TokenAttributes.RequiredServiceAccountAnnotationKeys) == 0 {
		return nil
	}
	return within(config.FieldPath{"tokenAttributes", "requiredServiceAccountAnnotationKeys"}, "", "the kubelet silently skips this provider for pods whose service account lacks one of these annotations")
}
