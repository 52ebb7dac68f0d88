// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/kubeconfig"
	"github.com/regcred/regcred/internal/testkube"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/keychain"
	"github.com/regcred/regcred/kube"
	"github.com/regcred/regcred/plugin"
)

// Programs based on package remote can pull with every credential that a node would try. Here the
// registry rejects the first credential.
func ExampleTransport() {
	keyring, host, stop := exampleRegistry("team/app")
	defer stop()

	ref, err := name.ParseReference(host + "/team/app:v1")
	if err != nil {
		log.Fatal(err)
	}
	tr, err := keychain.New(keyring, keychain.Options{}).Transport(ref.Context())
	if err != nil {
		log.Fatal(err)
	}
	img, err := remote.Image(ref, remote.WithTransport(tr.Wrapper()))
	if err != nil {
		log.Fatal(err)
	}
	layers, err := img.Layers()
	fmt.Println(len(layers), "layers, pulled by", tr.Credential().Username, err)
	// Output:
	// 2 layers, pulled by puller <nil>
}

// Package crane takes the same transport. A copy needs two transports, because source and target
// are two repositories with different credentials.
func ExampleTransport_copy() {
	keyring, host, stop := exampleRegistry("team/app")
	defer stop()
	keys := keychain.New(keyring, keychain.Options{})

	from, to := host+"/team/app:v1", host+"/copies/app:v1"
	wrapper := func(image string) crane.Option {
		ref, err := name.ParseReference(image)
		if err != nil {
			log.Fatal(err)
		}
		tr, err := keys.Transport(ref.Context())
		if err != nil {
			log.Fatal(err)
		}
		return crane.WithTransport(tr.Wrapper())
	}
	img, err := crane.Pull(from, wrapper(from))
	if err != nil {
		log.Fatal(err)
	}
	err = crane.Push(img, to, wrapper(to))
	fmt.Println(err)
	// Output:
	// <nil>
}

// APIs that accept only an authn.Keychain get only the first credential. Here the registry rejects
// it.
func ExampleKeychain() {
	keyring, host, stop := exampleRegistry("team/app")
	defer stop()

	keys := keychain.New(keyring, keychain.Options{})
	chain := authn.NewMultiKeychain(keys, authn.DefaultKeychain)
	_, err := crane.Digest(host+"/team/app:v1", crane.WithAuthFromKeychain(chain))
	fmt.Println("refused:", err != nil)
	// Output:
	// refused: true
}

// A controller pulls for a pod, with its pull secrets and the identity of its
// service account.
func ExampleOptions_pod() {
	keyring, host, stop := exampleRegistry("team/app")
	defer stop()
	client, stopCluster := exampleCluster(host)
	defer stopCluster()
	ctx := context.Background()

	pod, err := client.Pod(ctx, "ci", "web")
	if err != nil {
		log.Fatal(err)
	}
	secrets, err := client.PullSecrets(ctx, pod.Namespace, pod.PullSecrets)
	if err != nil {
		log.Println(err) // a kubelet continues with the secrets that it can read
	}
	keys := keychain.New(keyring, keychain.Options{For: regcred.Request{Pod: &pod.Pod, PullSecrets: secrets}})
	for _, image := range pod.Images {
		ref, err := name.ParseReference(image)
		if err != nil {
			log.Fatal(err)
		}
		tr, err := keys.Transport(ref.Context())
		if err != nil {
			log.Fatal(err)
		}
		_, err = remote.Head(ref, remote.WithContext(ctx), remote.WithTransport(tr.Wrapper()))
		fmt.Println(ref.Context().RepositoryStr(), tr.Credential().Origin.PullSecret.Name, err)
	}
	// Output:
	// team/app registry-login <nil>
}

// exampleRegistry returns a registry with an image that "puller" may pull and push, and a Keyring
// with two providers for it. The first provider returns a stale credential.
func exampleRegistry(repository string) (keyring *regcred.Keyring, host string, stop func()) {
	registry, err := testregistry.New(testregistry.Options{Auth: testregistry.AuthBearer, Users: map[string]string{"puller": "open-sesame"}})
	if err != nil {
		log.Fatal(err)
	}
	host = registry.Addr()
	if _, err := registry.Push(repository, "v1", testregistry.Image{}); err != nil {
		log.Fatal(err)
	}
	providers := map[string]plugin.Provider{}
	text := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
	for name, password := range map[string]string{"1-stale": "of last year", "2-good": "open-sesame"} {
		providers[name] = plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) {
			login := plugin.AuthConfig{Username: "puller", Password: plugin.NewSecret(password)}
			return &plugin.Response{CacheKeyType: plugin.CacheRegistry, CacheDuration: new(time.Hour), Auth: map[string]plugin.AuthConfig{host: login}}, nil
		})
	}
	for _, name := range []string{"1-stale", "2-good"} {
		text += fmt.Sprintf("- {name: %s, apiVersion: credentialprovider.kubelet.k8s.io/v1, defaultCacheDuration: 1h, matchImages: [%q]}\n", name, host)
	}
	cfg, err := config.Parse("example.yaml", []byte(text))
	if err != nil {
		log.Fatal(err)
	}
	keyring, err = regcred.New(cfg, regcred.Options{InProcess: providers})
	if err != nil {
		log.Fatal(err)
	}
	return keyring, host, func() {
		keyring.Close()
		registry.Close()
	}
}

// exampleCluster returns a client of an API server with one pod. The pod has one image and one pull
// secret.
func exampleCluster(host string) (client *kube.Client, stop func()) {
	api, err := testkube.New(testkube.Options{})
	if err != nil {
		log.Fatal(err)
	}
	api.AddSecret(testkube.Secret{
		Namespace: "ci", Name: "registry-login", Type: "kubernetes.io/dockerconfigjson",
		Data: map[string][]byte{".dockerconfigjson": fmt.Appendf(nil, `{"auths":{%q:{"username":"puller","password":"open-sesame"}}}`, host)},
	})
	api.AddServiceAccount(testkube.ServiceAccount{Namespace: "ci", Name: "builder"})
	api.AddPod(testkube.Pod{
		Namespace: "ci", Name: "web", ServiceAccount: "builder", Node: "node-1",
		PullSecrets: []string{"registry-login"}, Images: []string{host + "/team/app:v1"},
	})
	dir, err := os.MkdirTemp("", "regcred-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "kubeconfig")
	if err := api.Kubeconfig(path, "system:node:node-1"); err != nil {
		log.Fatal(err)
	}
	cfg, _, err := kubeconfig.Load(kubeconfig.Options{Kubeconfig: path})
	if err != nil {
		log.Fatal(err)
	}
	if client, err = kube.New(cfg, kube.Options{}); err != nil {
		log.Fatal(err)
	}
	return client, func() { api.Close() }
}
