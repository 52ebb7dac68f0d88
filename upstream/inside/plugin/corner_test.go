// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/features"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/inside/plugin"
	"github.com/regcred/regcred/upstream/kubelet"
)

func lookupError(ring credentialprovider.DockerKeyring) error { return plugin.LookupErr(ring) }

// TestConcurrentLookups verifies that concurrent lookups return the same as a single lookup. If the
// response may be shared, the plugin runs once per image.
func TestConcurrentLookups(t *testing.T) {
	for _, tt := range []struct {
		name   string
		p      provider
		image  func(i int) string
		pod    func(i int) pod
		runs   int // runs by the kubelet
		ours   int
		perPod bool
	}{
		{"one image", provider{cacheDuration: "1h"}, sameImage, withoutPod, 1, 1, false},
		{"one image, one token", provider{cacheDuration: "1h", extraYAML: configWithCacheType("ServiceAccount")}, sameImage, samePod, 1, 1, false},
		{"one image, a token each", provider{extraYAML: configWithCacheType("Token")}, sameImage, distinctPod, 5, 5, true},
		{"an image each", provider{scope: "Registry", cacheDuration: "1h"}, distinctImage, withoutPod, 5, 1, false},
	} {
		for _, s := range implementations {
			t.Run(tt.name+"/"+s.name, func(t *testing.T) {
				want := tt.runs
				if s.name == ours.name {
					want = tt.ours
				}
				p := tt.p
				p.script = waitForRunsScript(want) + p.answerScript()
				at := newPluginDir(t, p)
				api := fakeTokenServer{lookupSettings: lookupSettings{annotations: annotatedAccount, perPod: tt.perPod}}
				must.Do(t, s.register(at.path, at.dir, api.tokenFuncs()))
				lookUpConcurrently(t, s, tt.image, tt.pod)
				if n := len(at.takeRuns(t, "p")); n != want {
					t.Errorf("%d runs, want %d", n, want)
				}
			})
		}
	}
}

// waitForRunsScript returns a script that waits until the given number of runs have begun, and then a
// little longer.
func waitForRunsScript(runs int) string {
	return fmt.Sprintf("while [ $(wc -l <\"$0.ran\") -lt %d ]; do sleep 0.02; done\nsleep 0.2\n", runs)
}

func sameImage(int) string  { return "registry.example/app" }
func distinctImage(i int) string { return fmt.Sprintf("registry.example/app-%d", i) }
func withoutPod(int) pod         { return pod{} }
func samePod(int) pod       { return testPod }
func distinctPod(i int) pod      { return pod{fmt.Sprintf("web-%d", i), "builder"} }

// answerScript returns a script that prints the provider's response.
func (p provider) answerScript() string {
	p.script = ""
	_, text, _ := strings.Cut(p.executable(), "cat >>\"$0.ran\"\n")
	return text
}

func lookUpConcurrently(t *testing.T, s implementation, image func(int) string, of func(int) pod) {
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			p := of(i)
			creds, _ := s.keyring("team", p.name, "uid of "+p.name, p.account).Lookup(image(i))
			if len(creds) != 1 {
				t.Errorf("lookup %d: %d credentials, want 1", i, len(creds))
			}
		})
	}
	wg.Wait()
}

// TestConcurrentKeyring verifies that one keyring is safe for concurrent use.
func TestConcurrentKeyring(t *testing.T) {
	at := newPluginDir(t, provider{cacheDuration: "1h", extraYAML: configWithCacheType("ServiceAccount")})
	for _, s := range implementations {
		api := fakeTokenServer{lookupSettings: lookupSettings{annotations: annotatedAccount}}
		must.Do(t, s.register(at.path, at.dir, api.tokenFuncs()))
		ring := s.keyring("team", testPod.name, "uid", testPod.account)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				for range 5 {
					if creds, ok := ring.Lookup("registry.example/app"); !ok || len(creds) != 1 || lookupError(ring) != nil {
						t.Errorf("%s: %d credentials, want 1", s.name, len(creds))
					}
				}
			})
		}
		wg.Wait()
	}
}

