// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registry

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/match"
)

// realHosts lists registry hosts in the providers' documentation.
const realHosts = `
111122223333.dkr.ecr.us-east-1.amazonaws.com 111122223333.dkr.ecr.eu-central-2.amazonaws.com 111122223333.dkr.ecr.ap-southeast-7.amazonaws.com
111122223333.dkr.ecr.mx-central-1.amazonaws.com 111122223333.dkr.ecr.ca-west-1.amazonaws.com 111122223333.dkr.ecr.il-central-1.amazonaws.com
111122223333.dkr.ecr.me-south-1.amazonaws.com 111122223333.dkr.ecr.af-south-1.amazonaws.com 111122223333.dkr.ecr.sa-east-1.amazonaws.com
111122223333.dkr.ecr.us-gov-west-1.amazonaws.com 111122223333.dkr.ecr-fips.us-gov-east-1.amazonaws.com 111122223333.dkr.ecr-fips.us-west-2.amazonaws.com
111122223333.dkr-ecr.eu-west-1.on.aws 111122223333.dkr-ecr-fips.us-east-2.on.aws 111122223333.dkr.ecr.eusc-de-east-1.amazonaws.eu
111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn 111122223333.dkr.ecr.cn-northwest-1.amazonaws.com.cn
111122223333.dkr-ecr.cn-north-1.on.amazonwebservices.com.cn 111122223333.dkr.ecr.us-iso-east-1.c2s.ic.gov 111122223333.dkr.ecr.us-iso-west-1.c2s.ic.gov
111122223333.dkr.ecr.us-isob-east-1.sc2s.sgov.gov 111122223333.dkr.ecr.us-isof-south-1.csp.hci.ic.gov 111122223333.dkr.ecr.eu-isoe-west-1.cloud.adc-e.uk
vpce-0a1b2c3d-4e5f6a7b.dkr.ecr.us-east-1.vpce.amazonaws.com public.ecr.aws ecr-public.aws.com
gcr.io us.gcr.io eu.gcr.io asia.gcr.io mirror.gcr.io k8s.gcr.io marketplace.gcr.io gke.gcr.io l.gcr.io staging-k8s.gcr.io
us-docker.pkg.dev europe-docker.pkg.dev asia-docker.pkg.dev us-central1-docker.pkg.dev northamerica-northeast2-docker.pkg.dev me-central2-docker.pkg.dev
docker.europe-west3.rep.pkg.dev docker.us-central1.rep.pkg.dev
contoso.azurecr.io contoso-a1b2c3d4e5f6a7b8.azurecr.io contoso.azurecr.cn contoso.azurecr.us contoso.eastus.geo.azurecr.io contoso-abc123.westeurope.geo.azurecr.io
mcr.microsoft.com ghcr.io docker.pkg.github.com quay.io registry.gitlab.com gitlab.com registry.k8s.io k8s.gcr.io registry-sandbox.k8s.io
acme.jfrog.io releases-docker.jfrog.io acme-docker-local.jfrog.io fra.ocir.io us-ashburn-1.ocir.io
`

// unrelatedHosts lists other hosts. Some of them resemble the hosts of a known service.
const unrelatedHosts = `
000000000000.dkr.ecr.us-east-1.localhost.localstack.cloud 111122223333.dkr.ecr.us-east-1.amazonaws.com.proxy.example ecr.aws.corp.example
registry-1234.us-east-1.elb.amazonaws.com my-ecr-proxy-1.eu-west-1.elb.amazonaws.com ec2-198-51-100-1.compute-1.amazonaws.com
*.us-east-1.elb.amazonaws.com *.compute-1.amazonaws.com docker.io registry.redhat.io *.*.registry.io *.* * *.com *.*.*.* *.*.*.io app*.k8s.io *.k8s.io k8s.*.io
ghe.example containers.octocorp.ghe.com gitlab.corp.example registry.gitlab.corp.example *.artifactory.corp.example contoso.azurecr.example
azurecr.corp.example pkg.dev.example harbor.example localhost 10.0.0.1 *.cr.aliyuncs.com registry.digitalocean.com icr.io *.icr.io
`

