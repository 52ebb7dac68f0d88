// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret_test

import (
	"fmt"
	"time"

	"github.com/regcred/regcred/lint/pullsecret"
)

func ExampleCheck() {
	data := []byte(`{"auths":{"registry.example":{"username":"ci"}}}`)
	r := pullsecret.Check("config.json", data, time.Now())
	fmt.Printf("%s: %d credential\n", r.Kind, r.Credentials)
	for _, f := range r.Findings {
		fmt.Println(f.Severity, f)
	}
	// Output:
	// docker config.json: 1 credential
	// warning config.json:1:42: auths["registry.example"].username: "registry.example" has a user name but no password: containerd does not send it, CRI-O sends an empty password [docker-no-password]
}

func ExampleCheckSecret() {
	r := pullsecret.CheckSecret(pullsecret.Secret{Namespace: "team", Name: "pull", Type: "Opaque"}, time.Now())
	for _, f := range r.Findings {
		fmt.Println(f)
		fmt.Println(f.Fix)
	}
	// Output:
	// Secret team/pull: the Secret has type Opaque, so kubelets silently ignore it as a pull secret [secret-type]
	// create one with kubectl create secret docker-registry
}
