// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registry

import (
	"slices"
	"strings"
)

// service describes the registry hosts of an operator.
type service struct {
	owner      string
	looksLike  func(labels []string) bool // reports whether a pattern's host is meant for this service
	formTables []formTable
}

// formTable lists host forms, separated by spaces. They are for AWS regions with the prefix
// regionPrefix. A ! marks a rare form.
type formTable struct{ regionPrefix, forms string }

func (s service) hostForms() (list []hostForm) {
	for _, t := range s.formTables {
		list = append(list, parseForms(t.regionPrefix, t.forms)...)
	}
	return list
}

// knownServices lists the known services. The sources are the operators' documentation of endpoints
// and the plugins that they publish.
func knownServices() []service {
	azure := ""
	for domain := range strings.FieldsSeq(AzureDomains) {
		azure += " REGISTRY." + domain + " !REGISTRY.NAME.geo." + domain
	}
	return []service{
		{"Amazon ECR", isAmazonRegistryHost, []formTable{
			{"", `ACCOUNT.dkr.ecr.REGION.amazonaws.com ACCOUNT.dkr.ecr-fips.REGION.amazonaws.com
				ACCOUNT.dkr-ecr.REGION.on.aws ACCOUNT.dkr-ecr-fips.REGION.on.aws
				public.ecr.aws ecr-public.aws.com !ENDPOINT.dkr.ecr.REGION.vpce.amazonaws.com`},
			{"cn-", `ACCOUNT.dkr.ecr.REGION.amazonaws.com.cn ACCOUNT.dkr-ecr.REGION.on.amazonwebservices.com.cn
				!ENDPOINT.dkr.ecr.REGION.vpce.amazonaws.com.cn`},
			{"eusc-", "ACCOUNT.dkr.ecr.REGION.amazonaws.eu ACCOUNT.dkr-ecr.REGION.on.amazonwebservices.eu"},
			isolatedPartitionForms("us-iso-", "c2s.ic.gov", "on.aws.ic.gov"),
			isolatedPartitionForms("us-isob-", "sc2s.sgov.gov", "on.aws.scloud"),
			isolatedPartitionForms("us-isof-", "csp.hci.ic.gov", "on.aws.hci.ic.gov"),
			isolatedPartitionForms("eu-isoe-", "cloud.adc-e.uk", "on.cloud-aws.adc-e.uk"),
		}},
		{"Google Artifact Registry", inDomains("pkg.dev"), []formTable{{"", "LOCATION-docker.pkg.dev !docker.LOCATION.rep.pkg.dev"}}},
		{"Google Container Registry", inDomains("gcr.io"), []formTable{{"", "gcr.io NAME.gcr.io"}}},
		{"Azure Container Registry", isAzureRegistryHost, []formTable{{"", azure}}},
		{"Microsoft Artifact Registry", inDomains(MicrosoftHost), []formTable{{"", MicrosoftHost}}},
		{"GitHub Packages", inDomains("ghcr.io", "github.com"), []formTable{{"", "ghcr.io docker.pkg.github.com"}}},
		{"Quay.io", inDomains("quay.io"), []formTable{{"", "quay.io"}}},
		{"GitLab.com", inDomains("gitlab.com"), []formTable{{"", "registry.gitlab.com !gitlab.com !registry.NAME.gitlab.com"}}}, // gitlab.com hosts the dependency proxy
		{"Kubernetes", inDomains("k8s.io"), []formTable{{"", "registry.k8s.io !NAME.k8s.io"}}},
		{"JFrog", inDomains("jfrog.io"), []formTable{{"", "NAME.jfrog.io NAME.NAME.jfrog.io"}}},
		{"Oracle Cloud", inDomains("ocir.io"), []formTable{{"", "NAME.ocir.io NAME.NAME.ocir.io"}}},
	}
}

// isolatedPartitionForms returns the host forms of an AWS partition that is isolated from the
// public partitions.
func isolatedPartitionForms(regionPrefix, domain, dualStack string) formTable {
	return formTable{regionPrefix, strings.NewReplacer("DOMAIN", domain, "DUAL", dualStack).Replace(
		"ACCOUNT.dkr.ecr.REGION.DOMAIN ACCOUNT.dkr.ecr-fips.REGION.DOMAIN ACCOUNT.dkr-ecr.REGION.DUAL ACCOUNT.dkr-ecr-fips.REGION.DUAL")}
}

// inDomains returns a function that reports whether a host is in one of the domains.
func inDomains(domains ...string) func([]string) bool {
	return func(labels []string) bool {
		host := "." + strings.Join(labels, ".")
		return slices.ContainsFunc(domains, func(d string) bool { return strings.HasSuffix(host, "."+d) })
	}
}

// isAmazonRegistryHost reports whether a pattern's host is meant for ECR. It excludes other AWS
// services and load balancers. It also excludes emulators and proxies that use ECR's labels in
// their own domains.
func isAmazonRegistryHost(labels []string) bool {
	var ecr, private, others bool
	for i, s := range labels {
		switch s {
		case "dkr", "ecr", "ecr-fips", "dkr-ecr", "dkr-ecr-fips", "ecr-public":
			ecr = true
			private = private || i > 0 && labels[i-1]+"."+s == "dkr.ecr" || s == "dkr-ecr"
		case "*", "amazonaws", "com", "cn", "eu":
		default:
			others = true
		}
	}
	switch last := labels[len(labels)-1]; {
	case private && strings.Trim(last, "*") == "":
		return true // the domain is missing
	case inDomains("amazonaws", "amazonaws.com", "amazonaws.com.cn", "amazonaws.cn", "amazonaws.eu", "amazonaws.net", "amazonaws.org", "amazonaws.*")(labels):
		return ecr || !others
	}
	return ecr && inDomains("aws", "aws.com", "amazonwebservices.com", "amazonwebservices.com.cn", "amazonwebservices.eu",
		"c2s.ic.gov", "sc2s.sgov.gov", "csp.hci.ic.gov", "cloud.adc-e.uk")(labels)
}

// isAzureRegistryHost reports whether a pattern's host is meant for ACR. It accepts common wrong
// top-level domains, but not the domains of custom clouds.
func isAzureRegistryHost(labels []string) bool {
	n := len(labels)
	return labels[n-1] == "azurecr" || n > 1 && labels[n-2] == "azurecr" &&
		slices.Contains([]string{"*", "io", "cn", "us", "de", "com", "net", "org"}, labels[n-1])
}