// checkForm calls CheckPatternForm for a pattern.
func checkForm(pattern string) (UnmatchablePattern, bool) {
	host, port, _ := strings.Cut(PatternHost(pattern), ":")
	return CheckPatternForm(host, port)
}

// TestCheckReal verifies that no problem is reported for real hosts, for patterns that match them,
// and for other hosts.
func TestCheckReal(t *testing.T) {
	for host := range strings.FieldsSeq(realHosts + unrelatedHosts) {
		patterns := []string{host, host + ":443"}
		labels := strings.Split(host, ".")
		for i, l := range labels {
			for _, glob := range []string{"*", l + "*", "*" + l, l[:len(l)/2] + "*" + l[len(l)/2:], l[:len(l)/2] + "*"} {
				patterns = append(patterns, strings.Join(slices.Replace(slices.Clone(labels), i, i+1, glob), "."))
			}
		}
		if strings.Contains(host, "*") || strings.Contains(unrelatedHosts, "\n"+host) {
			patterns = patterns[:1]
		}
		for _, p := range patterns {
			if s, ok := checkForm(p); ok && strings.Contains(realHosts, host) {
				t.Errorf("%s: %+v", p, s)
			}
		}
		if s, ok := checkForm(host); ok {
			t.Errorf("%s: %+v", host, s)
		}
	}
}

