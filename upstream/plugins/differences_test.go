// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugins

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/plugin"
)

// difference is an intentional difference from upstream, documented under its id in
// docs/plugins/ecr.md.
type difference struct {
	id string

	// adjust converts the observation of upstream's plugin to the observation that is expected of
	// regcred's plugin.
	adjust func(scenario, *observation)

	in []string // names of the scenarios with the difference
}

var differences = []difference{
	{"allow-host", expectError, []string{
		"host: registry.example.com, with a region",
		"host: registry.k8s.io, with a region",
		"host: localhost, with a region",
		"host: 127.0.0.1, with a region",
		"host: 11112222333.dkr.ecr.us-west-2.amazonaws.com, with a region",
		"host: 111122223333.dkr.ecr.us-west-2.amazonaws.com.evil.com, with a region",
		"host: 111122223333.dkr.ecr.us-west-2.amazonaws.com., with a region",
		"host: 111122223333.dkr-ecr.eusc-de-east-1.on.amazonwebservices.eu, with a region",
		"host: evil-public.ecr.aws, with a region",
		"host: nginx",
		"host: library/nginx",
		"host: localhost:5000",
	}},
	{"allow-host", expectEmptyResponse, []string{"host: registry.k8s.io, other hosts are empty"}},
	{"host-form", expectError, []string{
		"host: 111122223333.dkr.ecr.us_west-2!.amazonaws.com, with a region, any host",
		"host: 111122223333.dkr.ecr.us_west-2!.amazonaws.com, with a region",
		"host: with a user",
	}},
	{"host-case", expectRequests("eu-central-1", "us-west-2"), []string{
		"host: 111122223333.DKR.ECR.us-west-2.amazonaws.com, with a region",
		"host: 111122223333.DKR.ECR.us-west-2.amazonaws.com, with a region, any host",
	}},
	{"port-in-key", expectPortInKey, []string{
		"host: registry.example.com:5000, allowed",
		"host: with port 443",
	}},
	{"endpoint-of-host", expectRequests("api.ecr.us-east-2.amazonaws.com", "ecr.us-east-2.api.aws"), []string{"host: 111122223333.dkr-ecr.us-east-2.on.aws"}},
	{"endpoint-of-host", expectRequests("api.ecr.us-west-2.amazonaws.com", "ecr.us-west-2.api.aws"), []string{"host: 111122223333.dkr.ecr.us-west-2.on.aws"}},
	{"endpoint-of-host", expectRequests("api.ecr.cn-north-1.amazonaws.com.cn", "ecr.cn-north-1.api.amazonwebservices.com.cn"), []string{"host: 111122223333.dkr-ecr.cn-north-1.on.amazonwebservices.com.cn"}},
	{"endpoint-of-host", expectRequests("api.ecr.us-gov-east-1.amazonaws.com", "ecr-fips.us-gov-east-1.api.aws"), []string{"host: 111122223333.dkr-ecr-fips.us-gov-east-1.on.aws"}},
	{"endpoint-of-host", expectRequests("api.ecr.us-west-2", "api.ecr-fips.us-west-2"), []string{"host: 111122223333.dkr.ecr-fips.us-west-2.amazonaws.com"}},
	{"endpoint-of-host", expectRequests("api.ecr-public.us-east-1.amazonaws.com", "ecr-public.us-east-1.api.aws"), []string{"host: ecr-public.aws.com"}},
	{"endpoint-of-host", expectRequests("sts.us-east-2.amazonaws.com", "sts.us-east-2.api.aws", "api.ecr.us-east-2.amazonaws.com", "ecr.us-east-2.api.aws"), []string{"service account: dual stack"}},
	{"endpoint-of-host", expectRequests("sts.us-west-2", "sts-fips.us-west-2", "api.ecr.us-west-2", "api.ecr-fips.us-west-2"), []string{"service account: FIPS host"}},
	{"endpoint-names", expectRequests("api.ecr-public.us-east-1.api.aws", "ecr-public.us-east-1.api.aws"), []string{"endpoint: public, dual-stack"}},
	{"region-of-instance", expectInstanceRegion, []string{
		"host: registry.example.com, allowed, without a region",
		"host: registry.example.com, allowed, region of the instance alone",
	}},
	{"not-cached", expectNotCached, []string{
		"answer: expired",
		"answer: expired, public",
		"answer: expires in a second",
	}},
	{"cached-at-most", expectCacheLimit, []string{"answer: expires in ten years"}},
	{"empty-password", expectErrorAfterRequests, []string{"answer: no password"}},
	{"large-answer", expectErrorAfterRequests, []string{"failure: two megabytes"}},
	{"redirects", expectFirstHost, []string{"source: container that redirects (307)"}},
	{"node-unused", expectAssumedRole, []string{"service account: node's web identity is broken"}},
	{"region-of-public", expectPublicRegion, []string{"service account: public, without a region"}},
	{"session-name", expectRequests("RoleSessionName=ecr-credential-provider", "RoleSessionName=payments_puller"), []string{"service account: token that names the pod"}},
	{"issuer-retried", expectSTSRetry, []string{"service account: issuer unreachable once"}},
	{"no-panic", expectErrorAfterRequests, []string{
		"service account: answer without credentials",
		"service account: answer with empty credentials",
		"service account: answer that is no XML",
		"service account: empty answer",
	}},
	{"versions", expectVersion(plugin.V1Beta1), []string{"protocol: v1beta1"}},
	{"versions", expectVersion(plugin.V1Alpha1), []string{"protocol: v1alpha1"}},
	{"fields-twice", expectError, []string{"protocol: the same field twice"}},
	{"verbosity", expectVersion(plugin.V1), []string{"protocol: --v=2"}},
	{"version-flag", expectNoResponse, []string{"protocol: --version", "protocol: -v"}},
	{"429-retried", expectRetry, []string{"failure: 429"}},
	{"cut-retried", expectRetry, []string{"failure: body cut off"}},
	{"cut-retried", expectRetrySuccess, []string{"failure: body cut off once"}},
}