// TestHash verifies that both packages return the same credential hash, which the kubelet stores in
// its records of pulled images. With the feature gate off, the hash must be empty.
func TestHash(t *testing.T) {
	at := newPluginDir(t, provider{extraYAML: configWithCacheType("Token")})
	for _, on := range []bool{true, false} {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.KubeletEnsureSecretPulledImages, on)
		var both [][]credentialprovider.TrackedAuthConfig
		for _, s := range implementations {
			api := fakeTokenServer{lookupSettings: lookupSettings{annotations: annotatedAccount}}
			must.Do(t, s.register(at.path, at.dir, api.tokenFuncs()))
			creds, _ := s.keyring("team", testPod.name, "uid", testPod.account).Lookup("registry.example/app")
			if len(creds) != 1 || (creds[0].AuthConfigHash != "") != on || (creds[0].Source != nil) != on {
				t.Fatalf("%s, gate %t: %d credentials, or a hash and a source that are not as the gate says", s.name, on, len(creds))
			}
			both = append(both, creds)
		}
		if !cmp.Equal(both[0], both[1]) {
			t.Errorf("gate %t: the credentials differ", on)
		}
	}
}

// TestEnvironment verifies that environment variables from the configuration override the kubelet's
// variables.
func TestEnvironment(t *testing.T) {
	t.Setenv("REGCRED_TEST_A", "inherited")
	t.Setenv("REGCRED_TEST_B", "inherited")
	p := provider{extraYAML: "  env: [{name: REGCRED_TEST_B, value: own}, {name: REGCRED_TEST_C, value: own}]\n"}
	p.script = "env | grep ^REGCRED_TEST_[ABC]= | sort > \"$0.env\"\n" + p.answerScript()
	for _, s := range implementations {
		at := newPluginDir(t, p)
		must.Do(t, s.register(at.path, at.dir, (&fakeTokenServer{}).tokenFuncs()))
		s.keyring("", "", "", "").Lookup("registry.example/app")
		if got, want := readFile(t, filepath.Join(at.dir, "p.env")), "REGCRED_TEST_A=inherited\nREGCRED_TEST_B=own\nREGCRED_TEST_C=own\n"; got != want {
			t.Errorf("%s: the executable has %q, want %q", s.name, got, want)
		}
	}
}

// TestWithLookupErr verifies that WithLookupErr appends one short line to the pull's error.
func TestWithLookupErr(t *testing.T) {
	p := provider{script: "i=0; while [ $i -lt 400 ]; do printf 'word \\303\\244 ' >&2; i=$((i+1)); done; exit 1\n"}
	at := newPluginDir(t, p, provider{name: "a", script: "printf 'two\\nlines' >&2; exit 4\n"})
	must.Do(t, ours.register(at.path, at.dir, (&fakeTokenServer{}).tokenFuncs()))
	ring := ours.keyring("", "", "", "")
	ring.Lookup("registry.example/app")
	refused := errors.New("RegistryUnavailable: 401")
	err := plugin.WithLookupErr(refused, lookupError(ring))
	if text := err.Error(); !errors.Is(err, refused) || !strings.HasPrefix(text, "RegistryUnavailable: 401; image credential providers: ") || strings.ContainsAny(text, "\n\t") || len(text) > 560 {
		t.Errorf("%d bytes: %q", len(text), text)
	}
	if err := plugin.WithLookupErr(nil, lookupError(ring)); err != nil {
		t.Errorf("of a pull that did not fail: %v", err)
	}
	if err := plugin.WithLookupErr(refused, nil); err != refused {
		t.Errorf("without a failure: %v", err)
	}
	if err := lookupError(&credentialprovider.BasicDockerKeyring{}); err != nil {
		t.Errorf("of another keyring: %v", err)
	}
	ring.Lookup("other.example/app")
	if err := lookupError(ring); err != nil {
		t.Errorf("after a lookup that did not fail: %v", err)
	}
}