func TestCheckForm(t *testing.T) {
	const labels6, docker = "the pattern has 5 labels instead of 6 (a * matches one label)", "a location such as europe-west1 with -docker"
	tests := []struct{ pattern, form, reason, instead string }{
		{"*.dkr.ecr.amazonaws.com", "ACCOUNT.dkr.ecr.REGION.amazonaws.com", labels6, "*.dkr.ecr.*.amazonaws.com"},
		{"111122223333.dkr.ecr.amazonaws.com", "ACCOUNT.dkr.ecr.REGION.amazonaws.com", labels6, "111122223333.dkr.ecr.*.amazonaws.com"},
		{"dkr.ecr.us-west-2.amazonaws.com", "ACCOUNT.dkr.ecr.REGION.amazonaws.com", labels6, "*.dkr.ecr.us-west-2.amazonaws.com"},
		{"*.amazonaws.com", "ACCOUNT.dkr.ecr.REGION.amazonaws.com", "the pattern has 3 labels instead of 6 (a * matches one label)", "*.dkr.ecr.*.amazonaws.com"},
		{"1111222233.dkr.ecr.*.amazonaws.com", "ACCOUNT.dkr.ecr.REGION.amazonaws.com", `label 1, "1111222233", is not a 12-digit account`, "*.dkr.ecr.*.amazonaws.com"},
		{"*.dkr.ecr.us-east.amazonaws.com", "ACCOUNT.dkr.ecr.REGION.amazonaws.com", `label 4, "us-east", is not a region such as us-east-1`, "*.dkr.ecr.*.amazonaws.com"},
		{"*.dkr.ecr.cn-north-1.amazonaws.com", "ACCOUNT.dkr.ecr.REGION.amazonaws.com", `label 4, "cn-north-1", is not a region such as us-east-1`, "*.dkr.ecr.*.amazonaws.com"},
		{"*.dkr.ecr.cn-*.amazonaws.com", "ACCOUNT.dkr.ecr.REGION.amazonaws.com", `label 4, "cn-*", is not a region such as us-east-1`, "*.dkr.ecr.*.amazonaws.com"},
		{"*.dkr.ecr.eu-west-1.amazonaws.com.cn", "ACCOUNT.dkr.ecr.REGION.amazonaws.com.cn", `label 4, "eu-west-1", is not a region that begins with cn-`, "*.dkr.ecr.*.amazonaws.com.cn"},
		{"*.dkr-ecr.*.amazonaws.com", "ACCOUNT.dkr.ecr.REGION.amazonaws.com", labels6, "*.dkr.ecr.*.amazonaws.com"},
		{"*.dkr.ecr.*.on.aws", "ACCOUNT.dkr-ecr.REGION.on.aws", "the pattern has 6 labels instead of 5 (a * matches one label)", "*.dkr-ecr.*.on.aws"},
		{"*.dkr.ecr.*", "ACCOUNT.dkr.ecr.REGION.amazonaws.com", "the pattern has 4 labels instead of 6 (a * matches one label)", "*.dkr.ecr.*.amazonaws.com"},
		{"*.ecr.*.amazonaws.com", "ACCOUNT.dkr.ecr.REGION.amazonaws.com", labels6, "*.dkr.ecr.*.amazonaws.com"},
		{"api.ecr.us-east-1.amazonaws.com", "ACCOUNT.dkr.ecr.REGION.amazonaws.com", labels6, "*.dkr.ecr.us-east-1.amazonaws.com"},
		{"gallery.ecr.aws", "public.ecr.aws", `label 1, "gallery", is not "public"`, "public.ecr.aws"},
		{"*.public.ecr.aws", "public.ecr.aws", "the pattern has 4 labels instead of 3 (a * matches one label)", "public.ecr.aws"},
		{"*.dkr.ecr.*.amazonaws.com:5000", "ACCOUNT.dkr.ecr.REGION.amazonaws.com", "these hosts do not listen on port 5000", "*.dkr.ecr.*.amazonaws.com"},
		{"pkg.dev", "LOCATION-docker.pkg.dev", "the pattern has 2 labels instead of 3 (a * matches one label)", "*-docker.pkg.dev"},
		{"docker.pkg.dev", "LOCATION-docker.pkg.dev", `label 1, "docker", is not ` + docker, "*-docker.pkg.dev"},
		{"us-central1.pkg.dev", "LOCATION-docker.pkg.dev", `label 1, "us-central1", is not ` + docker, "*-docker.pkg.dev"},
		{"*.*.pkg.dev", "LOCATION-docker.pkg.dev", "the pattern has 4 labels instead of 3 (a * matches one label)", "*-docker.pkg.dev"},
		{"*.docker.pkg.dev", "LOCATION-docker.pkg.dev", "the pattern has 4 labels instead of 3 (a * matches one label)", "*-docker.pkg.dev"},
		{"*-npm.pkg.dev", "LOCATION-docker.pkg.dev", `label 1, "*-npm", is not ` + docker, "*-docker.pkg.dev"},
		{"*.*.gcr.io", "NAME.gcr.io", "the pattern has 4 labels instead of 3 (a * matches one label)", "*.gcr.io"},
		{"azurecr.io", "REGISTRY.azurecr.io", "the pattern has 2 labels instead of 3 (a * matches one label)", "*.azurecr.io"},
		{"*.azurecr.com", "REGISTRY.azurecr.io", `label 3, "com", is not "io"`, "*.azurecr.io"},
		{"*.*.azurecr.cn", "REGISTRY.azurecr.cn", "the pattern has 4 labels instead of 3 (a * matches one label)", "*.azurecr.cn"},
		{"contoso.privatelink.azurecr.io", "REGISTRY.azurecr.io", "the pattern has 4 labels instead of 3 (a * matches one label)", "contoso.azurecr.io"},
		{"contoso.eastus.data.azurecr.io", "REGISTRY.azurecr.io", "the pattern has 5 labels instead of 3 (a * matches one label)", "contoso.azurecr.io"},
		{"a_b.azurecr.io", "REGISTRY.azurecr.io", `label 1, "a_b", is not a registry name of 5 to 50 letters and digits`, "*.azurecr.io"},
		{"*.ghcr.io", "ghcr.io", "the pattern has 3 labels instead of 2 (a * matches one label)", "ghcr.io"},
		{"github.com", "docker.pkg.github.com", "the pattern has 2 labels instead of 4 (a * matches one label)", "docker.pkg.github.com"},
		{"*.quay.io", "quay.io", "the pattern has 3 labels instead of 2 (a * matches one label)", "quay.io"},
		{"docker.gitlab.com", "registry.gitlab.com", `label 1, "docker", is not "registry"`, "registry.gitlab.com"},
		{"gitlab.com:5050", "gitlab.com", "these hosts do not listen on port 5050", "gitlab.com"},
		{"k8s.io", "registry.k8s.io", "the pattern has 2 labels instead of 3 (a * matches one label)", "registry.k8s.io"},
		{"jfrog.io", "NAME.jfrog.io", "the pattern has 2 labels instead of 3 (a * matches one label)", "*.jfrog.io"},
		{"ocir.io", "NAME.ocir.io", "the pattern has 2 labels instead of 3 (a * matches one label)", "*.ocir.io"},
		{"*.mcr.microsoft.com", "mcr.microsoft.com", "the pattern has 4 labels instead of 3 (a * matches one label)", "mcr.microsoft.com"},
	}
	for _, tt := range tests {
		s, ok := checkForm(tt.pattern)
		if !ok || s.HostForm != tt.form || s.Reason != tt.reason || s.Suggestion != tt.instead {
			t.Errorf("%s: %v\ngot  %s: %s (%s)\nwant %s: %s (%s)", tt.pattern, ok, s.HostForm, s.Reason, s.Suggestion, tt.form, tt.reason, tt.instead)
		}
		if again, ok := checkForm(s.Suggestion); ok {
			t.Errorf("%s: the proposed %s does not match either: %+v", tt.pattern, s.Suggestion, again)
		}
	}
}

