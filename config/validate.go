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

// Validate returns everything that the newest known kubelet rejects, as [*FieldError]
// joined with [errors.Join]; nil if the kubelet starts. For a RegistryCredentialConfig it
// returns what a [github.com/regcred/regcred.Keyring] cannot run. It does not check
// executables: see package [github.com/regcred/regcred/lint].
func (c *Config) Validate() error { return c.ValidateFor(Target{}) }

// ValidateFor is [Config.Validate] for a given kubelet:
//
//   - Feature gates other than [FeatureGates] are ignored, unless they differ from one of
//     these only in case.
//   - An invalid version is an error, but not a [*FieldError]. A version newer than all
//     known ones is treated as the newest.
//   - If a version is given, a RegistryCredentialConfig is rejected.
func (c *Config) ValidateFor(t Target) error {
	k, err := t.kubelet()
	if err != nil {
		return err
	}
	v := &validation{c: c, kubelet: k, named: t.KubeletVersion != ""}
	v.release()
	if len(c.Providers) == 0 {
		v.list.add(&FieldError{File: c.path, Path: "providers", Msg: noProviders})
	}
	v.names()
	for i := range c.Providers {
		if v.list.full() {
			break
		}
		switch p := &c.Providers[i]; {
		case !c.outOfTree(i):
			v.provider(i, p)
		case !v.named:
			v.outOfTree(i, p)
		case len(c.files) == 0:
			v.provider(i, p) // no file, so its kind was not rejected above
		}
	}
	return v.list.join()
}

const noProviders = "missing: at least one provider is required"

// validation collects the errors of a kubelet (validateCredentialProviderConfig in
// pkg/credentialprovider/plugin/config.go).
type validation struct {
	c       *Config
	kubelet kubelet
	named   bool // a kubelet version was given
	list    problems
}

// report adds an error about a field of provider i.
func (v *validation) report(i int, value, msg string, path ...any) {
	if !v.list.full() {
		v.list.add(v.c.problem(i, value, msg, path...))
	}
}

// release checks the features that the kubelet needs for the files.
func (v *validation) release() {
	k, c := v.kubelet, v.c
	for _, msg := range k.gateErrors() {
		v.list.add(&FieldError{File: c.path, Msg: msg})
	}
	if msg := k.missing(); msg != "" {
		v.list.add(&FieldError{File: c.path, Msg: msg})
		return
	}
	if c.dir && k.minor < sinceDirectory {
		v.list.add(&FieldError{File: c.path, Msg: k.unknown("a configuration directory", sinceDirectory) + "; use a single file"})
	}
	for i := range c.files {
		f := c.files[i]
		if f.OutOfTree() {
			v.kind(f)
			continue
		}
		if since := since(configGroup, f.APIVersion); k.minor < since {
			v.list.add(f.Position("apiVersion").problem(f.APIVersion, k.unknown("this version of the file", since)+k.instead(configGroup)))
		}
	}
}

// kind rejects a RegistryCredentialConfig if a kubelet version was given.
func (v *validation) kind(f *File) {
	if v.named && !v.list.full() {
		v.list.add(f.Position("kind").problem(f.Kind, "kubelets do not support this kind; run regcred convert"))
	}
}

// names checks that names are unique, for a Config that [Load] did not check.
func (v *validation) names() {
	v.c.duplicateNames(&v.list)
}

// basics checks the rules of every kubelet.
func (v *validation) basics(i int, p *Provider) {
	v.name(i, p)
	v.apiVersion(i, p.APIVersion)
	v.patterns(i, p, "the kubelet")
	switch d := p.DefaultCacheDuration; {
	case d == nil:
		v.report(i, "", `required: set the default cache duration for responses that do not specify one, for example "12h"; "0s" disables caching`, "defaultCacheDuration")
	case *d < 0:
		v.report(i, d.String(), "must not be negative", "defaultCacheDuration")
	}
}

func (v *validation) provider(i int, p *Provider) {
	v.basics(i, p)
	switch {
	case p.TokenAttributes != nil:
		v.tokenAttributes(i, p)
	case v.kubelet.minor < sinceTokenAttributes && v.c.has(i, "tokenAttributes"):
		// The kubelet rejects an unknown field even if it is null.
		v.report(i, "", v.kubelet.missingTokens(), "tokenAttributes")
	}
}

// outOfTree checks a provider of the out-of-tree proposal for a keyring.
func (v *validation) outOfTree(i int, p *Provider) {
	v.name(i, p)
	v.patterns(i, p, "regcred")
	v.extraArgs(i, p)
	if p.TokenAttributes != nil {
		v.tokenAttributes(i, p)
	}
}

func (v *validation) name(i int, p *Provider) {
	if err := CheckName(p.Name); err != nil {
		v.report(i, p.Name, err.Error(), "name")
	}
}

