// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugins

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
)

// serviceAccountScenarios lists scenarios in which requests have a pod's identity.
func serviceAccountScenarios() []scenario {
	pod := map[string]string{roleAnnotation: roleARN}
	fallback := "AWS_ECR_ROLE_ARN=arn:aws:iam::111122223333:role/fallback"
	sts := func(f testcloud.Fault) []testcloud.Fault {
		f.Path, f.Times = "sts.", -1
		return []testcloud.Fault{f}
	}
	refused := func(status int, code string) []testcloud.Fault {
		return sts(testcloud.Fault{Status: status, Body: testcloud.AWSErrorXML(code, "a message")})
	}
	once := func(f []testcloud.Fault) []testcloud.Fault {
		f[0].Times = 1
		return f
	}
	return groupScenarios("service account", []scenario{
		{name: "annotation", token: canary.TokenSecret, annotations: pod},
		{name: "token that names the pod", token: podToken(), annotations: pod},
		{name: "token that names the pod, fixed session name", token: podToken(), annotations: pod, ourArgs: []string{"--session-name=ecr-credential-provider"}},
		{name: "dual stack", token: canary.TokenSecret, annotations: pod, image: "111122223333.dkr-ecr.us-east-2.on.aws/app"},
		{name: "dual stack, plain endpoints", token: canary.TokenSecret, annotations: pod, image: "111122223333.dkr-ecr.us-east-2.on.aws/app", ourArgs: []string{"--plain-endpoints"}},
		{name: "FIPS host", token: canary.TokenSecret, annotations: pod, image: "111122223333.dkr.ecr-fips.us-west-2.amazonaws.com/app"},
		{name: "FIPS host, plain endpoints", token: canary.TokenSecret, annotations: pod, image: "111122223333.dkr.ecr-fips.us-west-2.amazonaws.com/app", ourArgs: []string{"--plain-endpoints"}},
		{name: "annotation, no keys", token: canary.TokenSecret, annotations: pod, noKeys: true},
		{name: "annotation before the default", token: canary.TokenSecret, annotations: pod, env: []string{fallback}},
		{name: "empty annotation, default", token: canary.TokenSecret, annotations: map[string]string{roleAnnotation: ""}, env: []string{fallback}},
		{name: "no annotation, default", token: canary.TokenSecret, env: []string{fallback}},
		{name: "no annotation, no default", token: canary.TokenSecret},
		{name: "annotation without a token", annotations: pod},
		{name: "default without a token", env: []string{fallback}},
		{name: "node's profile is broken", token: canary.TokenSecret, annotations: pod, noKeys: true, arrange: useProfile("[default]\nrole_arn = " + roleARN + "\n")},
		{name: "node's web identity is broken", token: canary.TokenSecret, annotations: pod, noKeys: true, env: []string{"AWS_WEB_IDENTITY_TOKEN_FILE=/nonexistent"}},
		{name: "other annotations", token: canary.TokenSecret, annotations: map[string]string{"example.com/x": "y", roleAnnotation: roleARN}},
		{name: "region of the environment differs", token: canary.TokenSecret, annotations: pod, env: regionEnv},
		{name: "China", token: canary.TokenSecret, annotations: pod, image: "111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn/app"},
		{name: "FIPS", token: canary.TokenSecret, annotations: pod, env: []string{"AWS_USE_FIPS_ENDPOINT=true"}},
		{name: "public, with a region", token: canary.TokenSecret, annotations: pod, env: regionEnv, image: "public.ecr.aws/team/app"},
		{name: "public, without a region", token: canary.TokenSecret, annotations: pod, image: "public.ecr.aws/team/app"},
		{name: "custom host, with a region", token: canary.TokenSecret, annotations: pod, env: regionEnv, image: "registry.example.com/app", ourArgs: []string{"--allow-host=registry.example.com"}},
		{name: "access denied", token: canary.TokenSecret, annotations: pod, faults: refused(403, "AccessDenied")},
		{name: "invalid token", token: canary.TokenSecret, annotations: pod, faults: refused(400, "InvalidIdentityToken")},
		{name: "expired token", token: canary.TokenSecret, annotations: pod, faults: refused(400, "ExpiredTokenException")},
		{name: "issuer unreachable once", token: canary.TokenSecret, annotations: pod, faults: once(refused(400, "IDPCommunicationError"))},
		{name: "500 once", token: canary.TokenSecret, annotations: pod, faults: once(refused(500, "InternalFailure"))},
		{name: "500", token: canary.TokenSecret, annotations: pod, faults: refused(500, "InternalFailure")},
		{name: "answer without credentials", token: canary.TokenSecret, annotations: pod, faults: sts(testcloud.Fault{Status: 200, Body: `<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult/></AssumeRoleWithWebIdentityResponse>`})},
		{name: "answer with empty credentials", token: canary.TokenSecret, annotations: pod, faults: sts(testcloud.Fault{Status: 200, Body: `<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials/></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`})},
		{name: "answer that is no XML", token: canary.TokenSecret, annotations: pod, faults: sts(testcloud.Fault{Status: 200, Body: "garbage"})},
		{name: "empty answer", token: canary.TokenSecret, annotations: pod, faults: sts(testcloud.Fault{Status: 200})},
	}...)
}