// TestSuggestHost verifies the suggestions for images whose host has another form than the pattern.
func TestSuggestHost(t *testing.T) {
	for _, tt := range []struct{ pattern, image, want string }{
		{"*.azurecr.io", "team.eastus.geo.azurecr.io", "*.*.geo.azurecr.io"},
		{"*.amazonaws.com", "111122223333.dkr.ecr.us-east-1.amazonaws.com", "*.dkr.ecr.*.amazonaws.com"},
		{"*.dkr.ecr.*.amazonaws.com", "111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn", "*.dkr.ecr.*.amazonaws.com.cn"},
		{"team.azurecr.io", "team.eastus.geo.azurecr.io", ""},
		{"*.azurecr.io", "team.azurecr.cn", ""},
		{"*.dkr.ecr.us-east-1.amazonaws.com", "111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn", ""},
		{"*.*.*", "111122223333.dkr.ecr.us-east-1.amazonaws.com", ""},
		{"*.com", "111122223333.dkr.ecr.us-east-1.amazonaws.com", ""},
		{"*.azurecr.io", "a.evil.example", ""},
		{"*.amazonaws.com", "bucket.s3.us-east-1.amazonaws.com", ""},
	} {
		if got := SuggestHost(tt.pattern, tt.image); got != tt.want {
			t.Errorf("%s for %s: got %q, want %q", tt.pattern, tt.image, got, tt.want)
		}
	}
}

