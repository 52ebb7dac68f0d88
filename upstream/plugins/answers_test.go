// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugins

import (
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/testcloud"
)

// encodeToken encodes a registry token in base64.
func encodeToken(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// credentialsExpireIn sets when the registry's password expires, relative to the run.
func credentialsExpireIn(in time.Duration) func(*scenarioCloud) {
	return func(c *scenarioCloud) { c.Update(func(s *testcloud.AWSState) { s.Lifetime = in }) }
}

// setAuthorizationData sets the value of authorizationData in the cloud's responses.
func setAuthorizationData(data string) func(*scenarioCloud) {
	return func(c *scenarioCloud) { c.Update(func(s *testcloud.AWSState) { s.AuthorizationData = data }) }
}

// responseScenarios lists scenarios with different responses of the cloud.
func responseScenarios() []scenario {
	const public = "public.ecr.aws/team/app"
	never := func(c *scenarioCloud) { c.Update(func(s *testcloud.AWSState) { s.Expires = new(time.Time{}) }) }
	return groupScenarios("answer", []scenario{
		{name: "no expiry", arrange: never},
		{name: "no expiry, public", arrange: never, image: public},
		{name: "expired", arrange: credentialsExpireIn(-time.Hour)},
		{name: "expired, public", arrange: credentialsExpireIn(-time.Hour), image: public},
		{name: "expires in a second", arrange: credentialsExpireIn(time.Second)},
		{name: "expires in 90 seconds", arrange: credentialsExpireIn(90 * time.Second)},
		{name: "expires in 20 minutes", arrange: credentialsExpireIn(20 * time.Minute)},
		{name: "expires in ten years", arrange: credentialsExpireIn(10 * 365 * 24 * time.Hour)},
		{name: "expires at a whole second", arrange: func(c *scenarioCloud) {
			c.Update(func(s *testcloud.AWSState) { s.Expires = new(time.Now().Add(6 * time.Hour).Truncate(time.Second)) })
		}},
		{name: "expiry is a text", arrange: setAuthorizationData(`[{"authorizationToken":"` + encodeToken("AWS:open-sesame") + `","expiresAt":"soon"}]`)},
		{name: "colon in the password", arrange: func(c *scenarioCloud) { c.Update(func(s *testcloud.AWSState) { s.Password = "open:sesame:" }) }},
		{name: "another user", arrange: setAuthorizationData(`[{"authorizationToken":"` + encodeToken("user:open-sesame") + `"}]`)},
		{name: "no user", arrange: setAuthorizationData(`[{"authorizationToken":"` + encodeToken(":open-sesame") + `"}]`)},
		{name: "no password", arrange: setAuthorizationData(`[{"authorizationToken":"` + encodeToken("AWS:") + `"}]`)},
		{name: "no colon", arrange: setAuthorizationData(`[{"authorizationToken":"` + encodeToken("open-sesame") + `"}]`)},
		{name: "not base64", arrange: setAuthorizationData(`[{"authorizationToken":"%%%"}]`)},
		{name: "two registries", arrange: setAuthorizationData(`[{"authorizationToken":"` + encodeToken("AWS:open-sesame") + `"},{"authorizationToken":"` + encodeToken("AWS:other") + `"}]`)},
		{name: "token is null", arrange: setAuthorizationData(`[{"authorizationToken":null}]`)},
		{name: "token is missing", arrange: setAuthorizationData(`[{}]`)},
		{name: "token is empty", arrange: setAuthorizationData(`[{"authorizationToken":""}]`)},
		{name: "entry is null", arrange: setAuthorizationData(`[null]`)},
		{name: "empty list", arrange: setAuthorizationData(`[]`)},
		{name: "null", arrange: setAuthorizationData(`null`)},
		{name: "object in place of a list", arrange: setAuthorizationData(`{"authorizationToken":"` + encodeToken("AWS:open-sesame") + `"}`)},
		{name: "public, null", arrange: setAuthorizationData(`null`), image: public},
		{name: "public, empty object", arrange: setAuthorizationData(`{}`), image: public},
		{name: "public, list in place of an object", arrange: setAuthorizationData(`[{"authorizationToken":"` + encodeToken("AWS:open-sesame") + `"}]`), image: public},
		{name: "public, no colon", arrange: setAuthorizationData(`{"authorizationToken":"` + encodeToken("open-sesame") + `"}`), image: public},
		{name: "no data at all", faults: []testcloud.Fault{{Status: http.StatusOK, Body: `{}`, Times: -1}}},
		{name: "unknown fields", faults: []testcloud.Fault{{Status: http.StatusOK, Times: -1, Body: `{"x":1,"authorizationData":[{"y":2,"authorizationToken":"` + encodeToken("AWS:open-sesame") + `"}]}`}}},
	}...)
}

// failureScenarios lists scenarios in which the cloud or the network fails.
func failureScenarios() []scenario {
	always := func(f testcloud.Fault) []testcloud.Fault {
		f.Path, f.Times = "/", -1
		return []testcloud.Fault{f}
	}
	refused := func(status int, code string) []testcloud.Fault {
		return always(testcloud.Fault{Status: status, Body: testcloud.AWSErrorJSON(code, "a message"), Header: http.Header{"Content-Type": {"application/x-amz-json-1.1"}}})
	}
	once := func(f []testcloud.Fault) []testcloud.Fault {
		f[0].Times = 1
		return f
	}
	elsewhere := http.Header{"Location": {"https://api.ecr.elsewhere.example/"}}
	other := http.Header{"Location": {"https://api.ecr.eu-west-1.amazonaws.com/"}}
	return groupScenarios("failure", []scenario{
		{name: "access denied", faults: refused(400, "AccessDeniedException")},
		{name: "403", faults: refused(403, "UnrecognizedClientException")},
		{name: "403 without a body", faults: always(testcloud.Fault{Status: 403})},
		{name: "expired credentials", faults: refused(400, "ExpiredTokenException")},
		{name: "bad signature", faults: refused(400, "InvalidSignatureException")},
		{name: "throttled once", faults: once(refused(400, "ThrottlingException"))},
		{name: "throttled", faults: refused(400, "ThrottlingException")},
		{name: "429", faults: always(testcloud.Fault{Status: 429})},
		{name: "500 once", faults: once(refused(500, "ServerException"))},
		{name: "500", faults: refused(500, "ServerException")},
		{name: "503 without a body", faults: always(testcloud.Fault{Status: 503})},
		{name: "404", faults: always(testcloud.Fault{Status: 404})},
		{name: "redirect to a stranger (307)", faults: always(testcloud.Fault{Status: 307, Header: elsewhere})},
		{name: "redirect to a stranger (302)", faults: always(testcloud.Fault{Status: 302, Header: elsewhere})},
		{name: "redirect to another region (307)", faults: []testcloud.Fault{{Path: "us-west-2", Status: 307, Header: other, Times: -1}}},
		{name: "redirect to another region (302)", faults: []testcloud.Fault{{Path: "us-west-2", Status: 302, Header: other, Times: -1}}},
		{name: "garbage", faults: always(testcloud.Fault{Status: 200, Body: "<html>open the pod bay doors</html>"})},
		{name: "garbage, public", faults: always(testcloud.Fault{Status: 200, Body: "<html>"}), image: "public.ecr.aws/team/app"},
		{name: "truncated JSON", faults: always(testcloud.Fault{Status: 200, Body: `{"authorizationData":[{"authorizationToken":`})},
		{name: "empty body", faults: always(testcloud.Fault{Status: 200})},
		{name: "null", faults: always(testcloud.Fault{Status: 200, Body: "null"})},
		{name: "list", faults: always(testcloud.Fault{Status: 200, Body: "[]"})},
		{name: "two megabytes", faults: always(testcloud.Fault{Status: 200, Body: `{"x":"` + strings.Repeat("y", 2<<20) + `","authorizationData":[{"authorizationToken":"` + encodeToken("AWS:open-sesame") + `"}]}`})},
		{name: "body cut off once", faults: []testcloud.Fault{{Status: 200, Body: `{"authorizationData":`, Truncate: true}}},
		{name: "body cut off", faults: always(testcloud.Fault{Status: 200, Body: `{"authorizationData":`, Truncate: true})},
		{name: "connection dropped once", faults: []testcloud.Fault{{Drop: true}}},
		{name: "connection dropped", faults: always(testcloud.Fault{Drop: true})},
		{name: "connection refused", env: []string{"AWS_ENDPOINT_URL=http://127.0.0.1:1"}},
		{name: "name that leads nowhere", env: []string{"AWS_ENDPOINT_URL=https://ecr.example"}},
		{name: "a second of delay", faults: []testcloud.Fault{{Delay: time.Second}}},
		{name: "one attempt alone", env: []string{"AWS_MAX_ATTEMPTS=1"}, faults: refused(500, "ServerException")},
		{name: "endpoint that never answers", faults: always(testcloud.Fault{Hang: true}), slow: true},
	}...)
}
