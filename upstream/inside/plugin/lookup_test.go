// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
)

// pod is the pod of a lookup. Its namespace is "team", and its UID depends on its name.
type pod struct{ name, account string }

// lookupCall is a lookup in a test case and its expected result.
type lookupCall struct {
	image string // "" means "registry.example/app"
	pod   pod
	want  []string // expected result of found
	runs  int      // number of runs of all executables so far
}

// lookupCase is a configuration and a series of lookups.
type lookupCase struct {
	name    string
	covers  []string // names of the kubelet tests that this case covers
	list    []provider
	server  lookupSettings
	gateOff bool // turn the feature gate off after the provider is registered
	steps   []lookupCall
	says    string // text in the error of the last step, for regcred only
	request string // expected request of the first run
}

const (
	provide = "Test_ProvideWithCoordinates/"
	cachedGroup  = "Test_getCachedCredentials"
	decodeStage  = "Test_decodeResponse/"
	encodeStage  = "Test_encodeRequest/"
	keys    = "Test_CacheKeyGeneration/"
	severalProviders = "TestExternalCredentialProviderKeyringLookupWithProviders/"
	newKeyringTest = "TestNewExternalCredentialProviderDockerKeyring/"
)

var (
	testPod = pod{"web", "builder"}
	userCredential    = []string{"user of p"}
	serviceAccountTests   = []string{"user of p for team/builder uid of builder"}
	noTests    = []string{}
	configWithCacheType  = func(cacheType string) string {
		return tokenAttributesYAML("registry.example", cacheType, "true", "[a.example/x]", "[a.example/y]")
	}
	annotatedAccount = map[string]string{"a.example/x": "1", "a.example/y": "2", "a.example/z": "3"}
)

// withResponseText returns p with a text in its response replaced.
func withResponseText(p provider, old, new string) provider {
	text := p.executable()
	_, text, _ = strings.Cut(text, "<<'END'\n")
	p.answer = strings.Replace(strings.TrimSuffix(text, "\nEND\n"), old, new, 1)
	return p
}

