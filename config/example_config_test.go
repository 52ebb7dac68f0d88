// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config_test

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/regcred/regcred/config"
)

func ExampleLoad() {
	c, err := config.Load("testdata/example.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range c.Providers {
		fmt.Println(p.Name, p.MatchImages, p.DefaultCacheDuration)
	}

	_, err = config.Load("testdata/typos.yaml")
	fmt.Println(err)
	// Output:
	// ecr-credential-provider [*.dkr.ecr.*.amazonaws.com public.ecr.aws] 12h0m0s
	// token-credential-provider [registry.example.com:5000/team] 0s
	// testdata/typos.yaml:4:9: providers[0].name: is a boolean, but must be a string: quote it (YAML parses yes, no, on and off as booleans): "true"
	// testdata/typos.yaml:5:3: providers[0].matchimages: unknown field: did you mean matchImages? (case matters)
	// testdata/typos.yaml:6:25: providers[0].defaultCacheDuration: is a number, but must be a duration in quotes, such as "12h", "10m" or "0s": "12"
	// testdata/typos.yaml:7:3: providers[0].apiversion: unknown field: did you mean apiVersion? (case matters)
}

func ExampleConfig_Validate() {
	c, err := config.Load("testdata/wrong.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Validate())
	// Output:
	// testdata/wrong.yaml:5:9: providers[0].name: must not contain spaces: rename the plugin: "my…"
	// testdata/wrong.yaml:6:17: providers[0].matchImages[0]: invalid pattern for the kubelet: the text after the first colon in the host is not a port: "registry.example.com:port"
	// testdata/wrong.yaml:7:25: providers[0].defaultCacheDuration: must not be negative: "-1h0m0s"
	// testdata/wrong.yaml:8:15: providers[0].apiVersion: unknown protocol version: must be credentialprovider.kubelet.k8s.io/v1, credentialprovider.kubelet.k8s.io/v1beta1 or credentialprovider.kubelet.k8s.io/v1alpha1: "credentialprovider.kubelet.k8s.io/v2"
}

// The data is already in memory; the name is used in errors.
func ExampleParse() {
	data := []byte(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: ecr-credential-provider
  matchImage: ["*.dkr.ecr.*.amazonaws.com"]
  defaultCacheDuration: 12h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
`)
	_, err := config.Parse("ConfigMap kube-system/providers", data)
	fmt.Println(err)
	if problem, ok := errors.AsType[*config.FieldError](err); ok {
		fmt.Println(problem.Line, problem.Path)
	}
	// Output:
	// ConfigMap kube-system/providers:5:3: providers[0].matchImage: unknown field: did you mean matchImages?
	// 5 providers[0].matchImage
}

func ExampleParseDir() {
	file := func(name string) []byte {
		return []byte(`{"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [{"name": "` + name + `"}]}`)
	}
	c, err := config.ParseDir("providers.d", map[string][]byte{"20-gcr.json": file("gcr"), "10-ecr.json": file("ecr")})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, p := range c.Providers {
		fmt.Println(p.Name, filepath.ToSlash(c.Position(i, "name").String()))
	}

	_, err = config.ParseDir("providers.d", map[string][]byte{"10-ecr.json": file("ecr"), "20-more.json": file("ecr")})
	fmt.Println(filepath.ToSlash(err.Error()))
	// Output:
	// ecr providers.d/10-ecr.json:1:103
	// gcr providers.d/20-gcr.json:1:103
	// providers.d/20-more.json:1:103: providers[0].name: duplicate provider name (also at providers.d/10-ecr.json:1:103); names must be unique across all files: "ecr"
}

// An older kubelet may reject what the newest one accepts.
func ExampleConfig_ValidateFor() {
	c, err := config.Load("testdata/example.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Validate())
	fmt.Println(c.ValidateFor(config.Target{KubeletVersion: "1.32"}))
	// Output:
	// <nil>
	// testdata/example.yaml:20:5: providers[1].tokenAttributes: kubelet 1.32 does not support tokenAttributes (added in 1.33)
	// testdata/example.yaml:21:16: providers[1].tokenAttributes.cacheType: kubelet 1.32 does not support cacheType (added in 1.34); remove it: "ServiceAccount"
}

// A node with another hash in its metrics has read other bytes.
func ExampleConfig_Hash() {
	c, err := config.Load("testdata/example.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Hash())
	// Output:
	// sha256:4741626e0f0189dd318bd59df26cd509e97f3f66c1f6aece0e634eeec51422f6
}
