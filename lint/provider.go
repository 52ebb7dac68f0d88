// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/lint/internal/rules"
	"github.com/regcred/regcred/plugin"
)

// providerRules returns the rules for a provider. Their messages contain no values from
// env or args.
func providerRules() []rules.Rule[*config.Provider] {
	return append(settingRules(), []rules.Rule[*config.Provider]{
		rules.ErrorRule("docker-helper-name", checkDockerHelperName),
		rules.InfoRule("provider-name", checkExeSuffix),
		rules.InfoRule("provider-name", checkHiddenName),
		rules.InfoRule("duplicate-pattern", checkDuplicatePattern),
		rules.InfoRule("duplicate-pattern", checkCoveredPattern),
		rules.InfoRule("open-domain", checkCatchAll),
		rules.InfoRule("zero-cache", checkZeroCache),
		rules.WarningRule("cache-duration", checkCacheDuration),
		rules.WarningRule("old-api-version", checkPluginVersion),
		rules.WarningRule("echoed-token", checkEchoedToken),
		rules.WarningRule("api-server-audience", checkAPIServerAudience),
		rules.InfoRule("required-annotation", checkRequiredAnnotation),
		rules.WarningRule("other-hosts", checkOtherHosts),
		rules.WarningRule("mirror-origin", checkMirrorOrigin),
		rules.WarningRule("mirror-not-asked", checkUnmatchedMirror),
	}...)
}

func checkDockerHelperName(p *config.Provider) []rules.Result {
	return rules.ResultIf(strings.HasPrefix(p.Name, "docker-credential-"),
		rules.NewFieldResult("name", "use the vendor's kubelet plugin", "%q is named like a docker credential helper, which uses a different protocol from kubelet plugins", excerpt.TruncateValue(p.Name)))
}

func checkExeSuffix(p *config.Provider) []rules.Result {
	name := excerpt.TruncateValue(p.Name)
	ext := filepath.Ext(name)
	return rules.ResultIf(strings.EqualFold(ext, ".exe"),
		rules.NewFieldResult("name", strings.TrimSuffix(name, ext), "%q: omit .exe, which Windows does not require and other systems do not use", name))
}

func checkHiddenName(p *config.Provider) []rules.Result {
	return rules.ResultIf(strings.HasPrefix(p.Name, ".") && config.CheckName(p.Name) == nil,
		rules.NewFieldResult("name", strings.TrimLeft(excerpt.TruncateValue(p.Name), "."), "%q begins with a dot, so directory listings hide it", excerpt.TruncateValue(p.Name)))
}

func checkZeroCache(p *config.Provider) []rules.Result {
	// The out-of-tree RegistryCredentialConfig has no default duration to change.
	return rules.ResultIf(p.DefaultCacheDuration != nil && *p.DefaultCacheDuration == 0 && p.APIVersion != plugin.OutOfTree,
		rules.NewFieldResult("defaultCacheDuration", "", "0 disables caching, so the plugin runs for each pull unless its response sets cacheDuration"))
}

func checkCacheDuration(p *config.Provider) []rules.Result {
	switch d := p.DefaultCacheDuration; {
	case d == nil || *d <= 0:
		return nil
	case *d < time.Second:
		return rules.NewFieldResult("defaultCacheDuration", `set a duration with a unit, such as "12h"`, "%s is too short to cache anything, so the plugin runs for each pull", *d)
	case *d > 24*time.Hour:
		return rules.NewFieldResult("defaultCacheDuration", "12h", "%s exceeds the lifetime of most registry credentials, and the kubelet keeps a cache entry even after the registry rejects the credential", *d)
	}
	return nil
}

func checkPluginVersion(p *config.Provider) []rules.Result {
	return rules.ResultIf(p.APIVersion == plugin.V1Alpha1 || p.APIVersion == plugin.V1Beta1,
		rules.NewFieldResult("apiVersion", plugin.V1, "%s is superseded: newer plugins support only v1, which requires kubelet 1.26 or later", p.APIVersion))
}

// checkEchoedToken reports plugins that return the service account token as the password but are
// cached per service account. It knows whether regcred's token plugin returns the token. For other
// plugins, it guesses from the name and the arguments.
func checkEchoedToken(p *config.Provider) []rules.Result {
	if p.TokenAttributes == nil || p.TokenAttributes.CacheType != config.CachePerServiceAccount {
		return nil
	}
	field := "tokenAttributes.cacheType"
	switch {
	case isTokenProvider(p) && (hasFlag(p, "--config") || hasFlag(p, "--exchange-url")):
		return nil // the plugin exchanges the token
	case isTokenProvider(p):
		return rules.NewFieldResult(field, string(config.CachePerToken), "without --config and --exchange-url, %s returns the token as the password and therefore requires cacheType Token", tokenProviderName)
	case slices.ContainsFunc(append(p.Arguments(), p.Name), isPassthroughName):
		return rules.NewFieldResult(field, string(config.CachePerToken), "this plugin seems to return the token as the password; if so, it requires cacheType Token")
	}
	return nil
}

const tokenProviderName = "token-credential-provider" // see cmd/token-credential-provider

// isTokenProvider reports whether p is regcred's token plugin. A third-party plugin can have a name
// such as zot-token-credential-provider, and so can a symlink to regcred's plugin. For such a name,
// p must also have --registry, a flag of regcred's plugin.
func isTokenProvider(p *config.Provider) bool {
	name := strings.TrimSuffix(p.Name, ".exe")
	return name == tokenProviderName || strings.HasSuffix(name, "-"+tokenProviderName) && hasFlag(p, "--registry")
}

func hasFlag(p *config.Provider, flag string) bool { return len(flagValues(p, flag)) > 0 }

func isPassthroughName(s string) bool {
	ws := splitWords(s)
	return slices.Contains(ws, "passthrough") || slices.Contains(ws, "echo") || strings.Contains(strings.Join(ws, " "), "pass through")
}

func checkAPIServerAudience(p *config.Provider) []rules.Result {
	// CRI-O's plugin sends the token to the API server, to read the pull secrets in the pod's
	// namespace.
	if p.TokenAttributes == nil || p.Name == "crio-credential-provider" {
		return nil
	}
	audience := p.TokenAttributes.ServiceAccountTokenAudience
	host := strings.TrimSuffix(strings.TrimPrefix(audience, "https://"), "/")
	return rules.ResultIf(host == "kubernetes.default" || host == "kubernetes.default.svc" || host == "kubernetes.default.svc.cluster.local",
		rules.NewFieldResult("tokenAttributes.serviceAccountTokenAudience", "set an audience specific to the registry", "%q is usually the API server's audience, so anyone who gets this token can act as the pod's service account", excerpt.TruncateValue(audience)))
}

func checkRequiredAnnotation(p *config.Provider) []rules.Result {
	return rules.ResultIf(p.TokenAttributes != nil && len(p.TokenAttributes.RequiredServiceAccountAnnotationKeys) > 0,
		rules.NewFieldResult("tokenAttributes.requiredServiceAccountAnnotationKeys", "", "the kubelet silently skips this provider for pods whose service account lacks one of these annotations"))
}
