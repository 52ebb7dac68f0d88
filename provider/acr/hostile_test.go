// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
)

// TestHostileChallenges verifies that any challenge leads to a response or a one-line error, and
// that the token is sent only to the registry. The upstream plugin panics if a challenge has no
// space or an unquoted last parameter.
func TestHostileChallenges(t *testing.T) {
	const realm, service = `realm="https://foo.azurecr.io/oauth2/token"`, `service="foo.azurecr.io"`
	const evil = `realm="https://evil.example/oauth2/token"`
	for name, tt := range map[string]struct {
		lines []string
		want  string // part of the error; "" means that the token is exchanged
	}{
		"not quoted":                 {[]string{"Bearer realm=https://foo.azurecr.io/oauth2/token,service=foo.azurecr.io"}, ""},
		"last one not quoted":        {[]string{"Bearer " + realm + ",service=foo.azurecr.io"}, ""},
		"first one not quoted":       {[]string{"Bearer service=foo.azurecr.io," + realm}, ""},
		"in another case":            {[]string{"bEARER " + strings.ToUpper(realm[:5]) + realm[5:] + ", " + service}, ""},
		"after Basic, in a line":     {[]string{`Basic realm="a, Bearer ` + `b", Bearer ` + realm + "," + service}, ""},
		"after Basic, on lines":      {[]string{"Basic " + realm, "Bearer " + realm + "," + service}, ""},
		"of Basic with evil's realm": {[]string{"Basic " + evil, "Bearer " + realm + "," + service}, ""},
		"two, the first is good":     {[]string{"Bearer " + realm + "," + service, "Bearer " + evil + "," + service}, ""},

		"without a blank":        {[]string{"Bearer" + realm}, "did not send the Bearer challenge"},
		"scheme alone":           {[]string{"Bearer"}, "the Bearer challenge has no service parameter"},
		"two, the first is evil": {[]string{"Bearer " + evil + "," + service, "Bearer " + realm + "," + service}, `realm is on another host, "evil.example"`},
		"two realms":             {[]string{"Bearer " + evil + "," + realm + "," + service}, `realm is on another host, "evil.example"`},
		"evil in the quotes":     {[]string{`Bearer realm="https://foo.azurecr.io\@evil.example/",` + service}, "the challenge's realm does not use https; refusing to send a token to it"},
		"evil after a blank":     {[]string{`Bearer realm=https:// evil.example/,` + service}, "the Bearer challenge has no service parameter"},
		"evil by its port":       {[]string{`Bearer realm="https://foo.azurecr.io:443.evil.example/",` + service}, "the challenge's realm is not a URL"},
		"evil by a fragment":     {[]string{`Bearer realm="https://evil.example#.azurecr.io",` + service}, `realm is on another host, "evil.example"`},
		"a sibling's registry":   {[]string{`Bearer realm="https://bar.azurecr.io/oauth2/token",` + service}, `realm is on another host, "bar.azurecr.io"`},
		"a quote that is open":   {[]string{`Bearer ` + service + `,realm="https://foo.azurecr.io/oauth2/token`}, ""},
		"commas":                 {[]string{",,,,,"}, "did not send the Bearer challenge"},
		"not ASCII":              {[]string{"B\xe9arer " + realm + "," + service, "\xff\xfe"}, "did not send the Bearer challenge"},
		"a long realm":           {[]string{`Bearer realm="https://` + strings.Repeat("a.", 50000) + `example/",` + service}, "refusing to send a token to it"},
		"many":                   {strings.Fields(strings.Repeat("Basic ", 5000)), "did not send the Bearer challenge"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCloud(t, managedIdentityConfig)
			w.az.Inject(testcloud.Fault{Path: "/v2/", Status: 401, Times: -1, Header: http.Header{"Www-Authenticate": tt.lines}})
			lines := []string{imdsLine, challengeLine}
			if tt.want == "" {
				w.mustGetCredentials(imageRequest("foo.azurecr.io/app"))
				lines = append(lines, exchangeLine)
			} else {
				_, err := w.getCredentials(imageRequest("foo.azurecr.io/app"))
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("got error %v, want %q", err, tt.want)
				}
				if len(err.Error()) > 1000 {
					t.Errorf("the error has %d bytes", len(err.Error()))
				}
			}
			if diff := cmp.Diff(lines, w.az.SortedRequestLines()); diff != "" {
				t.Errorf("requests (-want +got)\n%s", diff)
			}
		})
	}
}

// endpointTest is an endpoint and a request that makes the provider call it.
type endpointTest struct {
	name, path string
	newCloud   func(*testing.T) (*testCloud, *testcloud.Azure)
	req        *plugin.Request
}

func endpointTests() []endpointTest {
	own := func(t *testing.T) (*testCloud, *testcloud.Azure) {
		w := newTestCloud(t, `{"useManagedIdentityExtension":true,"resourceManagerEndpoint":"https://management.azure.com"}`)
		return w, w.az
	}
	bound := func(t *testing.T) (*testCloud, *testcloud.Azure) {
		w := newTestCloud(t, managedIdentityConfig)
		return w, w.serveIdentityBinding(noWrap)
	}
	node := func(t *testing.T) (*testCloud, *testcloud.Azure) {
		w := newTestCloud(t, managedIdentityConfig)
		return w, w.az
	}
	return []endpointTest{
		{"resource manager", "/metadata/endpoints", own, imageRequest("foo.own.example/app")},
		{"identity binding", "/", bound, podRequest("foo.azurecr.io/app", identityAnnotations("c", "t"))},
		{"registry", "/v2/", node, imageRequest("foo.azurecr.io/app")},
		{"exchange", exchangePath, node, imageRequest("foo.azurecr.io/app")},
	}
}

