// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
)

// newConstantServer starts a server that responds to every request with body.
func newConstantServer(t *testing.T, body string) *testcloud.Server {
	t.Helper()
	server := testcloud.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server
}

// newExchangeProvider returns a provider with short timeouts that exchanges tokens at the server's
// path /token.
func newExchangeProvider(t *testing.T, server *testcloud.Server, change func(*Options)) *Provider {
	t.Helper()
	opts := exchangeOptions(&Exchange{URL: server.URL() + "/token", TokenExchange: &TokenExchange{}})
	if change != nil {
		change(&opts)
	}
	p := newProvider(t, opts)
	p.client.Backoff = time.Millisecond
	p.client.Timeout = 5 * time.Second
	return p
}

func TestTokenExchange(t *testing.T) {
	server := newConstantServer(t, `{"access_token":"`+canary.PasswordSecret+`","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":600}`)
	secret := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(secret, []byte(canary.EnvSecret+"\n"), 0o600))
	p := newExchangeProvider(t, server, func(o *Options) {
		o.Exchange.TokenExchange = &TokenExchange{Audience: "{registry}", Scope: "pull", Resource: "https://registry.example", RequestedTokenType: "urn:example:t"}
		o.Exchange.Form = map[string]string{"client_id": "a&b"}
		o.Exchange.BasicAuth = &BasicAuth{Username: "node", Password: "{file:" + secret + "}"}
	})
	token := serviceAccountToken(nil)
	got := must.Get(getOutcome(t, p, newRequest(token, nil)))(t)
	if want := (responseOutcome{"registry.example", "robot", canary.PasswordSecret, 5 * time.Minute, plugin.CacheRegistry}); got != want {
		t.Error("another response than the endpoint's")
	}
	if len(server.Requests()) != 1 {
		t.Fatalf("asked %q", server.RequestLines())
	}
	r := server.Requests()[0]
	want := url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "subject_token": {token},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:jwt"}, "requested_token_type": {"urn:example:t"},
		"audience": {"registry.example"}, "scope": {"pull"}, "resource": {"https://registry.example"}, "client_id": {"a&b"},
	}
	if !gocmp.Equal(r.Form(), want) {
		t.Error("another form than that of RFC 8693")
	}
	user, password, _ := (&http.Request{Header: r.Header}).BasicAuth()
	if user != "node" || password != canary.EnvSecret {
		t.Error("another client than that of the file")
	}
	if got, want := r.Method+" "+r.Path+" "+r.Header.Get("Content-Type")+" "+r.Header.Get("Accept"), "POST /token application/x-www-form-urlencoded application/json"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestAnswers verifies how responses with status 200 are handled.
