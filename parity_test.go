// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// The tests in this file replay testdata/parity, which upstream/record recorded by running the
// kubelet's own packages. docs/project/parity.md lists the deliberate differences.

// vectorText is a string in a test vector. Invalid UTF-8 is encoded as {"base64": "…"}.
type vectorText string

func (s *vectorText) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, (*string)(s))
	}
	var b struct{ Base64 []byte }
	err := json.Unmarshal(data, &b)
	*s = vectorText(b.Base64)
	return err
}

// loadVectors loads the test vectors in a file of testdata/parity. It fails if there are none.
func loadVectors[T any](t *testing.T, name string) []T {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join("testdata", "parity", name+".json")))(t)
	var file struct {
		Kubelet, Go string
		Cases       []T
	}
	must.Do(t, json.Unmarshal(data, &file))
	if len(file.Cases) == 0 || file.Kubelet == "" || file.Go == "" {
		t.Fatalf("%s: %d cases, kubelet %q, Go %q: not a recording", name, len(file.Cases), file.Kubelet, file.Go)
	}
	t.Logf("%d cases of kubelet %s, %s", len(file.Cases), file.Kubelet, file.Go)
	return file.Cases
}

func TestParityMatch(t *testing.T) {
	type vector struct {
		Pattern, Image vectorText
		Match, Invalid bool
	}
	for _, v := range loadVectors[vector](t, "match") {
		p, err := match.Parse(string(v.Pattern))
		if (err != nil) != v.Invalid {
			t.Errorf("match.Parse(%q): error %v, the kubelet's verdict is invalid=%t", v.Pattern, err, v.Invalid)
		}
		if got := p.Match(string(v.Image)); got != v.Match {
			t.Errorf("pattern %q, image %q: match %t, want %t", v.Pattern, v.Image, got, v.Match)
		}
	}
}

func TestParityReferences(t *testing.T) {
	type vector struct {
		Reference  vectorText
		Repository string
		Error      bool
	}
	for _, v := range loadVectors[vector](t, "references") {
		got, err := match.Repository(string(v.Reference))
		if (err != nil) != v.Error || err == nil && got != v.Repository {
			t.Errorf("%q: repository %q, error %v; want %q, error %t", v.Reference, got, err, v.Repository, v.Error)
		}
	}
}

type configFile struct {
	Name, Symlink string
	Content       vectorText
	Dir           bool
}

// configVector is a test vector with a configuration and the kubelet's result.
type configVector struct {
	Name                     string
	IsDir                    bool
	Files                    []configFile
	LoadError, ValidateError string
	Hash                     string
	Providers                []configProvider
}

type configProvider struct {
	Name          string
	MatchImages   []string
	CacheDuration *time.Duration
	APIVersion    string
	Args          []string
	Env           []struct{ Name, Value string }

	TokenAttributes *struct {
		Audience, CacheType string
		Require             *bool
		Required, Optional  []string
	}
}

// toProvider converts p to regcred's type.
func (p configProvider) toProvider() config.Provider {
	out := config.Provider{
		Name: p.Name, MatchImages: p.MatchImages, DefaultCacheDuration: p.CacheDuration, APIVersion: p.APIVersion,
	}
	for _, a := range p.Args {
		out.Args = append(out.Args, plugin.NewSecret(a))
	}
	for _, e := range p.Env {
		out.Env = append(out.Env, config.EnvVar{Name: e.Name, Value: plugin.NewSecret(e.Value)})
	}
	if a := p.TokenAttributes; a != nil {
		out.TokenAttributes = &config.TokenAttributes{
			ServiceAccountTokenAudience: a.Audience, CacheType: config.TokenCacheType(a.CacheType), RequireServiceAccount: a.Require,
			RequiredServiceAccountAnnotationKeys: a.Required, OptionalServiceAccountAnnotationKeys: a.Optional,
		}
	}
	return out
}

