// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/regcred/regcred/internal/diagnose"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// Validate returns an error for everything that the newest known kubelet rejects. Errors have
// type [*FieldError] and are joined with [errors.Join]. Validate returns nil if the kubelet
// would start. For a RegistryCredentialConfig, it reports what a
// [github.com/regcred/regcred.Keyring] cannot use. It does not check executables. Package
// [github.com/regcred/regcred/lint] does that.
func (c *Config) Validate() error { return c.ValidateFor(Target{}) }

// ValidateFor is like [Config.Validate], but for a given kubelet:
//
//   - Feature gates other than [FeatureGates] are ignored, unless they differ only in
//     case from one of these gates.
//   - If t.KubeletVersion is invalid, the error is not a [*FieldError]. A version newer
//     than all known versions is treated as the newest known version.
//   - If t.KubeletVersion is set, a RegistryCredentialConfig is rejected.
func (c *Config) ValidateFor(t Target) error {
	k, err := t.resolve()
	if err != nil {
		return err
	}
	v := &validator{c: c, kubelet: k, versionGiven: t.KubeletVersion != ""}
	v.checkRelease()
	if len(c.Providers) == 0 {
		v.errors.add(&FieldError{File: c.path, Path: "providers", Msg: noProvidersMessage})
	}
	c.reportDuplicateNames(&v.errors) // [Load] has not checked a Config that was created from Providers
	for i := range c.Providers {
		if v.errors.isFull() {
			break
		}
		switch p := &c.Providers[i]; {
		case !c.isOutOfTree(i):
			v.checkProvider(i, p)
		case !v.versionGiven:
			v.checkOutOfTree(i, p)
		case len(c.files) == 0:
			v.checkProvider(i, p) // the provider has no file, so checkRelease did not reject its kind
		}
	}
	return v.errors.joinSorted()
}

const noProvidersMessage = "missing: at least one provider is required"

// validator collects the errors that a kubelet reports
// (validateCredentialProviderConfig in pkg/credentialprovider/plugin/config.go).
type validator struct {
	c            *Config
	kubelet      kubelet
	versionGiven bool // the caller specified a kubelet version
	errors       fieldErrors
}

func (v *validator) addError(i int, value, msg string, path ...any) {
	if !v.errors.isFull() {
		v.errors.add(v.c.newFieldError(i, value, msg, path...))
	}
}

// checkRelease checks that the kubelet supports the features that the configuration files use.
func (v *validator) checkRelease() {
	k, c := v.kubelet, v.c
	for _, msg := range k.gateErrors() {
		v.errors.add(&FieldError{File: c.path, Msg: msg})
	}
	if msg := k.noProvidersReason(); msg != "" {
		v.errors.add(&FieldError{File: c.path, Msg: msg})
		return
	}
	if c.dir && k.minor < sinceDirectory {
		v.errors.add(&FieldError{File: c.path, Msg: k.unsupportedFeature("a configuration directory", sinceDirectory) + "; use a single file"})
	}
	for i := range c.files {
		f := c.files[i]
		since := apiVersionSince(configFileGroup, f.APIVersion)
		switch {
		case f.OutOfTree() && v.versionGiven && !v.errors.isFull():
			v.errors.add(f.Position("kind").newFieldError(f.Kind, "kubelets do not support this kind; run regcred convert"))
		case !f.OutOfTree() && k.minor < since:
			v.errors.add(f.Position("apiVersion").newFieldError(f.APIVersion, k.unsupportedFeature("this version of the file", since)+k.supportedVersion(configFileGroup)))
		}
	}
}

// checkBasics checks the rules that are the same in every kubelet.
func (v *validator) checkBasics(i int, p *Provider) {
	v.checkName(i, p)
	v.checkAPIVersion(i, p.APIVersion)
	v.checkPatterns(i, p, "the kubelet")
	switch d := p.DefaultCacheDuration; {
	case d == nil:
		v.addError(i, "", `required: set the default cache duration for responses that do not specify one, for example "12h"; "0s" disables caching`, "defaultCacheDuration")
	case *d < 0:
		v.addError(i, d.String(), "must not be negative", "defaultCacheDuration")
	}
}

func (v *validator) checkProvider(i int, p *Provider) {
	v.checkBasics(i, p)
	switch {
	case p.TokenAttributes != nil:
		v.checkTokenAttributes(i, p)
	case v.kubelet.minor < sinceTokenAttributes && v.c.hasField(i, "tokenAttributes"):
		// The kubelet rejects an unknown field even if it is null.
		v.addError(i, "", v.kubelet.noTokensReason(), "tokenAttributes")
	}
}

// checkOutOfTree checks whether a Keyring can use a provider of the out-of-tree proposal.
func (v *validator) checkOutOfTree(i int, p *Provider) {
	v.checkName(i, p)
	v.checkPatterns(i, p, "regcred")
	v.checkExtraArgs(i, p)
	if p.TokenAttributes != nil {
		v.checkTokenAttributes(i, p)
	}
}

func (v *validator) checkName(i int, p *Provider) {
	if err := CheckName(p.Name); err != nil {
		v.addError(i, p.Name, err.Error(), "name")
	}
}

