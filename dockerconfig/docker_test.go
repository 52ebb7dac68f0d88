// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package dockerconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// TestAgainstDocker compares lookups with those of docker's own loader, which is called through
// go-containerregistry. An image without a repository is looked up as a registry. For other images,
// go-containerregistry also queries helpers for the repository.
func TestAgainstDocker(t *testing.T) {
	dir, environ := createHelpers(t)
	for _, entry := range append(environ, "PATH="+dir) {
		key, value, _ := strings.Cut(entry, "=")
		t.Setenv(key, value)
	}
	entry := `{` + authField() + `}`
	other := `{"auth":"` + encodeBase64("other:"+canary.PasswordSecret) + `"}`
	for _, tt := range []struct{ name, file, image string }{
		{"host", `{"auths":{"r.io":` + entry + `,"s.io":` + other + `}}`, "r.io"},
		{"other host", `{"auths":{"r.io":` + entry + `}}`, "s.io"},
		{"port", `{"auths":{"r.io":` + other + `,"r.io:5000":` + entry + `}}`, "r.io:5000"},
		{"no port", `{"auths":{"r.io:5000":` + entry + `}}`, "r.io"},
		{"URL", `{"auths":{"https://r.io/v2/":` + entry + `}}`, "r.io"},
		{"URL without a slash", `{"auths":{"http://r.io:5000":` + entry + `}}`, "r.io:5000"},
		{"host and URL", `{"auths":{"https://r.io/v1/":` + other + `,"r.io":` + entry + `}}`, "r.io"},
		{"hub", `{"auths":{"https://index.docker.io/v1/":` + entry + `}}`, "docker.io"},
		{"repository", `{"auths":{"r.io":` + other + `,"r.io/team/app":` + entry + `}}`, "r.io/team/app"},
		{"identity token", `{"auths":{"r.io":{"identitytoken":"` + canary.TokenSecret + `"}}}`, "r.io"},
		{"registry token", `{"auths":{"r.io":{"registrytoken":"` + canary.TokenSecret + `"}}}`, "r.io"},
		{"empty entry", `{"auths":{"r.io":{}}}`, "r.io"},
		{"helper", `{"credHelpers":{"r.io":"good"},"credsStore":"none"}`, "r.io"},
		{"helper of another host", `{"credHelpers":{"s.io":"good"},"auths":{"r.io":` + other + `}}`, "r.io"},
		{"helper asked for a port", `{"credHelpers":{"r.io:5000":"whoami"}}`, "r.io:5000"},
		{"helper before auths", `{"credHelpers":{"r.io":"none"},"auths":{"r.io":` + other + `}}`, "r.io"},
		{"helper's identity token", `{"credHelpers":{"r.io":"identity"}}`, "r.io"},
		{"store", `{"credsStore":"whoami"}`, "r.io"},
		{"store before auths", `{"credsStore":"none","auths":{"r.io":` + other + `}}`, "r.io"},
		{"not the store", `{"credsStore":"good","credHelpers":{"r.io":""},"auths":{"r.io":` + other + `}}`, "r.io"},
		{"store, hub", `{"credsStore":"whoami"}`, "docker.io"},
		{"helper, hub", `{"credHelpers":{"https://index.docker.io/v1/":"whoami"}}`, "docker.io"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, want := lookUpCredential(t, dir, environ, tt.file, tt.image), dockerLookup(t, tt.file, tt.image)
			if !got.Equal(want) {
				t.Errorf("user %q and others, docker has user %q and others", got.Username, want.Username)
			}
		})
	}
}

// lookUpCredential returns the credential for an image, from a helper or else from the most specific entry.
func lookUpCredential(t *testing.T, dir string, environ []string, data, image string) Auth {
	t.Helper()
	file := must.Get(ParseFile([]byte(data)))(t)
	registry, _, _ := strings.Cut(image, "/")
	if helper, server := file.Helper(registry); helper != "" {
		return must.Get(Helper{Name: helper, Dir: dir, Environ: environ}.Get(t.Context(), server))(t)
	}
	if matches := file.Find(image); len(matches) > 0 {
		return matches[0].Auth
	}
	return Auth{}
}

func dockerLookup(t *testing.T, data, image string) Auth {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("DOCKER_CONFIG", dir)
	t.Setenv("DOCKER_AUTH_CONFIG", "")
	must.Do(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(data), 0o600))
	var target authn.Resource
	var err error
	if strings.Contains(image, "/") {
		target, err = name.NewRepository(image)
	} else {
		target, err = name.NewRegistry(image)
	}
	if err != nil {
		t.Fatal(err)
	}
	found := must.Get(authn.Resolve(t.Context(), authn.DefaultKeychain, target))(t)
	auth := must.Get(authn.Authorization(t.Context(), found))(t)
	got := Auth{Username: auth.Username}
	// go-containerregistry returns the canary secrets, or none.
	if auth.Password != "" {
		got.Password = plugin.NewSecret(canary.PasswordSecret)
	}
	if auth.IdentityToken != "" {
		got.IdentityToken = plugin.NewSecret(canary.TokenSecret)
	}
	if auth.RegistryToken != "" {
		got.RegistryToken = plugin.NewSecret(canary.TokenSecret)
	}
	return got
}