// TestFailingProvidersAreNamed verifies that the error names each failing provider, even if the
// messages of other providers are long.
func TestFailingProvidersAreNamed(t *testing.T) {
	long := "i=0; while [ $i -lt 100 ]; do printf 'word%s ' $i >&2; i=$((i+1)); done; exit 1\n"
	for _, tt := range []struct {
		name  string
		short int // number of providers that fail without a message; they are listed first
		long  int // number of providers with a long message
		names int // number of provider names in the error
	}{{"one", 0, 1, 1}, {"three", 0, 3, 3}, {"one long", 2, 1, 3}, {"more than there is room for", 0, 300, 3}} {
		t.Run(tt.name, func(t *testing.T) {
			var list []provider
			for i := range tt.short + tt.long {
				p := provider{name: fmt.Sprintf("fails-%d", i), script: "exit 1\n"}
				if i >= tt.short {
					p.script = long
				}
				list = append(list, p)
			}
			at := newPluginDir(t, list...)
			must.Do(t, ours.register(at.path, at.dir, kubelet.TokenFuncs{}))
			ring := ours.keyring("", "", "", "")
			ring.Lookup("registry.example/app")
			text := fmt.Sprint(lookupError(ring))
			for i := range tt.names {
				if want := fmt.Sprintf("plugin \"fails-%d\": exec: exit status 1", i); !strings.Contains(text, want) {
					t.Errorf("there is no %q in %q", want, text)
				}
			}
			if len(text) > 480 || len(text) < 470 {
				t.Errorf("%d bytes, want up to 480, and all of them used: %q", len(text), text)
			}
		})
	}
}

// TestGetters verifies failures of the two functions of the kubelet. Each must be reported in one
// line of limited length, and without the value of a panic.
func TestGetters(t *testing.T) {
	good := (&fakeTokenServer{lookupSettings: lookupSettings{annotations: annotatedAccount}}).tokenFuncs()
	type account = corev1.ServiceAccount
	failing := func(text string) kubelet.TokenFuncs {
		return kubelet.TokenFuncs{ServiceAccount: func(_, _ string) (*account, error) { return nil, errors.New(text) }}
	}
	type getterCase struct {
		name   string
		tokens kubelet.TokenFuncs
		want   string
	}
	cases := []getterCase{
		{"no accounts", kubelet.TokenFuncs{Token: good.Token}, "no access to service accounts"},
		{"no tokens", kubelet.TokenFuncs{ServiceAccount: good.ServiceAccount}, "cannot request tokens"},
		{"neither account nor error", kubelet.TokenFuncs{ServiceAccount: func(_, _ string) (*account, error) { return nil, nil }}, "the service account lookup returned neither an account nor an error"},
		{"neither token nor error", kubelet.TokenFuncs{ServiceAccount: good.ServiceAccount, Token: func(_, _ string, _ *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
			return nil, nil
		}}, "an empty token"},
		{"panic", kubelet.TokenFuncs{ServiceAccount: func(_, _ string) (*account, error) { panic("canary-token-4b1d") }}, "panic in"},
		{"lines", failing("one\r\ntwo\u2028three\x1b[31m\x00four"), "one two three [31m four"},
	}
	for shift := range 4 { // the length limit falls within a character
		for _, odd := range []string{"😀", "\xff€", "é\xf0\x9f", "\u202e"} {
			cases = append(cases, getterCase{fmt.Sprintf("%d bytes and %q", shift, odd), failing(strings.Repeat("x", shift) + strings.Repeat(odd, 1000)), "…"})
		}
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			at := newPluginDir(t, provider{extraYAML: configWithCacheType("Token")})
			must.Do(t, ours.register(at.path, at.dir, tt.tokens))
			ring := ours.keyring("team", testPod.name, "uid", testPod.account)
			ring.Lookup("registry.example/app")
			text := fmt.Sprint(lookupError(ring))
			if !strings.Contains(text, tt.want) || len(text) > 480 || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
				t.Errorf("%d bytes: %q, want %q in it", len(text), text, tt.want)
			}
			canary.AssertAbsent(t, "the error", text)
		})
	}
}