func TestHostOwner(t *testing.T) {
	for host, want := range map[string]string{
		"docker.io": "Docker Hub", "registry-1.docker.io": "Docker Hub", "docker.io.example": "",
		"111122223333.dkr.ecr.us-east-1.amazonaws.com": "Amazon ECR", "public.ecr.aws": "Amazon ECR", "s3.us-east-1.amazonaws.com": "",
		"europe-docker.pkg.dev": "Google Artifact Registry", "eu.gcr.io": "Google Container Registry",
		"contoso.azurecr.de": "Azure Container Registry", "ghcr.io": "GitHub Packages", "quay.io": "Quay.io",
		"registry.example": "", "localhost": "", "10.0.0.1": "", "::1": "", "": "",
	} {
		if got := HostOwner(host); got != want {
			t.Errorf("%q: got %q, want %q", host, got, want)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true,
		"LOCALHOST": false, "localhost.": false, "localhost:5000": false, "10.0.0.1": false, "registry.example": false, "": false,
	} {
		if got := IsLoopback(host); got != want {
			t.Errorf("%q: got %v, want %v", host, got, want)
		}
	}
}

// sampleHosts returns one host for each form. It generates labels from their regular expressions. The
// seed selects the alternatives.
func sampleHosts(seed []byte) (list []string) {
	for _, f := range knownServices() {
		for _, form := range f.hostForms() {
			var labels []string
			for _, l := range form.labels {
				text := l.literal
				if l.kind != nil {
					text = l.kind.sampleLabel(seed) + l.literal
				}
				labels = append(labels, text)
			}
			list = append(list, strings.Join(labels, "."))
		}
	}
	return list
}

// FuzzCheckForm verifies that a reported pattern matches no sample host of any service, and that no
// problem is reported for the suggested pattern.
func FuzzCheckForm(f *testing.F) {
	for p := range strings.FieldsSeq(realHosts + unrelatedHosts) {
		f.Add(p, []byte{1, 2, 3})
	}
	for _, p := range []string{"*.dkr.ecr.cn-*.amazonaws.com", "*-*.azurecr.io", "*r.*.geo.azurecr.*", "*o*.*o*.ec*.*-1.amazonaws.com", "1*2.dkr.ecr.*.amazonaws.*"} {
		f.Add(p, []byte{7})
	}
	f.Fuzz(func(t *testing.T, pattern string, seed []byte) {
		if len(pattern) > 200 || len(seed) > 100 || strings.HasPrefix(PatternHost(pattern), "[") {
			return
		}
		wrong, ok := checkForm(pattern)
		if !ok {
			return
		}
		host, port, _ := strings.Cut(PatternHost(pattern), ":")
		p, err := match.Parse(host)
		for _, sample := range sampleHosts(seed) {
			if err == nil && (port == "" || port == "443") && p.Match(sample+"/x") {
				t.Errorf("CheckForm: %q matches no registry of %s, but it matches %s", pattern, wrong.Owner, sample)
			}
		}
		if again, ok := checkForm(wrong.Suggestion); ok {
			t.Errorf("%q: the proposed %q matches no registry either: %s", pattern, wrong.Suggestion, again.Reason)
		}
	})
}

// TestSamples verifies that sample hosts have the form that the upstream plugins require, and that
// different seeds give different hosts.
func TestSamples(t *testing.T) {
	upstream := regexp.MustCompile(`^\d{12}\.dkr[.-]ecr(-fips)?\.[a-zA-Z0-9][a-zA-Z0-9-_]*\.`)
	a, b := sampleHosts([]byte("a")), sampleHosts([]byte("fuzz"))
	if slices.Equal(a, b) || len(a) < 40 {
		t.Errorf("%d samples, the same for two seeds: %v", len(a), slices.Equal(a, b))
	}
	for _, host := range append(a, b...) {
		if _, ok := checkForm(host); ok {
			t.Errorf("%s is reported as an invalid host", host)
		}
		if strings.Contains(host, "dkr") && !strings.Contains(host, "vpce") && !upstream.MatchString(host) {
			t.Errorf("%s does not belong to ECR", host)
		}
	}
}

// TestEveryDomainHasAForm verifies that each domain of ECR and ACR has an example of its host
// names, such as "ACCOUNT.dkr.ecr.REGION.amazonaws.com".
func TestEveryDomainHasAForm(t *testing.T) {
	for domain := range strings.FieldsSeq(AmazonDomains + " " + AzureDomains) {
		if !slices.ContainsFunc(sampleHosts([]byte("x")), func(h string) bool { return strings.HasSuffix(h, "."+domain) }) {
			t.Errorf("no form ends in %s", domain)
		}
	}
}
