// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// FuzzOneCredential verifies that a plugin responds to an OutOfTree request with the credential
// that a Keyring would try first, whatever the auth keys of its response are.
func FuzzOneCredential(f *testing.F) {
	for _, keys := range []string{
		"registry.example *.example registry.example/team", "registry.example/v1/team registry.example/v2/",
		"https://user:x@registry.example/?q#f http://registry.example", "registry.example/%74eam registry.example/%2574eam", "registry.example:", "REGISTRY.example",
		"*.*", "index.docker.io", "https://index.docker.io/v1/ docker.io", "[::1] [::1]:5000", "[:1]", "registry.example: *.example:5000", "%zz registry.example", "a..b", "",
	} {
		for _, image := range []string{"registry.example/team/app", "registry.example:5000/team", "nginx", "localhost/app", "[::1]/app", "[::1]:5000/app"} {
			f.Add(image, keys)
		}
	}
	f.Fuzz(func(t *testing.T, image, keys string) {
		repository, err := match.Repository(image)
		if err != nil {
			t.Skip("no image")
		}
		auth := map[string]plugin.AuthConfig{}
		for _, key := range strings.Fields(strings.ToValidUTF8(keys, "")) {
			auth[key] = plugin.AuthConfig{Username: key}
		}
		if got, want := servedUser(t, repository, auth), firstUser(t, repository, auth); got != want {
			t.Errorf("%s: got the credential under %q, want %q", repository, got, want)
		}
	})
}

// FuzzImageKey verifies that the auth key of an OutOfTree response matches the image of the
// request.
func FuzzImageKey(f *testing.F) {
	for _, image := range []string{
		"nginx", "registry.example/team/app", "registry.example:5000/v1/app", "localhost/v2/app", "docker.io/v1/app", "index.docker.io/v2/v2/app",
		"[::1]/app", "[::1]:5000/app", "[2001:db8::1]/v1/app", "[:]/app", "REGISTRY.example/a__b", "1.2.3.4/x", "registry.example./x", "a-b/c", "v1/app", "v2/app/x",
	} {
		f.Add(image)
	}
	f.Fuzz(func(t *testing.T, image string) {
		repository, err := match.Repository(image)
		if err != nil {
			t.Skip("no image")
		}
		if address, ok := strings.CutPrefix(repository, "["); ok {
			address, _, _ = strings.Cut(address, "]")
			if _, err := netip.ParseAddr(address); err != nil {
				// The text in brackets is not an IP address, as in [:]/app. No auth key matches
				// such an image in the kubelet.
				if got := match.Select([]string{"*", "*/*", repository, plugin.AuthKeyForImage(repository)}, repository); len(got) > 0 {
					t.Errorf("%s: got the keys %q, want none", repository, got)
				}
				return
			}
		}
		key := plugin.AuthKeyForImage(repository)
		if firstUser(t, repository, map[string]plugin.AuthConfig{key: {Username: "u"}}) != "u" {
			t.Errorf("%s: the key %q does not match it", repository, key)
		}
	})
}

// servedUser returns the user name in a plugin's response to an OutOfTree request.
func servedUser(t *testing.T, image string, auth map[string]plugin.AuthConfig) string {
	t.Helper()
	req := must.Get(plugin.EncodeRequest(&plugin.Request{APIVersion: plugin.OutOfTree, Image: image}))(t)
	var stdout bytes.Buffer
	code := plugin.Serve(t.Context(), plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) {
		return &plugin.Response{CacheKeyType: plugin.CacheImage, Auth: auth}, nil
	}), plugin.ServeOptions{Stdin: bytes.NewReader(req), Stdout: &stdout, Args: []string{"get-credentials"}})
	var answer struct{ Username string }
	if err := json.Unmarshal(stdout.Bytes(), &answer); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v", code, err)
	}
	return answer.Username
}

// firstUser returns the user name that a Keyring would try first.
func firstUser(t *testing.T, image string, auth map[string]plugin.AuthConfig) string {
	t.Helper()
	ring := must.Get(regcred.New(&config.Config{}, regcred.Options{BinDir: ".", Sources: []regcred.Source{staticSource(auth)}}))(t)
	defer ring.Close()
	res, err := ring.Lookup(t.Context(), regcred.Request{Image: image})
	if err != nil || len(res.Credentials) == 0 {
		return ""
	}
	return res.Credentials[0].Username
}

// staticSource is a source that always returns the same credentials.
type staticSource map[string]plugin.AuthConfig

func (staticSource) Name() string { return "answer" }

func (a staticSource) Auths(context.Context, string) ([]regcred.AuthSet, error) {
	return []regcred.AuthSet{{Origin: regcred.Origin{Kind: regcred.FromNode}, Auths: a}}, nil
}