func TestAnswers(t *testing.T) {
	const secret = `"access_token":"` + canary.PasswordSecret + `"`
	var (
		jwtSecret = newJWT(canary.PasswordSecret, map[string]any{"exp": testTime.Add(20 * time.Minute).Unix()})
		oldSecret = newJWT(canary.PasswordSecret, map[string]any{"exp": testTime.Add(-time.Hour).Unix()})
		at        = Response{Secret: "access_token", ExpiresAt: "expires_at"}
		both      = Response{Secret: "access_token", ExpiresIn: "expires_in", ExpiresAt: "expires_at"}
		user      = Response{Secret: "access_token", Username: "user.name"}
	)
	for title, tt := range map[string]struct {
		response Response
		cache    *time.Duration
		body     string
		want     time.Duration // cache duration
		username string        // "" means the user name in the options
		err      string
	}{
		"seconds":                {body: `{` + secret + `,"expires_in":600}`, want: 5 * time.Minute},
		"a string of seconds":    {body: `{` + secret + `,"expires_in":"600"}`, want: 5 * time.Minute},
		"a fraction":             {body: `{` + secret + `,"expires_in":600.7}`, want: 5 * time.Minute},
		"huge":                   {body: `{` + secret + `,"expires_in":1e300}`, want: 24 * time.Hour},
		"at most":                {cache: new(time.Minute), body: `{` + secret + `,"expires_in":600}`, want: time.Minute},
		"no expiry":              {body: `{` + secret + `}`},
		"null expiry":            {body: `{` + secret + `,"expires_in":null}`},
		"no expiry, configured":  {cache: new(time.Minute), body: `{` + secret + `}`, want: time.Minute},
		"of the JWT":             {body: `{"access_token":"` + jwtSecret + `"}`, want: 10 * time.Minute},
		"the sooner of two":      {body: `{"access_token":"` + jwtSecret + `","expires_in":3600}`, want: 10 * time.Minute},
		"RFC 3339":               {response: at, body: `{` + secret + `,"expires_at":"2026-11-21T13:30:00+01:00"}`, want: 15 * time.Minute},
		"RFC 3339, fraction":     {response: at, body: `{` + secret + `,"expires_at":"2026-11-21T12:30:00.500Z"}`, want: 15 * time.Minute},
		"epoch":                  {response: at, body: fmt.Sprintf(`{%s,"expires_at":%d}`, secret, testTime.Unix()+1800), want: 15 * time.Minute},
		"epoch in a string":      {response: at, body: fmt.Sprintf(`{%s,"expires_at":"%d"}`, secret, testTime.Unix()+1800), want: 15 * time.Minute},
		"epoch in milliseconds":  {response: at, body: fmt.Sprintf(`{%s,"expires_at":%d}`, secret, testTime.UnixMilli()+1800_000), want: 15 * time.Minute},
		"both, soon in seconds":  {response: both, body: `{` + secret + `,"expires_in":600,"expires_at":"2026-11-21T13:00:00Z"}`, want: 5 * time.Minute},
		"both, soon at a time":   {response: both, body: `{` + secret + `,"expires_in":3600,"expires_at":"2026-11-21T12:10:00Z"}`, want: 5 * time.Minute},
		"nested":                 {response: Response{Secret: "data.0.token"}, body: `{"data":[{"token":"` + canary.PasswordSecret + `"}]}`},
		"a user name":            {response: user, body: `{` + secret + `,"user":{"name":"puller"}}`, username: "puller"},
		"white space":            {body: " {" + secret + "}\r\n"},
		"unknown members":        {body: `{` + secret + `,"errors":[],"x":{"access_token":1}}`},
		"past":                   {response: at, body: `{` + secret + `,"expires_at":"2026-11-21T11:59:59Z"}`, err: "the credential in the response expired at 2026-11-21T11:59:59Z; check the node's clock"},
		"nothing left":           {body: `{` + secret + `,"expires_in":0}`, err: `"expires_in" in the response is not a positive number of seconds`},
		"negative":               {body: `{` + secret + `,"expires_in":-60}`, err: "is not a positive number of seconds"},
		"an expired JWT":         {body: `{"access_token":"` + oldSecret + `","expires_in":600}`, err: "expired at 2026-11-21T11:00:00Z"},
		"no number":              {body: `{` + secret + `,"expires_in":"` + canary.PasswordSecret + `"}`, err: `"expires_in" in the response is a string, not a number of seconds`},
		"not a number":           {body: `{` + secret + `,"expires_in":"NaN"}`, err: "is a string, not a number of seconds"},
		"infinite":               {body: `{` + secret + `,"expires_in":"Inf"}`, err: "is a string, not a number of seconds"},
		"an object":              {body: `{` + secret + `,"expires_in":{}}`, err: `"expires_in" in the response is an object, not`},
		"a boolean":              {body: `{` + secret + `,"expires_in":true}`, err: `"expires_in" in the response is a boolean, not`},
		"never":                  {response: at, body: `{` + secret + `,"expires_at":-1}`, err: `"expires_at" in the response is not a positive timestamp`},
		"no time":                {response: at, body: `{` + secret + `,"expires_at":"tomorrow"}`, err: `"expires_at" in the response is a string, not an RFC 3339 time`},
		"a list":                 {response: at, body: `{` + secret + `,"expires_at":[]}`, err: `"expires_at" in the response is an array, not an RFC 3339 time`},
		"no secret":              {body: `{"token":"` + canary.PasswordSecret + `"}`, err: `the response has no "access_token"`},
		"null secret":            {body: `{"access_token":null}`, err: `the response has no "access_token"`},
		"empty secret":           {body: `{"access_token":""}`, err: `"access_token" in the response is empty`},
		"a number for a secret":  {body: `{"access_token":1}`, err: `"access_token" in the response is a number, not a string`},
		"an object for a secret": {body: `{"access_token":{"token":"` + canary.PasswordSecret + `"}}`, err: `"access_token" in the response is an object, not a string`},
		"no user name":           {response: user, body: `{` + secret + `,"user":{}}`, err: `the response has no "user.name"`},
		"a bad user name":        {response: user, body: `{` + secret + `,"user":{"name":"a:` + canary.PasswordSecret + `"}}`, err: "the user name contains a colon, which HTTP Basic authentication does not allow"},
		"a list for an answer":   {body: `["` + canary.PasswordSecret + `"]`, err: `the response has no "access_token"`},
		"a string for an answer": {body: `"` + canary.PasswordSecret + `"`, err: `the response has no "access_token"`},
		"null for an answer":     {body: `null`, err: `the response has no "access_token"`},
		"index out of range":     {response: Response{Secret: "a.1"}, body: `{"a":["` + canary.PasswordSecret + `"]}`, err: `the response has no "a.1"`},
		"negative index":         {response: Response{Secret: "a.-1"}, body: `{"a":["` + canary.PasswordSecret + `"]}`, err: `the response has no "a.-1"`},
		"empty":                  {body: "", err: "the response is empty"},
		"blank":                  {body: " \n", err: "the response is empty"},
		"garbage":                {body: "token=" + canary.PasswordSecret, err: "the response is not JSON"},
		"truncated":              {body: `{` + secret, err: "the response is not JSON"},
		"two values":             {body: `{` + secret + `}{}`, err: "the response is not JSON"},
		"not UTF-8":              {body: "{\"access_token\":\"" + canary.PasswordSecret + "\xff\"}", err: "the response is not JSON"},
		"deep":                   {body: strings.Repeat(`[`, 20000), err: "the response is not JSON"},
	} {
		t.Run(title, func(t *testing.T) {
			p := newExchangeProvider(t, newConstantServer(t, tt.body), func(o *Options) {
				o.Exchange.Response, o.CacheDuration = tt.response, tt.cache
				if tt.response.Username != "" {
					o.Username = ""
				}
			})
			got, err := getOutcome(t, p, newRequest(serviceAccountToken(nil), nil))
			if tt.err != "" {
				checkError(t, err, tt.err)
				checkError(t, err, "registry.example: exchange the service-account token")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Cache != tt.want {
				t.Errorf("reused for %v, want %v", got.Cache, tt.want)
			}
			if want := cmp.Or(tt.username, "robot"); got.Username != want {
				t.Errorf("got user name %q, want %q", got.Username, want)
			}
			if !strings.HasPrefix(got.Password, canary.PasswordSecret) {
				t.Error("another password than the response's")
			}
		})
	}
}

// TestFailures verifies the errors of failed requests.
func TestFailures(t *testing.T) {
	elsewhere := newConstantServer(t, `{"access_token":"`+canary.PasswordSecret+`"}`)
	html := http.Header{"Content-Type": {"text/html; charset=utf-8"}}
	page := "<html>" + canary.PasswordSecret + "</html>"
	for title, tt := range map[string]struct {
		fault testcloud.Fault
		asked int
		want  string
	}{
		"400": {testcloud.Fault{Status: 400, Body: `{"error":"invalid_grant","error_description":"` + canary.TokenSecret + `"}`}, 1,
			`status 400 Bad Request (invalid_grant); check that the endpoint trusts the token's subject "system:serviceaccount:team:puller", audience ["registry.example"] and issuer "https://cluster.example"`},
		"401":            {testcloud.Fault{Status: 401, Body: page}, 1, `status 401 Unauthorized; check that the endpoint trusts the token's subject`},
		"403":            {testcloud.Fault{Status: 403, Header: http.Header{"X-Request-Id": {"req-1"}}}, 1, "status 403 Forbidden [request id req-1]; check that the endpoint trusts the token's subject"},
		"404":            {testcloud.Fault{Status: 404, Body: page}, 1, "/token: status 404 Not Found; check exchange.url and exchange.method"},
		"429":            {testcloud.Fault{Status: 429, Times: -1}, 3, "status 429 Too Many Requests, 3 times"},
		"429, long":      {testcloud.Fault{Status: 429, Times: -1, Header: http.Header{"Retry-After": {"3600"}}}, 1, "status 429 Too Many Requests"},
		"500":            {testcloud.Fault{Status: 500, Times: -1, Body: page}, 3, "status 500 Internal Server Error, 3 times"},
		"503 once":       {testcloud.Fault{Status: 503}, 2, ""},
		"500 twice":      {testcloud.Fault{Status: 500, Times: 2}, 3, ""},
		"dropped":        {testcloud.Fault{Drop: true, Times: -1}, 3, "/token: the connection was closed before the response was complete, 3 times"},
		"cut":            {testcloud.Fault{Truncate: true, Status: 200, Body: `{"access_token":"`, Times: -1}, 3, "/token: the connection was closed before the response was complete, 3 times"},
		"204":            {testcloud.Fault{Status: 204}, 1, "status 204 No Content"},
		"201":            {testcloud.Fault{Status: 201, Body: `{"access_token":"` + canary.PasswordSecret + `"}`}, 1, ""},
		"HTML":           {testcloud.Fault{Status: 200, Header: html, Body: page}, 1, "the response is not JSON, but text/html"},
		"huge":           {testcloud.Fault{Status: 200, Body: strings.Repeat(" ", 2<<20), Times: -1}, 1, "the response is longer than 1048576 bytes"},
		"other host":     {testcloud.Fault{Status: 307, Header: http.Header{"Location": {elsewhere.URL() + "/steal"}}}, 1, "redirect to another host"},
		"other redirect": {testcloud.Fault{Status: 302, Header: http.Header{"Location": {"//" + elsewhere.Addr() + "/steal"}}}, 1, "redirect to another host"},
		"same host":      {testcloud.Fault{Status: 307, Header: http.Header{"Location": {"/other"}}}, 2, ""},
	} {
		t.Run(title, func(t *testing.T) {
			server := newConstantServer(t, `{"access_token":"`+canary.PasswordSecret+`"}`)
			server.Inject(tt.fault)
			p := newExchangeProvider(t, server, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := p.GetCredentials(ctx, newRequest(serviceAccountToken(nil), nil))
			if tt.want == "" && err != nil {
				canary.AssertAbsent(t, "the error", err.Error())
				t.Fatal("failed")
			}
			if tt.want != "" {
				checkError(t, err, tt.want)
				checkError(t, err, "registry.example: exchange the service-account token: ")
			}
			if got := len(server.Requests()); got != tt.asked {
				t.Errorf("asked %d times, want %d", got, tt.asked)
			}
		})
	}
	if got := elsewhere.RequestLines(); len(got) != 0 {
		t.Errorf("another host was called: %q", got)
	}
}

func TestSilentServer(t *testing.T) {
	server := newConstantServer(t, "")
	server.Inject(testcloud.Fault{Hang: true, Times: -1})
	p := newExchangeProvider(t, server, nil)
	p.client.Timeout = 20 * time.Millisecond
	_, err := p.GetCredentials(t.Context(), newRequest(serviceAccountToken(nil), nil))
	checkError(t, err, "exchange the service-account token: POST "+server.URL()+"/token: no response within 20ms, 3 times")
}

func TestRefused(t *testing.T) {
	server := newConstantServer(t, "")
	server.Close()
	_, err := newExchangeProvider(t, server, nil).GetCredentials(t.Context(), newRequest(serviceAccountToken(nil), nil))
	checkError(t, err, "/token: connection refused, 3 times")
}

// TestAnnotationCannotInject verifies that the value of an annotation cannot change the
// rest of the request.
func TestAnnotationCannotInject(t *testing.T) {
	for title, value := range map[string]string{
		"quotes":      `a","admin":"yes`,
		"backslash":   `a\`,
		"braces":      `{{"x":1}}`,
		"token":       "{token}",
		"other":       "{annotation:example/other}{file:/etc/passwd}",
		"form":        "a&scope=admin#x",
		"percent":     "%2e%2e%2fadmin%00",
		"path":        "../../admin?x=1",
		"unicode":     "a\u2028é\U0001F600",
		"white space": " a\tb ",
	} {
		t.Run(title, func(t *testing.T) {
			server := newConstantServer(t, `{"access_token":"`+canary.PasswordSecret+`"}`)
			const placeholder = "{annotation:example/value}"
			for _, x := range []Exchange{
				{JSON: map[string]any{"value": placeholder, "n": 1}},
				{Form: map[string]string{"value": placeholder}},
			} {
				p := newExchangeProvider(t, server, func(o *Options) {
					x.URL, x.Response.Secret = server.URL()+"/a/b?value="+placeholder+"&n=1", "access_token"
					o.Exchange = &x
				})
				_, err := getOutcome(t, p, newRequest(serviceAccountToken(nil), map[string]string{"example/value": value, "example/other": "other"}))
				if err != nil {
					t.Fatal(err)
				}
			}
			for i, r := range server.Requests() {
				got := map[string]any{"path": r.Path, "query": r.Query}
				want := map[string]any{"path": "/a/b", "query": url.Values{"value": {value}, "n": {"1"}}}
				if got["body"], want["body"] = r.JSONBody(), map[string]any{"value": value, "n": 1.0}; i == 1 {
					got["body"], want["body"] = r.Form(), url.Values{"value": {value}}
				}
				if diff := gocmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestInjectionRefused(t *testing.T) {
	for title, tt := range map[string]struct{ value, want string }{
		"new line":        {"a\r\nX-Admin: yes", "exchange the service-account token: headers.X-Value: the value contains a control character"},
		"NUL":             {"a\x00", "headers.X-Value: the value contains a control character"},
		"parent":          {"..", "url: {annotation}: a value in the path must not be empty or consist of dots"},
		"self":            {".", "url: {annotation}: a value in the path must not be empty or consist of dots"},
		"path":            {"x/../../admin", "url: {annotation}: a value in the path must not contain / "},
		"doubled slash":   {"../..//evil", "url: {annotation}: a value in the path must not contain / "},
		"parameter":       {"..;/admin", "url: {annotation}: a value in the path must not contain / "},
		"escapes":         {"%252e%252e", "url: {annotation}: a value in the path must not contain percent escapes"},
		"empty":           {"", `the service account has no annotation "example/value"`},
		"colon in a user": {"a:b", "basicAuth.username: the user name contains a colon, which HTTP Basic authentication does not allow"},
	} {
		t.Run(title, func(t *testing.T) {
			server := newConstantServer(t, `{"access_token":"`+canary.PasswordSecret+`"}`)
			p := newExchangeProvider(t, server, func(o *Options) {
				const placeholder = "{annotation:example/value}"
				if strings.Contains(tt.want, "url: ") {
					o.Exchange.URL += "/" + placeholder
				}
				o.Exchange.Headers = map[string]string{"X-Value": placeholder}
				o.Exchange.BasicAuth = &BasicAuth{Username: placeholder, Password: "{token}"}
			})
			_, err := getOutcome(t, p, newRequest(serviceAccountToken(nil), map[string]string{"example/value": tt.value}))
			checkError(t, err, tt.want)
			if len(server.Requests()) != 0 {
				t.Error("the endpoint was called")
			}
		})
	}
}

// TestPathSegments verifies that values cannot form a dot segment together with other text, and
// which values from tokens and images a path may contain.
func TestPathSegments(t *testing.T) {
	const dots = "a placeholder must not expand to a . or .. path segment"
	for _, tt := range []struct{ path, annotation, subject, want string }{
		{"/v1/{annotation:example/value}/x", "org+robot", "", ""},
		{"/v1/{repository}/{registry}/x", "", "", ""},
		{"/v1/{namespace}/{serviceaccount}/x", "", "", ""},
		{"/v1/.{annotation:example/value}/x", "a", "", ""},
		{"/v1/.{annotation:example/value}/x", ".", "", "consist of dots"},
		{"/v1/{annotation:example/value}{annotation:example/value}/x", ".", "", "consist of dots"},
		{"/v1/{{.}}/x", "", "", ""},
		{"/v1/../x", "", "", dots},
		{"/v1/{namespace}/x", "", "system:serviceaccount:..:app", "{namespace}: a value in the path must not be empty or consist of dots"},
		{"/v1/{serviceaccount}/x", "", "system:serviceaccount:a:b/../c", "{serviceaccount}: a value in the path must not contain / "},
		{"/v1/{serviceaccount}/x", "", "system:serviceaccount:a:b%2fc", "{serviceaccount}: a value in the path must not contain percent escapes"},
	} {
		server := newConstantServer(t, `{"access_token":"`+canary.PasswordSecret+`"}`)
		p := newExchangeProvider(t, server, func(o *Options) {
			o.Exchange.URL = server.URL() + tt.path
			o.Exchange.Response.Secret = "access_token"
		})
		claims := map[string]any{}
		if tt.subject != "" {
			claims["sub"] = tt.subject
		}
		_, err := getOutcome(t, p, newRequest(serviceAccountToken(claims), map[string]string{"example/value": tt.annotation}))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s with %q%s: got %v, want %q", tt.path, tt.annotation, tt.subject, err, tt.want)
		}
		if n := len(server.Requests()); (n == 0) != (tt.want != "") {
			t.Errorf("%s with %q%s: %d requests", tt.path, tt.annotation, tt.subject, n)
		}
	}
}

func TestScopeOfTemplates(t *testing.T) {
	server := newConstantServer(t, `{"access_token":"`+canary.PasswordSecret+`"}`)
	for title, change := range map[string]func(*Exchange){
		"url":    func(x *Exchange) { x.URL += "/{repository}" },
		"query":  func(x *Exchange) { x.URL += "?i={image}" },
		"header": func(x *Exchange) { x.Headers = map[string]string{"X-Image": "{image}"} },
		"form":   func(x *Exchange) { x.TokenExchange.Scope = "repository:{repository}:pull" },
		"basic":  func(x *Exchange) { x.BasicAuth = &BasicAuth{Username: "{repository}", Password: "{token}"} },
		"json":   func(x *Exchange) { x.TokenExchange, x.JSON = nil, []any{map[string]any{"a": "{image}"}} },
	} {
		t.Run(title, func(t *testing.T) {
			p := newExchangeProvider(t, server, func(o *Options) {
				o.Exchange.Response.Secret = "access_token"
				change(o.Exchange)
			})
			got := must.Get(getOutcome(t, p, newRequest(serviceAccountToken(nil), nil)))(t)
			if got.Scope != plugin.CacheImage {
				t.Errorf("got scope %s, want Image", got.Scope)
			}
		})
	}
}

func TestWarnIfTokenIsEchoed(t *testing.T) {
	token := serviceAccountToken(nil)
	var logged bytes.Buffer
	p := newExchangeProvider(t, newConstantServer(t, `{"access_token":"`+token+`"}`), func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	})
	must.Get(getOutcome(t, p, newRequest(token, nil)))(t)
	canary.AssertAbsent(t, "the log", logged.String())
	if !strings.Contains(logged.String(), "the endpoint returned the service-account token, which the kubelet rejects unless cacheType is Token") {
		t.Error("there is no warning")
	}
}
