// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/regcred/regcred/internal/must"
)

func TestParseHost(t *testing.T) {
	for name, tt := range map[string]struct {
		registry string
		want     registryHost // without the registry field
	}{
		"aws":               {"111122223333.dkr.ecr.eu-west-3.amazonaws.com", registryHost{region: "eu-west-3"}},
		"us-gov":            {"111122223333.dkr.ecr.us-gov-west-1.amazonaws.com", registryHost{region: "us-gov-west-1"}},
		"fips":              {"111122223333.dkr.ecr-fips.us-gov-west-1.amazonaws.com", registryHost{region: "us-gov-west-1", fips: true}},
		"china":             {"111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn", registryHost{region: "cn-north-1"}},
		"eusc":              {"111122223333.dkr.ecr.eusc-de-east-1.amazonaws.eu", registryHost{region: "eusc-de-east-1"}},
		"dual stack":        {"111122223333.dkr-ecr.us-east-2.on.aws", registryHost{region: "us-east-2", dualStack: true}},
		"dual stack, fips":  {"111122223333.dkr-ecr-fips.us-gov-east-1.on.aws", registryHost{region: "us-gov-east-1", fips: true, dualStack: true}},
		"dual stack, china": {"111122223333.dkr-ecr.cn-north-1.on.amazonwebservices.com.cn", registryHost{region: "cn-north-1", dualStack: true}},
		"iso":               {"111122223333.dkr.ecr.us-iso-east-1.c2s.ic.gov", registryHost{region: "us-iso-east-1"}},
		"iso-b":             {"111122223333.dkr.ecr.us-isob-east-1.sc2s.sgov.gov", registryHost{region: "us-isob-east-1"}},
		"iso-e":             {"111122223333.dkr.ecr.eu-isoe-west-1.cloud.adc-e.uk", registryHost{region: "eu-isoe-west-1"}},
		"iso-f":             {"111122223333.dkr.ecr.us-isof-east-1.csp.hci.ic.gov", registryHost{region: "us-isof-east-1"}},
		"dots with on.aws":  {"111122223333.dkr.ecr.us-east-2.on.aws", registryHost{region: "us-east-2", dualStack: true}},
		"dash without":      {"111122223333.dkr-ecr.us-east-2.amazonaws.com", registryHost{region: "us-east-2"}},
		"upper case":        {"111122223333.DKR.ECR.us-east-2.AmazonAWS.com", registryHost{region: "us-east-2"}},
		"port":              {"111122223333.dkr.ecr.eu-west-3.amazonaws.com:443", registryHost{region: "eu-west-3"}},
		"public":            {"public.ecr.aws", registryHost{public: true}},
		"public, port":      {"public.ecr.aws:443", registryHost{public: true}},
		"public dual stack": {"ecr-public.aws.com", registryHost{public: true, dualStack: true}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.want.registry = tt.registry
			if !tt.want.public {
				tt.want.account = "111122223333"
			}
			if got, ok := parseHost(tt.registry); !ok || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, ok, tt.want)
			}
		})
	}
}

// TestEndpointFollowsHost verifies that the form of the registry's host selects the API endpoint.
// Settings in the SDK's configuration take precedence.
func TestEndpointFollowsHost(t *testing.T) {
	const off, on = aws.FIPSEndpointStateDisabled, aws.FIPSEndpointStateEnabled
	const offDual, onDual = aws.DualStackEndpointStateDisabled, aws.DualStackEndpointStateEnabled
	custom := new(string)
	for _, tt := range []struct {
		host     registryHost
		plain    bool
		custom   *string
		fips     aws.FIPSEndpointState
		dual     aws.DualStackEndpointState
		wantFIPS aws.FIPSEndpointState
		wantDual aws.DualStackEndpointState
		fallback bool
	}{
		{registryHost{}, false, nil, 0, 0, 0, 0, false},
		{registryHost{}, false, nil, on, onDual, on, onDual, false},
		{registryHost{fips: true}, false, nil, 0, 0, on, 0, false},
		{registryHost{dualStack: true}, false, nil, 0, 0, 0, onDual, true},
		{registryHost{fips: true, dualStack: true}, false, nil, 0, 0, on, onDual, true},
		{registryHost{fips: true, dualStack: true}, false, nil, off, onDual, off, onDual, false},
		{registryHost{fips: true, dualStack: true}, false, nil, off, offDual, off, offDual, false},
		{registryHost{fips: true, dualStack: true}, false, custom, 0, 0, 0, 0, false},
		{registryHost{fips: true, dualStack: true}, true, nil, 0, 0, 0, 0, false},
		{registryHost{fips: true, dualStack: true}, true, nil, on, onDual, on, onDual, false},
	} {
		fips, dual := tt.fips, tt.dual
		s := &session{host: tt.host, opts: Options{PlainEndpoints: tt.plain}}
		if s.setEndpointOptions(tt.custom, &fips, &dual); fips != tt.wantFIPS || dual != tt.wantDual || s.httpClient.hasFallback.Load() != tt.fallback {
			t.Errorf("%+v: got %d, %d, %v", tt, fips, dual, s.httpClient.hasFallback.Load())
		}
	}
}