// writeFiles creates the configuration's files and returns the path to load.
func (v configVector) writeFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range v.Files {
		path := filepath.Join(dir, f.Name)
		var err error
		switch {
		case f.Dir:
			err = os.Mkdir(path, 0o700)
		case f.Symlink != "":
			err = os.Symlink(f.Symlink, path)
		default:
			err = os.WriteFile(path, []byte(f.Content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if v.IsDir {
		return dir
	}
	return filepath.Join(dir, v.Files[0].Name)
}

// Deliberate differences from the kubelet in the validation of configurations.
// docs/project/parity.md explains them.
const (
	refusedInternal = "the kubelet's internal version of the file format"
	refusedName     = "a provider name that is empty or has a backslash"

	outOfTreeCase = "registry credential config" // name of the test case with a file of the out-of-tree proposal
)

// deliberateDifference returns the deliberate difference because of which regcred rejects v although the
// kubelet accepts it, or "".
func (v configVector) deliberateDifference() string {
	if strings.HasPrefix(v.Name, "internal version") {
		return refusedInternal
	}
	for _, p := range v.Providers {
		if p.Name == "" || strings.Contains(p.Name, `\`) {
			return refusedName
		}
	}
	return ""
}

func TestParityConfig(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("some file names and links cannot be made on Windows")
	}
	for _, v := range loadVectors[configVector](t, "config") {
		t.Run(v.Name, func(t *testing.T) {
			c, err := config.Load(v.writeFiles(t))
			if v.Name == outOfTreeCase && err == nil {
				err = c.ValidateFor(config.Target{KubeletVersion: config.NewestKubelet})
			}
			if (err != nil) != (v.LoadError != "" || v.deliberateDifference() == refusedInternal) {
				t.Fatalf("Load: error %v, the kubelet's is %q", err, v.LoadError)
			}
			if err != nil {
				return
			}
			if got := c.Hash(); got != v.Hash {
				t.Errorf("Hash is %s, want %s", got, v.Hash)
			}
			var want []config.Provider
			for _, p := range v.Providers {
				want = append(want, p.toProvider())
			}
			if diff := cmp.Diff(want, c.Providers, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("providers differ (-kubelet +regcred):\n%s", diff)
			}
			if err := c.Validate(); (err != nil) != (v.ValidateError != "" || v.deliberateDifference() == refusedName) {
				t.Errorf("Validate: error %v, the kubelet's is %q", err, v.ValidateError)
			}
		})
	}
}

func TestParityRequest(t *testing.T) {
	type vector struct {
		APIVersion  string
		Image       vectorText
		Token       string
		Annotations map[string]string
		Bytes       vectorText
	}
	for i, v := range loadVectors[vector](t, "request") {
		got, err := plugin.EncodeRequest(&plugin.Request{
			APIVersion: v.APIVersion, Image: string(v.Image), ServiceAccountToken: plugin.NewSecret(v.Token), ServiceAccountAnnotations: v.Annotations,
		})
		if err != nil || string(got) != string(v.Bytes) {
			t.Errorf("case %d, image %q in %s: %d bytes, want %d others; error %v", i, v.Image, v.APIVersion, len(got), len(v.Bytes), err)
		}
	}
}

// TestParityResponse compares how regcred and the kubelet decode responses. Both decode a
// response with any cacheKeyType and reject it afterwards.
func TestParityResponse(t *testing.T) {
	type decoded struct {
		CacheKeyType  vectorText
		CacheDuration *time.Duration
		Auth          []struct{ Key, Username, Password vectorText }
	}
	type vector struct {
		Name, APIVersion string
		Output           vectorText
		Decoded          *decoded
	}
	for _, v := range loadVectors[vector](t, "response") {
		t.Run(v.Name, func(t *testing.T) {
			got, err := plugin.DecodeResponse([]byte(v.Output), v.APIVersion)
			if (err == nil) != (v.Decoded != nil) {
				t.Fatalf("accepted %t, by the kubelet %t; error %v", err == nil, v.Decoded != nil, err)
			}
			if err != nil {
				canary.AssertAbsent(t, "the error", err.Error())
				return
			}
			want := &plugin.Response{APIVersion: v.APIVersion, CacheKeyType: plugin.CacheKeyType(v.Decoded.CacheKeyType), CacheDuration: v.Decoded.CacheDuration}
			for _, a := range v.Decoded.Auth {
				if want.Auth == nil {
					want.Auth = map[string]plugin.AuthConfig{}
				}
				want.Auth[string(a.Key)] = plugin.AuthConfig{Username: string(a.Username), Password: plugin.NewSecret(string(a.Password))}
			}
			if !cmp.Equal(want, got, cmpopts.EquateEmpty()) {
				t.Errorf("the decoded response differs: %d keys, want %d", len(got.Auth), len(want.Auth))
			}
		})
	}
}
