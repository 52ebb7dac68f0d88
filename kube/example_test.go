// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/testkube"
	"github.com/regcred/regcred/kube"
	"github.com/regcred/regcred/plugin"
)

// A pod pulls with its own identity. The plugin gets a token of the pod's service account and
// exchanges it for credentials.
func Example() {
	kubeconfig, stop := exampleCluster()
	defer stop()
	ctx := context.Background()

	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	client, err := kube.New(cfg, kube.Options{})
	if err != nil {
		log.Fatal(err)
	}
	config, err := config.Load("testdata/config.yaml")
	if err != nil {
		log.Fatal(err)
	}
	keyring, err := regcred.New(config, regcred.Options{
		BinDir:          "/usr/libexec/kubelet-plugins",
		ServiceAccounts: client,
		InProcess:       map[string]plugin.Provider{"exchange": plugin.ProviderFunc(exchangePlugin)},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer keyring.Close()

	pod, err := client.Pod(ctx, "ci", "web")
	if err != nil {
		log.Fatal(err)
	}
	for _, image := range pod.Images {
		result, err := keyring.Lookup(ctx, regcred.Request{Image: image, Pod: &pod.Pod})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(image, result.Credentials[0].Username, result.Credentials[0].Password)
	}
	// Output:
	// registry.example/init:1 reader [redacted]
	// registry.example/app:1 reader [redacted]
}

// exchangePlugin is an in-process plugin, so that the example needs no executable.
func exchangePlugin(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
	login := plugin.AuthConfig{Username: req.ServiceAccountAnnotations["registry.example/role"], Password: plugin.NewSecret("open-sesame")}
	return &plugin.Response{
		CacheKeyType: plugin.CacheRegistry, CacheDuration: new(time.Hour),
		Auth: map[string]plugin.AuthConfig{"registry.example": login},
	}, nil
}

// exampleCluster starts an API server with one pod. It returns the path of a kubeconfig for the
// pod's node.
func exampleCluster() (kubeconfig string, stop func()) {
	api, err := testkube.New(testkube.Options{})
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "regcred-example")
	if err != nil {
		log.Fatal(err)
	}
	api.AddServiceAccount(testkube.ServiceAccount{
		Namespace: "ci", Name: "builder", Annotations: map[string]string{"registry.example/role": "reader"},
	})
	api.AddPod(testkube.Pod{
		Namespace: "ci", Name: "web", ServiceAccount: "builder", Node: "node-1",
		InitImages: []string{"registry.example/init:1"}, Images: []string{"registry.example/app:1"},
	})
	api.Grant("system:node:node-1", testkube.AudienceVerb, "registry.example")
	kubeconfig = filepath.Join(dir, "kubelet.conf")
	if err := api.Kubeconfig(kubeconfig, "system:node:node-1"); err != nil {
		log.Fatal(err)
	}
	return kubeconfig, func() {
		api.Close()
		_ = os.RemoveAll(dir)
	}
}