// TestHostileAnswers verifies that redirects to another host are not followed. It also verifies
// that overlong and truncated responses lead to an error that does not quote them.
func TestHostileAnswers(t *testing.T) {
	elsewhere := http.Header{"Location": {"https://evil.example/?t=" + canary.TokenSecret}}
	long := strings.Repeat(canary.TokenSecret+" ", remote.MaxBodySize/len(canary.TokenSecret)+1)
	for name, tt := range map[string]struct {
		fault testcloud.Fault
		want  string
	}{
		"301":          {testcloud.Fault{Status: 301, Header: elsewhere}, `redirect to another host, "evil.example"`},
		"302":          {testcloud.Fault{Status: 302, Header: elsewhere}, `redirect to another host, "evil.example"`},
		"307":          {testcloud.Fault{Status: 307, Header: elsewhere}, `redirect to another host, "evil.example"`},
		"308":          {testcloud.Fault{Status: 308, Header: elsewhere}, `redirect to another host, "evil.example"`},
		"huge":         {testcloud.Fault{Status: 200, Body: `{"access_token":"` + long}, "the response is longer than 1048576 bytes"},
		"cut off":      {testcloud.Fault{Status: 200, Truncate: true, Body: `{"access_token":"` + long[:100000]}, "the connection was closed before the response was complete, 3 times"},
		"huge refusal": {testcloud.Fault{Status: 403, Body: `{"error":"` + long}, "status 403 Forbidden"},
	} {
		for _, a := range endpointTests() {
			t.Run(a.name+" "+name, func(t *testing.T) {
				w, az := a.newCloud(t)
				fault := tt.fault
				fault.Path, fault.Times = a.path, -1
				az.Inject(fault)
				w.checkError(a.req, tt.want)
			})
		}
	}
}

// TestBindingIgnoresTheSwitch verifies that azure.json does not affect a pod's identity binding.
func TestBindingIgnoresTheSwitch(t *testing.T) {
	for _, config := range []string{managedIdentityConfig, servicePrincipalConfig, "", `{"tenantId":"node-tenant"}`} {
		w := newTestCloud(t, config)
		az := w.serveIdentityBinding(noWrap)
		az.Update(func(s *testcloud.AzureState) { s.ClientID, s.ClientAssertion = "client-1", podToken.Reveal() })
		resp := w.mustGetCredentials(podRequest("foo.azurecr.io/app", map[string]string{clientIDAnnotation: "client-1"}))
		if diff := cmp.Diff(expectedAuth("foo.azurecr.io"), authSummary(resp)); diff != "" {
			t.Errorf("keys (-want +got)\n%s", diff)
		}
		if diff := cmp.Diff([]string{"POST example.com/"}, az.RequestLines()); diff != "" {
			t.Errorf("requests (-want +got)\n%s", diff)
		}
	}
}

// TestBackoffOfTheController verifies that the plugin ignores the backoff settings in azure.json.
// They are for the cloud controller and may be minutes long.
func TestBackoffOfTheController(t *testing.T) {
	w := newTestCloud(t, strings.Replace(managedIdentityConfig, "{", `{"cloudProviderBackoff":true,"cloudProviderBackoffRetries":1,"cloudProviderBackoffDuration":3600,`+
		`"cloudProviderBackoffMode":"v1","enableMinimumRetryAfter":true,`, 1))
	w.az.Inject(testcloud.Fault{Path: imdsPath, Status: 500, Times: 4})
	w.mustGetCredentials(imageRequest("foo.azurecr.io/app"))
}

// TestReadOnce verifies that azure.json is read once per request.
func TestReadOnce(t *testing.T) {
	w := newTestCloud(t, managedIdentityConfig)
	p := must.Get(New(w.opts))(t)
	s := p.newSession(imageRequest("foo.azurecr.io/app"))
	defer s.close()
	for range 2 {
		must.Get(s.loadConfig())(t)
		must.Do(t, os.WriteFile(w.opts.ConfigFile, []byte("{"), 0o600))
	}
	w.checkError(imageRequest("foo.azurecr.io/app"), "neither JSON nor YAML")
}

// TestDataPlane verifies that the error names an unsupported identity.
func TestDataPlane(t *testing.T) {
	w := newTestCloud(t, `{"aadClientId":"node-client","aadMSIDataPlaneIdentityPath":"/x"}`)
	w.checkError(imageRequest("foo.azurecr.io/app"), "aadMSIDataPlaneIdentityPath is not supported")
}

// TestExpiredAccessToken verifies that an expired token of a managed identity is sent, because only
// the registry's clock matters. It also verifies that the token is not cached.
func TestExpiredAccessToken(t *testing.T) {
	for _, expires := range []time.Duration{-24 * time.Hour, 0, 24 * time.Hour, 100 * 365 * 24 * time.Hour} {
		w := newTestCloud(t, managedIdentityConfig)
		w.az.Inject(testcloud.Fault{Path: imdsPath, Status: 200, Times: -1, Body: fmt.Sprintf(
			`{"access_token":%q,"expires_in":"%d","expires_on":"%d"}`, canary.TokenSecret+"-access", int(expires.Seconds()), time.Now().Add(expires).Unix())})
		for n := 1; n <= 2; n++ {
			w.mustGetCredentials(imageRequest("foo.azurecr.io/app"))
			if got := len(w.az.SortedRequestLines()); got != 3*n {
				t.Errorf("%v: asked %q", expires, w.az.SortedRequestLines())
			}
		}
	}
}
