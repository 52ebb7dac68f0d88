// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package family

import (
	"slices"
	"strings"
	"sync"
)

// languages returns the kinds of labels. Regions of AWS are named by partition,
// and what is in one is in no other: these begin so, or as none of the special
// ones.
func languages(region string) []language {
	partitions := []string{"cn-", "us-iso", "eu-iso", "eusc-"}
	aws := language{name: "REGION", what: "a region such as us-east-1", expr: `[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}`, example: "us-east-1", not: partitions}
	if region != "" {
		aws = language{name: "REGION", what: "a region that begins with " + region, expr: region + `([a-z]+-)*[a-z]+-[0-9]{1,2}`, example: region + "east-1"}
	}
	return []language{
		aws,
		{name: "ACCOUNT", what: "a 12-digit account", expr: `[0-9]{12}`, example: "111122223333"},
		{name: "ENDPOINT", what: "a VPC endpoint", expr: `vpce-[0-9a-z-]+`, example: "vpce-0"},
		{name: "LOCATION", what: "a location such as europe-west1", expr: `[a-z]+[a-z0-9-]*`, example: "europe-west1"},
		// With the hash of a domain name label, which follows a dash.
		{name: "REGISTRY", what: "a registry name of 5 to 50 letters and digits", expr: `[a-z0-9]{5,50}(-[a-z0-9]+)?`, example: "registry"},
		{name: "NAME", what: "a DNS label", expr: `[a-z0-9]([a-z0-9-]*[a-z0-9])?`, example: "name"},
	}
}

func forms(region string, texts ...string) (list []form) {
	for _, text := range texts {
		list = append(list, compile(text, languages(region)))
	}
	return list
}

// rare marks forms that few use.
func rare(list []form) []form {
	for i := range list {
		list[i].rare = true
	}
	return list
}

// families are the registries that are known. Sources: the owners' own
// documentation of their endpoints, and the plugins that they publish.
var families = sync.OnceValue(func() []*family {
	return []*family{
		{"Amazon ECR", slices.Concat(
			forms("", "ACCOUNT.dkr.ecr.REGION.amazonaws.com", "ACCOUNT.dkr.ecr-fips.REGION.amazonaws.com",
				"ACCOUNT.dkr-ecr.REGION.on.aws", "ACCOUNT.dkr-ecr-fips.REGION.on.aws",
				"public.ecr.aws", "ecr-public.aws.com"),
			rare(forms("", "ENDPOINT.dkr.ecr.REGION.vpce.amazonaws.com")),
			forms("cn-", "ACCOUNT.dkr.ecr.REGION.amazonaws.com.cn", "ACCOUNT.dkr-ecr.REGION.on.amazonwebservices.com.cn"),
			rare(forms("cn-", "ENDPOINT.dkr.ecr.REGION.vpce.amazonaws.com.cn")),
			forms("eusc-", "ACCOUNT.dkr.ecr.REGION.amazonaws.eu", "ACCOUNT.dkr-ecr.REGION.on.amazonwebservices.eu"),
			isolated("us-iso-", "c2s.ic.gov", "on.aws.ic.gov"),
			isolated("us-isob-", "sc2s.sgov.gov", "on.aws.scloud"),
			isolated("us-isof-", "csp.hci.ic.gov", "on.aws.hci.ic.gov"),
			isolated("eu-isoe-", "cloud.adc-e.uk", "on.cloud-aws.adc-e.uk"),
		), isAmazons},
		{"Google Artifact Registry", append(forms("", "LOCATION-docker.pkg.dev"), rare(forms("", "docker.LOCATION.rep.pkg.dev"))...), under("pkg.dev")},
		{"Google Container Registry", forms("", "gcr.io", "NAME.gcr.io"), under("gcr.io")},
		{"Azure Container Registry", append(
			forms("", "REGISTRY.azurecr.io", "REGISTRY.azurecr.cn", "REGISTRY.azurecr.us", "REGISTRY.azurecr.de"),
			rare(forms("", "REGISTRY.NAME.geo.azurecr.io", "REGISTRY.NAME.geo.azurecr.cn", "REGISTRY.NAME.geo.azurecr.us", "REGISTRY.NAME.geo.azurecr.de"))...), isAzures},
		{"Microsoft Artifact Registry", forms("", "mcr.microsoft.com"), under("mcr.microsoft.com")},
		{"GitHub Packages", forms("", "ghcr.io", "docker.pkg.github.com"), under("ghcr.io", "github.com")},
		{"Quay.io", forms("", "quay.io"), under("quay.io")},
		// gitlab.com itself is that of its dependency proxy.
		{"GitLab.com", append(forms("", "registry.gitlab.com"), rare(forms("", "gitlab.com", "registry.NAME.gitlab.com"))...), under("gitlab.com")},
		{"Kubernetes", append(forms("", "registry.k8s.io"), rare(forms("", "NAME.k8s.io"))...), under("k8s.io")},
		{"JFrog", forms("", "NAME.jfrog.io", "NAME.NAME.jfrog.io"), under("jfrog.io")},
		{"Oracle Cloud", forms("", "NAME.ocir.io", "NAME.NAME.ocir.io"), under("ocir.io")},
	}
})

// isolated are the forms of a partition that is none of the public's.
func isolated(region, domain, dual string) []form {
	return forms(region, "ACCOUNT.dkr.ecr.REGION."+domain, "ACCOUNT.dkr.ecr-fips.REGION."+domain,
		"ACCOUNT.dkr-ecr.REGION."+dual, "ACCOUNT.dkr-ecr-fips.REGION."+dual)
}

// under reports whether a pattern is for hosts in one of the domains.
func under(domains ...string) func([]string) bool {
	return func(labels []string) bool {
		host := "." + strings.Join(labels, ".")
		return slices.ContainsFunc(domains, func(d string) bool { return strings.HasSuffix(host, "."+d) })
	}
}

// isAmazons: other services, and load balancers before anybody's registry, have
// hosts in these domains too; emulators and proxies have hosts with these
// services.
func isAmazons(labels []string) bool {
	var service, short, others bool
	for i, s := range labels {
		switch s {
		case "dkr", "ecr", "ecr-fips", "dkr-ecr", "dkr-ecr-fips", "ecr-public":
			service = true
			short = short || i > 0 && labels[i-1]+"."+s == "dkr.ecr" || s == "dkr-ecr"
		case "*", "amazonaws", "com", "cn", "eu":
		default:
			others = true
		}
	}
	switch last := labels[len(labels)-1]; {
	case short && strings.Trim(last, "*") == "":
		return true // cut off
	case under("amazonaws", "amazonaws.com", "amazonaws.com.cn", "amazonaws.cn", "amazonaws.eu", "amazonaws.net", "amazonaws.org", "amazonaws.*")(labels):
		return service || !others
	}
	return service && under("aws", "aws.com", "amazonwebservices.com", "amazonwebservices.com.cn", "amazonwebservices.eu",
		"c2s.ic.gov", "sc2s.sgov.gov", "csp.hci.ic.gov", "cloud.adc-e.uk")(labels)
}

// isAzures: other sovereign clouds have domains of their own.
func isAzures(labels []string) bool {
	n := len(labels)
	if labels[n-1] == "azurecr" {
		return true
	}
	if n < 2 || labels[n-2] != "azurecr" {
		return false
	}
	switch labels[n-1] {
	case "*", "io", "cn", "us", "de", "com", "net", "org":
		return true
	}
	return false
}
