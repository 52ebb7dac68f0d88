// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package match_test

import (
	"fmt"

	"github.com/regcred/regcred/match"
)

func ExampleParse() {
	pattern, err := match.Parse("*.registry.example/team")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, repository := range []string{"eu.registry.example/team/app", "eu.registry.example:5000/team/app", "registry.example/team/app"} {
		fmt.Printf("%v %q\n", pattern.Match(repository), pattern.Why(repository))
	}
	// Output:
	// true ""
	// false "port: the image has 5000, but the pattern has none"
	// false "host: 1 label too long: \"*.registry.example\" has 3 labels, but \"registry.example\" has 2 labels (a * matches one label)"
}

func ExampleRepository() {
	for _, image := range []string{"nginx:1.25", "registry.example:5000/team/app:v1", "registry.example", "registry.example/Team/app"} {
		fmt.Println(match.Repository(image))
	}
	// Output:
	// docker.io/library/nginx <nil>
	// registry.example:5000/team/app <nil>
	// docker.io/library/registry.example <nil>
	//  image "registry.example/Team/app": invalid reference format: repository name (Team/app) must be lowercase
}

func ExampleRegistry() {
	for _, host := range []string{"registry.example:5000", "index.docker.io", "https://registry.example"} {
		fmt.Println(match.Registry(host))
	}
	// Output:
	// registry.example:5000 <nil>
	// docker.io <nil>
	//  registry "https://registry.example": must be host[:port], such as registry.example:5000
}

func ExampleSelect() {
	keys := []string{"*.example", "https://registry.example/v1/", "registry.example/team", "https://index.docker.io/v1/"}
	fmt.Println(match.Select(keys, "registry.example/team/app"))
	fmt.Println(match.Select(keys, "docker.io/library/nginx"))
	// Output:
	// [registry.example/team https://registry.example/v1/ *.example]
	// [https://index.docker.io/v1/]
}
