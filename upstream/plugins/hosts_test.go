// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugins

import "slices"

// regionEnv is a default region, which custom hosts require.
var regionEnv = []string{"AWS_REGION=eu-central-1"}

// hostScenarios lists scenarios with different registry host names.
func hostScenarios() []scenario {
	var list []scenario
	for _, host := range []string{
		"111122223333.dkr.ecr.eu-west-3.amazonaws.com",
		"111122223333.dkr.ecr.us-gov-west-1.amazonaws.com",
		"111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn",
		"111122223333.dkr.ecr.eusc-de-east-1.amazonaws.eu",
		"111122223333.dkr.ecr.us-iso-east-1.c2s.ic.gov",
		"111122223333.dkr.ecr.us-isob-east-1.sc2s.sgov.gov",
		"111122223333.dkr.ecr.eu-isoe-west-1.cloud.adc-e.uk",
		"111122223333.dkr.ecr.us-isof-east-1.csp.hci.ic.gov",
		"111122223333.dkr-ecr.us-east-2.on.aws",
		"111122223333.dkr-ecr.cn-north-1.on.amazonwebservices.com.cn",
		"111122223333.dkr-ecr-fips.us-gov-east-1.on.aws",
		"111122223333.dkr.ecr-fips.us-west-2.amazonaws.com",
		"111122223333.dkr.ecr.us-west-2.on.aws",
		"111122223333.dkr-ecr.us-west-2.amazonaws.com",
		"111122223333.dkr.ecr.us-east-1.amazonaws.com.cn",
		"111122223333.dkr.ecr.mars-north-1.amazonaws.com",
		"public.ecr.aws",
		"ecr-public.aws.com",
	} {
		list = append(list, scenario{name: host, image: host + "/team/app"})
	}
	// With a region, upstream returns the node's credentials for any host.
	for _, host := range []string{
		"registry.example.com", "registry.k8s.io", "localhost", "127.0.0.1",
		"11112222333.dkr.ecr.us-west-2.amazonaws.com",
		"111122223333.dkr.ecr.us-west-2.amazonaws.com.evil.com",
		"111122223333.dkr.ecr.us-west-2.amazonaws.com.",
		"111122223333.DKR.ECR.us-west-2.amazonaws.com",
		"111122223333.dkr.ecr.us_west-2!.amazonaws.com",
		"111122223333.dkr-ecr.eusc-de-east-1.on.amazonwebservices.eu",
		"evil-public.ecr.aws",
	} {
		list = append(list, scenario{name: host + ", with a region", image: host + "/team/app", env: regionEnv})
	}
	return groupScenarios("host", slices.Concat(list, withUpstreamFlags(list), customHostScenarios())...)
}

// withUpstreamFlags returns the scenarios with flags that make regcred's plugin behave like
// upstream's: it serves all hosts and uses the plain endpoints. It also appends a few scenarios.
func withUpstreamFlags(list []scenario) []scenario {
	list = slices.Clone(list)
	for i := range list {
		list[i].name += ", any host"
		list[i].ourArgs = []string{"--any-host", "--plain-endpoints"}
	}
	for _, host := range []string{"nginx", "library/nginx", "docker.io/library/nginx"} {
		list = append(list, scenario{name: host + ", any host", image: host, env: regionEnv, ourArgs: []string{"--any-host"}})
	}
	empty := scenario{name: "registry.k8s.io, other hosts are empty", image: "registry.k8s.io/app", env: regionEnv, ourArgs: []string{"--other-hosts=empty"}}
	return append(list, empty)
}

// customHostScenarios lists scenarios with host names that are unrelated to AWS, and with unusual
// references.
func customHostScenarios() []scenario {
	allow := []string{"--allow-host=registry.example.com"}
	return []scenario{
		{name: "registry.example.com, without a region", image: "registry.example.com/app"},
		{name: "registry.example.com, allowed", image: "registry.example.com/app", env: regionEnv, ourArgs: allow},
		{name: "registry.example.com, allowed, AWS_DEFAULT_REGION", image: "registry.example.com/app", env: []string{"AWS_DEFAULT_REGION=eu-central-1"}, ourArgs: allow},
		{name: "registry.example.com, allowed, region of a profile", image: "registry.example.com/app", ourArgs: allow, arrange: useProfile("[default]\nregion = ap-south-1\n")},
		{name: "registry.example.com, allowed, without a region", image: "registry.example.com/app", ourArgs: allow,
			arrange: func(c *scenarioCloud) { c.AWS.Update(removeRegion) }},
		{name: "registry.example.com, allowed, region of the instance alone", image: "registry.example.com/app", ourArgs: allow},
		{name: "registry.example.com:5000, allowed", image: "registry.example.com:5000/app", env: regionEnv, ourArgs: []string{"--allow-host=registry.example.com:5000"}},
		{name: "nginx", image: "nginx", env: regionEnv},
		{name: "library/nginx", image: "library/nginx", env: regionEnv},
		{name: "localhost:5000", image: "localhost:5000/app", env: regionEnv},
		{name: "with a scheme", image: "https://" + privateRepository},
		{name: "with port 443", image: "111122223333.dkr.ecr.us-west-2.amazonaws.com:443/team/app"},
		{name: "with a tag", image: privateRepository + ":v1"},
		{name: "with a digest", image: privateRepository + "@sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"},
		{name: "without a path", image: "111122223333.dkr.ecr.us-west-2.amazonaws.com"},
		{name: "public in the path", image: privateRepository + "/public.ecr.aws/x"},
		{name: "private in the path of public", image: "public.ecr.aws/" + privateRepository},
		{name: "with a space", image: "111122223333.dkr.ecr.us-west-2.amazonaws.com .x/app"},
		{name: "with a user", image: "public.ecr.aws@registry.example.com/app", env: regionEnv},
	}
}