func TestParseHostRefuses(t *testing.T) {
	for _, registry := range []string{
		"", "nginx", "docker.io", "registry.k8s.io", "localhost:5000", "[::1]:5000", "10.0.0.1",
		"111122223333.dkr.ecr.eu-west-3.amazonaws.com.evil.com",
		"111122223333.dkr.ecr.eu-west-3.evilamazonaws.com",
		"111122223333.dkr.ecr.eu-west-3.amazonaws.com.",
		"evil.111122223333.dkr.ecr.eu-west-3.amazonaws.com",
		"111122223333.dkr.ecr.evil.eu-west-3.amazonaws.com",
		"11112222333.dkr.ecr.eu-west-3.amazonaws.com",
		"1111222233334.dkr.ecr.eu-west-3.amazonaws.com",
		"11112222333x.dkr.ecr.eu-west-3.amazonaws.com",
		"111122223333.dkr.ecr..amazonaws.com",
		"111122223333.dkr.ecr.s3.amazonaws.com",
		"111122223333.dkr.ecr.s3-us-west-2.amazonaws.com",
		"111122223333.dkr.ecr.-eu.amazonaws.com",
		"111122223333.dkr.ecr.amazonaws.com",
		"111122223333.dkr_ecr.eu-west-3.amazonaws.com",
		"111122223333.dkr.ecr-fipss.eu-west-3.amazonaws.com",
		"111122223333.dkr.ecr.eusc-de-east-1.on.amazonwebservices.eu",
		"public.ecr.aws.evil.com", "evil.public.ecr.aws", "xpublic.ecr.aws", "ecr-public.aws.com.evil.com",
	} {
		if h, ok := parseHost(registry); ok {
			t.Errorf("%q: got %+v, want it refused", registry, h)
		}
	}
}

func TestAllowHost(t *testing.T) {
	for name, tt := range map[string]struct {
		allow, registry string
		region          string
		match           bool
	}{
		"port and region":     {"registry.corp.example:5000=eu-west-1", "registry.corp.example:5000", "eu-west-1", true},
		"no region":           {"registry.corp.example", "registry.corp.example", "", true},
		"case":                {"Registry.Corp.example=EU-west-1", "registry.CORP.example", "eu-west-1", true},
		"glob":                {"*-1.ecr.example", "a-1.ecr.example", "", true},
		"glob is one label":   {"*.corp.example", "a.b.corp.example", "", false},
		"another port":        {"registry.corp.example:5000", "registry.corp.example:5001", "", false},
		"no port":             {"registry.corp.example:5000", "registry.corp.example", "", false},
		"port not asked for":  {"registry.corp.example", "registry.corp.example:5000", "", false},
		"suffix":              {"corp.example", "registry.corp.example", "", false},
		"lookalike":           {"registry.corp.example", "registry.corp.example.evil.com", "", false},
		"bare name, on order": {"nginx=eu-west-1", "nginx", "eu-west-1", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := must.Get(New(Options{AllowHosts: []string{"other.example", tt.allow}}))(t)
			h, ok := findHost(tt.registry, p.allowed)
			if ok != tt.match || ok && (h.region != tt.region || h.registry != tt.registry) {
				t.Errorf("got %+v, %v", h, ok)
			}
		})
	}
	p := must.Get(New(Options{AllowHosts: []string{"*.*.*.*.amazonaws.com=us-west-1"}}))(t)
	if h, ok := findHost("111122223333.dkr.ecr.eu-west-3.amazonaws.com", p.allowed); !ok || h.region != "eu-west-3" {
		t.Errorf("an allowed host overrides the name of a registry: got %+v, %v", h, ok)
	}
}

func TestAllowHostRefuses(t *testing.T) {
	for allow, want := range map[string]string{
		"":                        "must have the form host[:port]",
		"=eu-west-1":              "must have the form host[:port]",
		"https://a.example":       "must have the form host[:port]",
		"a.example/team":          "must have the form host[:port]",
		"a.example=":              `"" is not a region name`,
		"a.example=eu west":       `"eu west" is not a region name`,
		"a.example=-eu":           `"-eu" is not a region name`,
		"a.example=evil.com/":     `is not a region name`,
		"a.example:x":             "must have the form host[:port]",
		"a.example:":              "must have the form host[:port]",
		"a..example":              "must have the form host[:port]",
		"a.[.example":             "must have the form host[:port]",
		"a.example:5000=eu=west1": `"eu=west1" is not a region name`,
	} {
		_, err := New(Options{AllowHosts: []string{allow}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--allow-host") {
			t.Errorf("%q: got %v, want %q", allow, err, want)
		}
	}
}

// FuzzParseHost compares the parser with the equivalent regular expression.
func FuzzParseHost(f *testing.F) {
	pattern := regexp.MustCompile(`^(\d{12})\.dkr[.-]ecr(-fips)?\.([a-z0-9][a-z0-9_-]*)\.(amazonaws\.(?:com(?:\.cn)?|eu)` +
		`|on\.(?:aws|amazonwebservices\.com\.cn)|sc2s\.sgov\.gov|c2s\.ic\.gov|cloud\.adc-e\.uk|csp\.hci\.ic\.gov)$`)
	for _, seed := range []string{
		"111122223333.dkr.ecr.eu-west-3.amazonaws.com", "111122223333.dkr-ecr-fips.us-gov-east-1.on.aws:443", "public.ecr.aws",
		"nginx", "111122223333.dkr.ecr.eu-west-3.amazonaws.com.evil.com", "[::1]:5000",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, registry string) {
		got, ok := parseHost(registry)
		name := hostWithoutPort(registry)
		match := pattern.FindStringSubmatch(name)
		switch {
		case name == "public.ecr.aws" || name == "ecr-public.aws.com":
			if !ok || !got.public {
				t.Errorf("%q is not taken for public", registry)
			}
		case ok != (match != nil):
			t.Errorf("%q: got %v, want %v", registry, ok, match != nil)
		case ok && (got.region != match[3] || got.fips != (match[2] != "") || got.registry != registry):
			t.Errorf("%q: got %+v", registry, got)
		}
	})
}