func lookupCases() []lookupCase {
	once := []lookupCall{{want: userCredential, runs: 1}}
	list := []lookupCase{
		{name: "host", covers: []string{provide + "exact image match, with Registry cache key", severalProviders + "single provider with config"}, list: []provider{{scope: "Registry"}}, steps: once},
		{name: "path", covers: []string{provide + "exact image match, with Image cache key"}, list: []provider{{match: "[registry.example/app]", key: "registry.example/app"}}, steps: []lookupCall{{want: userCredential, runs: 1}, {image: "registry.example/other", want: noTests, runs: 1}}},
		{name: "bare host", covers: []string{provide + "exact image match, with Global cache key"}, list: []provider{{scope: "Global"}}, steps: []lookupCall{{image: "registry.example", want: userCredential, runs: 1}}},
		{name: "glob with a port", covers: []string{provide + "wild card image match, with Registry cache key"}, list: []provider{{match: "['*.example:8080']", key: "*.example:8080", scope: "Registry"}}, steps: []lookupCall{{image: "registry.example:8080/app", want: userCredential, runs: 1}, {want: noTests, runs: 1}}},
		{name: "two globs", covers: []string{provide + "wild card image match, with Image cache key"}, list: []provider{{match: "['*.*.example']", key: "*.*.example"}}, steps: []lookupCall{{image: "a.b.example/app", want: userCredential, runs: 1}, {want: noTests, runs: 1}}},
		{name: "glob of a bare host", covers: []string{provide + "wild card image match, with Global cache key"}, list: []provider{{match: "['*.example']", key: "*.example", scope: "Global"}}, steps: []lookupCall{{image: "registry.example", want: userCredential, runs: 1}}},
		{name: "no service account", covers: []string{provide + "[service account mode] sa name required but empty"}, list: []provider{{extraYAML: configWithCacheType("Token")}}, server: lookupSettings{annotations: annotatedAccount}, steps: []lookupCall{{pod: pod{name: "static"}, want: noTests}}, says: `provider "p" was not run`},
		{name: "no annotation", covers: []string{provide + "[service account mode] sa does not have required annotations", "TestRequiredAnnotationNotFoundErr/required annotation not found error"}, list: []provider{{extraYAML: configWithCacheType("Token")}}, steps: []lookupCall{{pod: testPod, want: noTests}}, says: `lacks the required annotation "a.example/x"`},
		{name: "no account", list: []provider{{extraYAML: configWithCacheType("Token")}}, server: lookupSettings{missing: true}, steps: []lookupCall{{pod: testPod, want: noTests}}, says: "there is no such account"},
		{name: "no token", covers: []string{provide + "[service account mode] failed to get service account token"}, list: []provider{{extraYAML: configWithCacheType("Token")}}, server: lookupSettings{annotations: annotatedAccount, refuses: true}, steps: []lookupCall{{pod: testPod, want: noTests}}, says: "tokens are refused"},
		{name: "echoed token", covers: []string{provide + "[service account mode] cache type not token but service account echoed back"}, list: []provider{withResponseText(provider{extraYAML: configWithCacheType("ServiceAccount")}, password, "canary-token-of-builder")}, server: lookupSettings{annotations: annotatedAccount}, steps: []lookupCall{{pod: testPod, want: noTests, runs: 1}}, says: "returned the service account token as the password"},
		{name: "echoed token that may be", list: []provider{withResponseText(provider{extraYAML: configWithCacheType("Token")}, password, "canary-token-of-builder")}, server: lookupSettings{annotations: annotatedAccount}, steps: []lookupCall{{pod: testPod, want: serviceAccountTests, runs: 1}}},
		{name: "service account", covers: []string{provide + "[service account mode] exact image match", severalProviders + "single provider with service account coordinates", newKeyringTest + "feature gate enabled - pod information should be set"}, list: []provider{{extraYAML: configWithCacheType("ServiceAccount")}}, server: lookupSettings{annotations: annotatedAccount}, steps: []lookupCall{{pod: testPod, want: serviceAccountTests, runs: 1}}},
		{name: "gate off", covers: []string{newKeyringTest + "feature gate disabled - pod information should be empty"}, list: []provider{{extraYAML: tokenAttributesYAML("registry.example", "Token", "false", "", "[a.example/y]")}}, server: lookupSettings{annotations: annotatedAccount}, gateOff: true, steps: []lookupCall{{pod: testPod, want: userCredential, runs: 1}}},

		{name: "kept for a minute", covers: []string{cachedGroup + "/It should return not expired credential"}, list: []provider{{cacheDuration: "1m"}}, steps: []lookupCall{{want: userCredential, runs: 1}, {want: userCredential, runs: 1}}},
		{name: "expired", covers: []string{cachedGroup + "/It should not return expired credential"}, list: []provider{{cacheDuration: "1ns"}}, steps: []lookupCall{{want: userCredential, runs: 1}, {want: userCredential, runs: 2}}},
		{name: "kept for an account", covers: []string{cachedGroup + "_pluginUsingServiceAccount/It should return not expired credential"}, list: []provider{{cacheDuration: "1m", extraYAML: configWithCacheType("ServiceAccount")}}, server: lookupSettings{annotations: annotatedAccount}, steps: []lookupCall{{pod: testPod, want: serviceAccountTests, runs: 1}, {pod: testPod, want: serviceAccountTests, runs: 1}}},
		{name: "expired for an account", covers: []string{cachedGroup + "_pluginUsingServiceAccount/It should not return expired credential"}, list: []provider{{cacheDuration: "1ns", extraYAML: configWithCacheType("ServiceAccount")}}, server: lookupSettings{annotations: annotatedAccount}, steps: []lookupCall{{pod: testPod, want: serviceAccountTests, runs: 1}, {pod: testPod, want: serviceAccountTests, runs: 2}}},
		{name: "not to be kept", covers: []string{"Test_NoCacheResponse"}, list: []provider{{cacheDuration: "0s", scope: "Global", cache: "1h"}}, steps: []lookupCall{{want: userCredential, runs: 1}, {want: userCredential, runs: 2}}},
		{name: "kept as configured", list: []provider{{cache: "1h"}}, steps: []lookupCall{{want: userCredential, runs: 1}, {want: userCredential, runs: 1}}},

		{name: "another kind", covers: []string{decodeStage + "wrong Kind"}, list: []provider{withResponseText(provider{}, "CredentialProviderResponse", "Other")}, steps: []lookupCall{{want: noTests, runs: 1}}, says: "kind"},
		{name: "another group", covers: []string{decodeStage + "wrong Group"}, list: []provider{withResponseText(provider{}, protocolGroup, "other.example/")}, steps: []lookupCall{{want: noTests, runs: 1}}, says: "apiVersion"},

		{name: "request with a token", covers: []string{encodeStage + "successful with v1, with service account token and annotations"}, list: []provider{{extraYAML: configWithCacheType("Token")}}, server: lookupSettings{annotations: annotatedAccount}, steps: []lookupCall{{pod: testPod, want: serviceAccountTests, runs: 1}},
			request: `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"registry.example/app","serviceAccountToken":"canary-token-of-builder","serviceAccountAnnotations":{"a.example/x":"1","a.example/y":"2"}}`},

		{name: "two providers", covers: []string{severalProviders + "multiple providers", newKeyringTest + "multiple providers registered"}, list: []provider{{}, {name: "a", extraYAML: configWithCacheType("Token")}}, server: lookupSettings{annotations: annotatedAccount}, steps: []lookupCall{{pod: testPod, want: []string{"user of p", "user of a for team/builder uid of builder"}, runs: 2}}},
		{name: "an empty answer", covers: []string{severalProviders + "provider with empty config"}, list: []provider{withResponseText(provider{}, `"registry.example":{"username":"user of p","password":"`+password+`"}`, "")}, steps: []lookupCall{{want: noTests, runs: 1}}},
		{name: "one of two not asked", list: []provider{{extraYAML: configWithCacheType("Token")}, {name: "a"}}, steps: []lookupCall{{pod: pod{name: "static"}, want: []string{"user of a"}, runs: 1}}},
		{name: "bare host, a pattern with a path", list: []provider{{match: "[registry.example/app]"}}, steps: []lookupCall{{image: "registry.example", want: noTests}}},
		{name: "no host", list: []provider{{}}, steps: []lookupCall{{image: "[:::1]:5000/app", want: noTests}}, says: "the text in brackets is not an IPv6 address"},
		{name: "the more specific first", list: []provider{{}, {name: "a", key: "registry.example/app"}}, steps: []lookupCall{{want: []string{"user of a", "user of p"}, runs: 2}}},
		{name: "one of two fails", list: []provider{{script: "echo 'no network' >&2; exit 3\n"}, {name: "a"}}, steps: []lookupCall{{want: []string{"user of a"}, runs: 2}}, says: `plugin "p": exec: exit status 3; stderr: "no network"`},
		{name: "Docker Hub", list: []provider{{match: "[docker.io]", key: "index.docker.io"}}, steps: []lookupCall{{image: "docker.io/library/nginx", want: userCredential, runs: 1}}},
	}
	for _, version := range []string{"v1", "v1beta1", "v1alpha1"} {
		list = append(list, lookupCase{
			name: version, covers: []string{encodeStage + "successful with " + version, decodeStage + "success with " + version}, list: []provider{{api: version}}, steps: once,
			request: `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/` + version + `","image":"registry.example/app"}`,
		})
	}
	return append(list, cacheCases()...)
}