// checkPatterns checks matchImages. host is the name of the program that matches the patterns,
// for messages.
func (v *validator) checkPatterns(i int, p *Provider, host string) {
	if len(p.MatchImages) == 0 {
		v.addError(i, "", "missing: at least one pattern is required", "matchImages")
	}
	for j, m := range p.MatchImages {
		if v.errors.isFull() {
			return
		}
		_, err := match.Parse(m)
		switch {
		case err == nil:
		case !location.IsValidBeforeKubelet136(m):
			v.addError(i, excerpt.RedactPattern(m), "invalid pattern for "+host+": "+patternProblem(m, err), "matchImages", j)
		case v.kubelet.minor >= sinceStrictColons:
			v.addError(i, excerpt.RedactPattern(m), v.kubelet.strictColonsError(), "matchImages", j)
		}
	}
}

// CheckName checks the name of a provider, which is also the file name of its plugin. The
// error does not contain the name.
func CheckName(name string) error {
	switch {
	case name == "":
		// The kubelet's validation accepts an empty name. But when the kubelet looks for the
		// executable, it finds a directory and exits.
		return errors.New("missing: set the plugin's file name")
	case name == "." || name == "..":
		return errors.New("must be the file name of the plugin, not a directory")
	case strings.ContainsAny(name, `/\`):
		return errors.New("must be a file name in the kubelet's --image-credential-provider-bin-dir, without slashes")
	case strings.Contains(name, " "):
		return errors.New("must not contain spaces: rename the plugin")
	}
	return nil
}

func patternProblem(pattern string, err error) string {
	if strings.Contains(pattern, "{{") {
		return diagnose.TemplateProblem
	}
	if excerpt.TruncateValue(pattern) != excerpt.RedactAddress(pattern) {
		return "contains characters that are not allowed in an image name"
	}
	return err.Error()
}

func (v *validator) checkAPIVersion(i int, version string) {
	since := apiVersionSince(execProtocolGroup, version)
	switch {
	case version == "":
		v.addError(i, "", "missing: set the plugin's protocol version, for example "+plugin.V1, "apiVersion")
	case since == 0:
		v.addError(i, version, fmt.Sprintf("unknown protocol version: must be %s, %s or %s", plugin.V1, plugin.V1Beta1, plugin.V1Alpha1), "apiVersion")
	case v.kubelet.minor < since:
		v.addError(i, version, v.kubelet.unsupportedFeature("this version of the protocol", since)+v.kubelet.supportedVersion(execProtocolGroup), "apiVersion")
	}
}

func (v *validator) checkTokenAttributes(i int, p *Provider) {
	t := p.TokenAttributes
	const field = "tokenAttributes"
	if msg := v.kubelet.noTokensReason(); msg != "" {
		v.addError(i, "", msg, field)
	}
	if p.APIVersion != plugin.V1 {
		v.addError(i, "", "requires the provider's apiVersion to be "+plugin.V1, field)
	}
	if t.ServiceAccountTokenAudience == "" {
		v.addError(i, "", "missing: set the token audience", field, "serviceAccountTokenAudience")
	}
	if t.RequireServiceAccount == nil {
		v.addError(i, "", "missing: set it to true to call the plugin only for pods with a service account, or to false to call it for all pods", field, "requireServiceAccount")
	} else if !*t.RequireServiceAccount && len(t.RequiredServiceAccountAnnotationKeys) > 0 {
		v.addError(i, "", "must be empty if requireServiceAccount is false", field, "requiredServiceAccountAnnotationKeys")
	}
	v.checkCacheType(i, t.CacheType)
	v.checkAnnotationKeys(i, t.RequiredServiceAccountAnnotationKeys, field, "requiredServiceAccountAnnotationKeys")
	v.checkAnnotationKeys(i, t.OptionalServiceAccountAnnotationKeys, field, "optionalServiceAccountAnnotationKeys")
	v.checkOverlap(i, t)
}

func (v *validator) checkCacheType(i int, t TokenCacheType) {
	at := []any{"tokenAttributes", "cacheType"}
	want := fmt.Sprintf("%s, or %s if the plugin returns either the token or a credential that expires no later than the token", CachePerServiceAccount, CachePerToken)
	switch {
	case v.kubelet.minor < sinceCacheType:
		if t != "" || v.c.hasField(i, at...) {
			v.addError(i, string(t), v.kubelet.unsupportedFeature("cacheType", sinceCacheType)+"; remove it", at...)
		}
	case t == "":
		v.addError(i, "", "missing: set "+want, at...)
	case t != CachePerServiceAccount && t != CachePerToken:
		v.addError(i, string(t), "must be "+want, at...)
	}
}

func (v *validator) checkAnnotationKeys(i int, keys []string, at ...any) {
	seen := make(map[string]bool, len(keys))
	for j, key := range keys {
		here := append(at[:len(at):len(at)], j)
		// kubelet: the prefix of an annotation key may contain upper case. The prefix of a
		// qualified name may not.
		if msg := qualifiedNameProblem(strings.ToLower(key)); msg != "" {
			v.addError(i, key, "invalid annotation key: "+msg, here...)
		}
		if seen[key] {
			v.addError(i, key, "is listed twice", here...)
		}
		seen[key] = true
	}
}

// checkOverlap reports annotation keys that are both required and optional.
func (v *validator) checkOverlap(i int, t *TokenAttributes) {
	required := make(map[string]bool, len(t.RequiredServiceAccountAnnotationKeys))
	for _, key := range t.RequiredServiceAccountAnnotationKeys {
		required[key] = true
	}
	for j, key := range t.OptionalServiceAccountAnnotationKeys {
		if required[key] {
			v.addError(i, key, "cannot be both required and optional: remove it from one list", "tokenAttributes", "optionalServiceAccountAnnotationKeys", j)
		}
	}
}
