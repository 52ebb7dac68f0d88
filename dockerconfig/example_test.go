// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerconfig_test

import (
	"fmt"

	"github.com/regcred/regcred/dockerconfig"
)

func ExampleParseFile() {
	file, err := dockerconfig.ParseFile([]byte(`{
		"auths": {
			"https://registry.example/v2/": {"username": "all", "password": "open-sesame"},
			"registry.example/team":        {"username": "team", "password": "open-sesame"}
		},
		"credHelpers": {"other.example": "ecr-login"}
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range file.Find("registry.example/team/app") {
		fmt.Println(m.Scope, m.Auth.Username, m.Auth.Password)
	}
	name, server := file.Helper("other.example")
	fmt.Println(name, server)
	// Output:
	// registry.example/team team [redacted]
	// registry.example all [redacted]
	// ecr-login other.example
}