// cacheCases returns cases that verify which lookups share a cached response, depending on its
// scope and the cacheType.
func cacheCases() (list []lookupCase) {
	runs := map[string][2]int{"Image": {2, 3}, "Registry": {1, 2}, "Global": {1, 1}} // runs after a lookup of another image, and after one of another registry
	for scope, n := range runs {
		p := provider{match: "['*.example']", key: "*.example", scope: scope, cacheDuration: "1h"}
		first, other, far := "registry.example/app", "registry.example/other", "far.example/app"
		list = append(list, lookupCase{
			name: scope, covers: []string{keys + strings.ToLower(scope) + "-no-sa"}, list: []provider{p},
			steps: []lookupCall{{image: first, want: userCredential, runs: 1}, {image: first, want: userCredential, runs: 1}, {image: other, want: userCredential, runs: n[0]}, {image: far, want: userCredential, runs: n[1]}},
		})
		for _, cacheType := range []string{"ServiceAccount", "Token"} {
			p.extraYAML = configWithCacheType(cacheType)
			last := n[1]
			if cacheType == "Token" {
				last++ // each pod has its own token
			}
			list = append(list, lookupCase{
				name: scope + " " + cacheType, covers: []string{keys + strings.ToLower(scope) + "-sa-" + strings.ToLower(cacheType)}, list: []provider{p}, server: lookupSettings{annotations: annotatedAccount, perPod: true},
				steps: []lookupCall{
					{image: first, pod: testPod, want: serviceAccountTests, runs: 1}, {image: first, pod: testPod, want: serviceAccountTests, runs: 1}, {image: other, pod: testPod, want: serviceAccountTests, runs: n[0]}, {image: far, pod: testPod, want: serviceAccountTests, runs: n[1]},
					{image: first, pod: pod{"web-2", "builder"}, want: serviceAccountTests, runs: last},
					{image: first, pod: pod{"db", "dba"}, want: []string{"user of p for team/dba uid of dba"}, runs: last + 1},
				},
			})
		}
	}
	return list
}

