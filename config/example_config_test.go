// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config_test

import (
	"fmt"

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
	// testdata/typos.yaml:4:9: providers[0].name: is a boolean, but must be a string: quote it (in YAML the words yes, no, on and off are booleans): "true"
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
	// testdata/wrong.yaml:5:9: providers[0].name: must not have blanks: rename the plugin: "my…"
	// testdata/wrong.yaml:6:17: providers[0].matchImages[0]: not a pattern that a kubelet takes: what follows the first colon of the host is not a port: "registry.example.com:port"
	// testdata/wrong.yaml:7:25: providers[0].defaultCacheDuration: must not be negative: "-1h0m0s"
	// testdata/wrong.yaml:8:15: providers[0].apiVersion: not a version of the protocol: it must be credentialprovider.kubelet.k8s.io/v1, credentialprovider.kubelet.k8s.io/v1beta1 or credentialprovider.kubelet.k8s.io/v1alpha1: "credentialprovider.kubelet.k8s.io/v2"
}
