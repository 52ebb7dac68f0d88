// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package orasclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/keychain"
	"github.com/regcred/regcred/keychain/orasclient"
	"github.com/regcred/regcred/plugin"
)

// docs/library.md quotes these examples. TestDocsQuoteExamples checks that the copies match.

// exampleRegistry starts a registry with the image team/app:v1, which the user "team" may pull. The
// keyring returns the credential of "guest" for the whole host, followed by the credential of
// "team" for the path.
func exampleRegistry() (host string, keyring *regcred.Keyring, end func()) {
	registry, err := testregistry.New(testregistry.Options{
		Auth:  testregistry.AuthBearer,
		Users: map[string]string{"guest": canary.PasswordSecret, "team": canary.PasswordSecret},
		Rules: []testregistry.Rule{{User: "team", Prefix: "team", Pull: true}},
	})
	if err != nil {
		panic(err)
	}
	if _, err := registry.Push("team/app", "v1", testregistry.Image{}); err != nil {
		panic(err)
	}
	host = registry.Addr()
	var text strings.Builder
	text.WriteString("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n")
	in := map[string]plugin.Provider{}
	for _, p := range [][2]string{{"guest", host}, {"team", host + "/team"}} {
		user, image := p[0], p[1]
		in[user] = plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) {
			return &plugin.Response{CacheKeyType: plugin.CacheRegistry, Auth: map[string]plugin.AuthConfig{
				host: {Username: user, Password: plugin.NewSecret(canary.PasswordSecret)},
			}}, nil
		})
		fmt.Fprintf(&text, "- name: %s\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  defaultCacheDuration: 1h\n  matchImages: [%q]\n", user, image)
	}
	cfg, err := config.Parse("example.yaml", []byte(text.String()))
	if err != nil {
		panic(err)
	}
	if keyring, err = regcred.New(cfg, regcred.Options{InProcess: in}); err != nil {
		panic(err)
	}
	return host, keyring, func() { keyring.Close(); registry.Close() }
}

// oras-go pulls as a node does: it tries every credential.
func Example() {
	host, keyring, end := exampleRegistry()
	defer end()
	ctx, store := context.Background(), memory.New()

	repo, err := remote.NewRepository(host + "/team/app")
	if err != nil {
		fmt.Println(err)
		return
	}
	repo.Client = orasclient.New(keychain.New(keyring, keychain.Options{}))
	repo.PlainHTTP = true // a registry on loopback
	desc, err := oras.Copy(ctx, repo, "v1", store, "v1", oras.DefaultCopyOptions)
	fmt.Println(desc.MediaType, err)
	// Output:
	// application/vnd.oci.image.manifest.v1+json <nil>
}

// If the registry rejects every credential, the error has a message for each credential.
func ExampleClient_Do() {
	host, keyring, end := exampleRegistry()
	defer end()
	client := orasclient.New(keychain.New(keyring, keychain.Options{}))

	repo, err := remote.NewRepository(host + "/secret/app")
	if err != nil {
		fmt.Println(err)
		return
	}
	repo.Client, repo.PlainHTTP = client, true
	_, err = repo.Resolve(context.Background(), "v1")
	var refused *errcode.ErrorResponse
	if errors.As(err, &refused) {
		for _, e := range refused.Errors {
			fmt.Println(e.Message)
		}
	}
	// Output:
	// provider "guest", user "guest": HTTP 403 (this credential is not allowed to pull from this repository)
}

// Programs that need an auth.Client, or an [http.Client] like Helm's library,
// use the Client as its transport.
func ExampleClient_RoundTrip() {
	host, keyring, end := exampleRegistry()
	defer end()

	client := &http.Client{Transport: orasclient.New(keychain.New(keyring, keychain.Options{}))}
	repo, err := remote.NewRepository(host + "/team/app")
	if err != nil {
		fmt.Println(err)
		return
	}
	repo.Client, repo.PlainHTTP = &auth.Client{Client: client}, true
	desc, err := repo.Resolve(context.Background(), "v1")
	fmt.Println(desc.MediaType, err)
	// Output:
	// application/vnd.oci.image.manifest.v1+json <nil>
}