// unobservedDifferences maps the documented differences that no scenario shows to the reason.
var unobservedDifferences = map[string]string{
	"deadline":       "times are not compared; go run ./bench -only slow -slow measures them",
	"standard-error": "texts are not compared, and exit codes other than 0 count as one",
	"proxies":        "a link-local address would have to be asked",
	"bundle-of-all":  "the cloud's container endpoint is not HTTPS",
}

// expectEmptyResponse expects no credentials and no requests.
func expectEmptyResponse(_ scenario, o *observation) {
	o.Outcome, o.Stdout, o.Requests, o.UnknownHosts = "answers", true, nil, nil
	o.Answer = &credentialOutput{APIVersion: plugin.V1, Kind: protocol.KindResponse, CacheKeyType: "Registry", CacheDuration: new(secondsLifetime(0))}
}

// expectError expects an error and no requests.
func expectError(s scenario, o *observation) {
	expectErrorAfterRequests(s, o)
	o.Requests, o.UnknownHosts = nil, nil
}

func expectErrorAfterRequests(_ scenario, o *observation) {
	o.Outcome, o.Stdout, o.Answer = "fails", false, nil
}

// expectNoResponse expects output that is not a response.
func expectNoResponse(_ scenario, o *observation) {
	o.Outcome, o.Stdout = "answers", true
}

// expectVersion expects a response in this version of the protocol.
func expectVersion(version string) func(scenario, *observation) {
	return func(_ scenario, o *observation) {
		o.Outcome, o.Stdout = "answers", true
		o.Requests = []string{ecrTokenRequest("us-west-2", "")}
		o.Answer = successResponse("111122223333.dkr.ecr.us-west-2.amazonaws.com")
		o.Answer.APIVersion = version
	}
}

// expectRequests expects the same requests with some words replaced. words lists pairs of
// upstream's and regcred's word.
func expectRequests(words ...string) func(scenario, *observation) {
	return func(_ scenario, o *observation) {
		o.Requests = slices.Clone(o.Requests)
		for i := range o.Requests {
			o.Requests[i] = strings.NewReplacer(words...).Replace(o.Requests[i])
		}
	}
}

// expectRetry expects that each request is retried.
func expectRetry(_ scenario, o *observation) {
	o.Requests = slices.Clone(o.Requests)
	for i := range o.Requests {
		o.Requests[i] += ", and again"
	}
}

// expectRetrySuccess expects that a retried request succeeds.
func expectRetrySuccess(s scenario, o *observation) {
	expectRetry(s, o)
	o.Outcome, o.Stdout, o.Answer = "answers", true, successResponse("111122223333.dkr.ecr.us-west-2.amazonaws.com")
}