// TestLookup verifies that both packages return the same credentials in the cases of the kubelet's
// tests. They must also run the executables equally often and send them the same requests.
func TestLookup(t *testing.T) {
	for _, c := range lookupCases() {
		for _, s := range implementations {
			t.Run(c.name+"/"+s.name, func(t *testing.T) { c.run(t, s) })
		}
	}
}

func (c *lookupCase) run(t *testing.T, s implementation) {
	setTokenGate(t, true)
	at := newPluginDir(t, c.list...)
	api := fakeTokenServer{lookupSettings: c.server}
	must.Do(t, s.register(at.path, at.dir, api.tokenFuncs()))
	setTokenGate(t, !c.gateOff)
	var last error
	for i, step := range c.steps {
		image := valueOrDefault(step.image, "registry.example/app")
		ring := s.keyring("team", step.pod.name, "uid of "+step.pod.name, step.pod.account)
		creds, ok := ring.Lookup(image)
		if diff := cmp.Diff(step.want, formatCredentials(creds)); diff != "" || ok != (len(step.want) > 0) {
			t.Errorf("step %d, %s: found %t (-want +got)\n%s", i, image, ok, diff)
		}
		var ran []string
		for _, p := range c.list {
			ran = append(ran, at.takeRuns(t, p.displayName())...)
		}
		if len(ran) != step.runs {
			t.Errorf("step %d, %s: %d runs so far, want %d", i, image, len(ran), step.runs)
		}
		if c.request != "" && i == 0 && (len(ran) == 0 || ran[0] != c.request) {
			t.Errorf("the executable was given %q, want %q", ran, c.request)
		}
		last = lookupError(ring)
	}
	if s.name == ours.name && (c.says == "") != (last == nil) || last != nil && !strings.Contains(last.Error(), c.says) {
		t.Errorf("the error is %v, want %q in it", last, c.says)
	}
	c.checkTokens(t, &api)
}

// checkTokens checks that all tokens were requested for a step's pod and for the audience.
func (c *lookupCase) checkTokens(t *testing.T, api *fakeTokenServer) {
	for _, tr := range api.requests {
		ref := tr.Spec.BoundObjectRef
		if got := fmt.Sprintln(tr.Spec.Audiences, ref.APIVersion, ref.Kind, ref.Name, ref.UID, tr.UID, tr.Spec.ExpirationSeconds); !slices.ContainsFunc(c.steps, func(s lookupCall) bool {
			return got == fmt.Sprintln([]string{"registry.example"}, "v1", "Pod", s.pod.name, "uid of "+s.pod.name, "uid of "+s.pod.account, (*int64)(nil))
		}) {
			t.Errorf("a token was requested for %s", got)
		}
	}
}