// podToken returns a token whose claims name the pod's service account.
func podToken() string {
	encode := base64.RawURLEncoding.EncodeToString
	claims := fmt.Sprintf(`{"exp":%d,"sub":"system:serviceaccount:payments:puller",`+
		`"kubernetes.io":{"namespace":"payments","serviceaccount":{"name":"puller"}}}`, time.Now().Add(time.Hour).Unix())
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(claims)) + "." + canary.TokenSecret
}

// protocolScenarios lists scenarios with different standard inputs and command lines.
func protocolScenarios() []scenario {
	request := func(apiVersion, kind, rest string) *string {
		return new(`{"apiVersion":"` + apiVersion + `","kind":"` + kind + `"` + rest + `}`)
	}
	const image = `,"image":"` + privateRepository + `"`
	ours := func(rest string) *string { return request(plugin.V1, protocol.KindRequest, rest) }
	return groupScenarios("protocol", []scenario{
		{name: "v1", request: ours(image)},
		{name: "v1beta1", request: request(plugin.V1Beta1, protocol.KindRequest, image)},
		{name: "v1alpha1", request: request(plugin.V1Alpha1, protocol.KindRequest, image)},
		{name: "v2", request: request("credentialprovider.kubelet.k8s.io/v2", protocol.KindRequest, image)},
		{name: "another group", request: request("example.com/v1", protocol.KindRequest, image)},
		{name: "no version", request: request("", protocol.KindRequest, image)},
		{name: "wrong kind", request: request(plugin.V1, protocol.KindResponse, image)},
		{name: "no kind", request: request(plugin.V1, "", image)},
		{name: "empty standard input", request: new("")},
		{name: "garbage", request: new("open the pod bay doors")},
		{name: "null", request: new("null")},
		{name: "list", request: new("[]")},
		{name: "truncated", request: new(`{"apiVersion":"` + plugin.V1 + `","kind":`)},
		{name: "something after the request", request: new(*ours(image) + "{}")},
		{name: "spaces and a new line around", request: new(" \n" + *ours(image) + "\n")},
		{name: "no image", request: ours("")},
		{name: "empty image", request: ours(`,"image":""`)},
		{name: "image is null", request: ours(`,"image":null`)},
		{name: "image is a number", request: ours(`,"image":5`)},
		{name: "upper case field", request: ours(strings.Replace(image, "image", "Image", 1))},
		{name: "unknown field", request: ours(image + `,"x":{"y":[1]}`)},
		{name: "the same field twice", request: ours(`,"image":"x"` + image)},
		{name: "metadata", request: ours(image + `,"metadata":{"name":"x"}`)},
		{name: "huge annotation", image: privateRepository, annotations: map[string]string{"x": strings.Repeat("y", 200<<10)}},
		{name: "get-credentials", image: privateRepository, args: []string{"get-credentials"}},
		{name: "several words", image: privateRepository, args: []string{"a", "b"}},
		{name: "the word version", image: privateRepository, args: []string{"version"}},
		{name: "unknown flag", image: privateRepository, args: []string{"--region=us-west-2"}},
		{name: "--v=2", image: privateRepository, args: []string{"--v=2"}},
		{name: "--help", image: privateRepository, args: []string{"--help"}},
		{name: "-h", image: privateRepository, args: []string{"-h"}},
		{name: "--version", image: privateRepository, args: []string{"--version"}},
		{name: "-v", image: privateRepository, args: []string{"-v"}},
	}...)
}