// expectFirstHost expects that only the first host is called.
func expectFirstHost(_ scenario, o *observation) { o.Requests = o.Requests[:min(1, len(o.Requests))] }

// expectAssumedRole expects that the plugin assumes the service account's role and returns credentials.
func expectAssumedRole(_ scenario, o *observation) {
	o.Outcome, o.Stdout, o.Answer = "answers", true, successResponse("111122223333.dkr.ecr.us-west-2.amazonaws.com")
	o.Requests = []string{assumeRoleRequest("us-west-2"), ecrTokenRequest("us-west-2", "ASIAASSUMEDROLE00000")}
}

func expectPortInKey(s scenario, o *observation) {
	if o.Answer == nil || len(o.Answer.Auth) == 0 {
		return
	}
	req := plugin.Request{Image: s.image}
	credentials := slices.Collect(maps.Values(o.Answer.Auth))[0]
	o.Answer = successResponse(req.Registry())
	o.Answer.Auth[req.Registry()] = credentials
}

// expectInstanceRegion expects that the plugin gets the region from the metadata service.
func expectInstanceRegion(s scenario, o *observation) {
	o.Requests = []string{
		"PUT loopback/latest/api/token; X-Aws-Ec2-Metadata-Token-Ttl-Seconds 300",
		"GET loopback/latest/meta-data/placement/region; X-Aws-Ec2-Metadata-Token",
	}
	if s.arrange == nil { // otherwise the metadata service has no region
		o.Outcome, o.Stdout, o.Answer = "answers", true, successResponse("registry.example.com")
		o.Requests = append(o.Requests, ecrTokenRequest("eu-west-1", ""))
	}
}

func expectNotCached(_ scenario, o *observation) {
	a := *o.Answer
	a.CacheDuration = new(secondsLifetime(0))
	o.Answer = &a
}

func expectCacheLimit(_ scenario, o *observation) {
	a := *o.Answer
	a.CacheDuration = new(secondsLifetime(6 * time.Hour))
	o.Answer = &a
}

func expectPublicRegion(_ scenario, o *observation) {
	o.Outcome, o.Stdout, o.Answer = "answers", true, successResponse("public.ecr.aws")
	o.Requests = []string{
		assumeRoleRequest("us-east-1"),
		"POST api.ecr-public.us-east-1.amazonaws.com/; X-Amz-Target SpencerFrontendService.GetAuthorizationToken; " +
			"Content-Type application/x-amz-json-1.1; X-Amz-Security-Token; signed by ASIAASSUMEDROLE00000 for ecr-public in us-east-1; body {}",
	}
}

func expectSTSRetry(_ scenario, o *observation) {
	o.Outcome, o.Stdout, o.Answer = "answers", true, successResponse("111122223333.dkr.ecr.us-west-2.amazonaws.com")
	o.Requests = []string{assumeRoleRequest("us-west-2") + ", and again", ecrTokenRequest("us-west-2", "ASIAASSUMEDROLE00000")}
}

// successResponse returns the response if the cloud does not fail.
func successResponse(key string) *credentialOutput {
	return &credentialOutput{
		APIVersion: plugin.V1, Kind: protocol.KindResponse, CacheKeyType: "Registry", CacheDuration: new(secondsLifetime(6 * time.Hour)),
		Auth: map[string]credentialAuth{key: {"AWS", "open-sesame"}},
	}
}

// ecrTokenRequest returns the request for a registry token. It is signed with a key from STS or, if key is
// empty, with the static key.
func ecrTokenRequest(region, key string) string {
	session := "X-Amz-Security-Token; "
	if key == "" {
		session, key = "", staticAccessKey
	}
	return "POST api.ecr." + region + ".amazonaws.com/; X-Amz-Target AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken; " +
		"Content-Type application/x-amz-json-1.1; " + session + "signed by " + key + " for ecr in " + region + "; body {}"
}

func assumeRoleRequest(region string) string {
	return "POST sts." + region + ".amazonaws.com/; Content-Type application/x-www-form-urlencoded; Action=AssumeRoleWithWebIdentity; " +
		"RoleArn=" + roleARN + "; RoleSessionName=ecr-credential-provider; Version=2011-06-15; WebIdentityToken=(the token)"
}