// patterns checks matchImages. host is the program that matches them.
func (v *validation) patterns(i int, p *Provider, host string) {
	if len(p.MatchImages) == 0 {
		v.report(i, "", "missing: at least one pattern is required", "matchImages")
	}
	for j, m := range p.MatchImages {
		if v.list.full() {
			return
		}
		_, err := match.Parse(m)
		switch {
		case err == nil:
		case !location.ParsesBefore136(m):
			v.report(i, excerpt.Pattern(m), "invalid pattern for "+host+": "+patternProblem(m, err), "matchImages", j)
		case v.kubelet.minor >= sinceStrictColons:
			v.report(i, excerpt.Pattern(m), v.kubelet.strictColons(), "matchImages", j)
		}
	}
}

// CheckName checks the name of a provider, which is also the file name of its plugin. The
// error does not contain the name.
func CheckName(name string) error {
	switch {
	case name == "":
		// The kubelet's validation accepts it; then the kubelet finds a directory instead
		// of the executable, and exits.
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

// patternProblem returns why a pattern is invalid.
func patternProblem(pattern string, err error) string {
	if strings.Contains(pattern, "{{") {
		return diagnose.Template
	}
	if excerpt.Value(pattern) != excerpt.Address(pattern) {
		return "contains characters that are not allowed in an image name"
	}
	return err.Error()
}

func (v *validation) apiVersion(i int, version string) {
	since := since(protocolGroup, version)
	switch {
	case version == "":
		v.report(i, "", "missing: set the plugin's protocol version, for example "+plugin.V1, "apiVersion")
	case since == 0:
		v.report(i, version, fmt.Sprintf("unknown protocol version: must be %s, %s or %s", plugin.V1, plugin.V1Beta1, plugin.V1Alpha1), "apiVersion")
	case v.kubelet.minor < since:
		v.report(i, version, v.kubelet.unknown("this version of the protocol", since)+v.kubelet.instead(protocolGroup), "apiVersion")
	}
}

func (v *validation) tokenAttributes(i int, p *Provider) {
	t := p.TokenAttributes
	const field = "tokenAttributes"
	if msg := v.kubelet.missingTokens(); msg != "" {
		v.report(i, "", msg, field)
	}
	if p.APIVersion != plugin.V1 {
		v.report(i, "", "requires the provider's apiVersion to be "+plugin.V1, field)
	}
	if t.ServiceAccountTokenAudience == "" {
		v.report(i, "", "missing: set the token audience", field, "serviceAccountTokenAudience")
	}
	if t.RequireServiceAccount == nil {
		v.report(i, "", "missing: set it to true to call the plugin only for pods with a service account, or to false to call it for all pods", field, "requireServiceAccount")
	} else if !*t.RequireServiceAccount && len(t.RequiredServiceAccountAnnotationKeys) > 0 {
		v.report(i, "", "must be empty if requireServiceAccount is false", field, "requiredServiceAccountAnnotationKeys")
	}
	v.cacheType(i, t.CacheType)
	v.annotationKeys(i, t.RequiredServiceAccountAnnotationKeys, field, "requiredServiceAccountAnnotationKeys")
	v.annotationKeys(i, t.OptionalServiceAccountAnnotationKeys, field, "optionalServiceAccountAnnotationKeys")
	v.inBoth(i, t)
}

func (v *validation) cacheType(i int, t TokenCacheType) {
	at := []any{"tokenAttributes", "cacheType"}
	want := fmt.Sprintf("%s, or %s if the plugin returns either the token or a credential that expires no later than the token", CachePerServiceAccount, CachePerToken)
	switch {
	case v.kubelet.minor < sinceCacheType:
		if t != "" || v.c.has(i, at...) {
			v.report(i, string(t), v.kubelet.unknown("cacheType", sinceCacheType)+"; remove it", at...)
		}
	case t == "":
		v.report(i, "", "missing: set "+want, at...)
	case t != CachePerServiceAccount && t != CachePerToken:
		v.report(i, string(t), "must be "+want, at...)
	}
}

// annotationKeys checks one list of annotation keys.
func (v *validation) annotationKeys(i int, keys []string, at ...any) {
	seen := make(map[string]bool, len(keys))
	for j, key := range keys {
		here := append(at[:len(at):len(at)], j)
		// kubelet: the prefix of an annotation key may contain upper case, unlike a qualified
		// name's.
		if msg := qualifiedNameProblem(strings.ToLower(key)); msg != "" {
			v.report(i, key, "invalid annotation key: "+msg, here...)
		}
		if seen[key] {
			v.report(i, key, "is listed twice", here...)
		}
		seen[key] = true
	}
}

// inBoth reports annotation keys that are both required and optional.
func (v *validation) inBoth(i int, t *TokenAttributes) {
	required := make(map[string]bool, len(t.RequiredServiceAccountAnnotationKeys))
	for _, key := range t.RequiredServiceAccountAnnotationKeys {
		required[key] = true
	}
	for j, key := range t.OptionalServiceAccountAnnotationKeys {
		if required[key] {
			v.report(i, key, "cannot be both required and optional: remove it from one list", "tokenAttributes", "optionalServiceAccountAnnotationKeys", j)
		}
	}
}
