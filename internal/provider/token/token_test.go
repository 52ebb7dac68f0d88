// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// testTime is the time in these tests.
var testTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// serviceAccountToken returns a token of the service account "puller" in "team" for the audience
// "registry.example", with changed claims. Its header is a canary.
func serviceAccountToken(claims map[string]any) string {
	all := map[string]any{
		"iss": "https://cluster.example", "sub": "system:serviceaccount:team:puller",
		"aud": []string{"registry.example"}, "exp": testTime.Add(time.Hour).Unix(),
	}
	for name, value := range claims {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	return newJWT(canary.TokenSecret, all)
}

func newJWT(first string, claims map[string]any) string {
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	return first + "." + base64.RawURLEncoding.EncodeToString(payload) + ".c2ln"
}

func newRequest(token string, annotations map[string]string) *plugin.Request {
	return &plugin.Request{
		APIVersion: plugin.V1, Image: "registry.example/team/app",
		ServiceAccountToken: plugin.NewSecret(token), ServiceAccountAnnotations: annotations,
	}
}

func newProvider(t *testing.T, opts Options) *Provider {
	t.Helper()
	if opts.Registries == nil {
		opts.Registries = []string{"registry.example"}
	}
	if opts.Exchange == nil && opts.Audience == "" {
		opts.Audience = "registry.example"
	}
	opts.Now = func() time.Time { return testTime }
	return must.Get(New(opts))(t)
}

// responseOutcome contains the fields of a response.
type responseOutcome struct {
	Key, Username, Password string
	Cache                   time.Duration
	Scope                   plugin.CacheKeyType
}

func getOutcome(t *testing.T, p *Provider, req *plugin.Request) (responseOutcome, error) {
	t.Helper()
	resp, err := p.GetCredentials(t.Context(), req)
	if err != nil {
		canary.AssertAbsent(t, "the error", err.Error())
		if resp != nil {
			t.Error("a response and an error")
		}
		return responseOutcome{}, err
	}
	o := responseOutcome{Cache: *resp.CacheDuration, Scope: resp.CacheKeyType}
	for key, auth := range resp.Auth {
		o.Key, o.Username, o.Password = key, auth.Username, auth.Password.Reveal()
	}
	return o, nil
}

// checkError checks that an error contains want. It does not print an error that contains a secret.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("got no error, want %q", want)
	case canary.FindMarker(err.Error()) != "":
		t.Error("the error holds a planted secret")
	case !strings.Contains(err.Error(), want):
		t.Errorf("got error %q, want %q in it", err, want)
	}
}

func TestPassThrough(t *testing.T) {
	var (
		good    = serviceAccountToken(nil)
		minutes = func(n int) string { return serviceAccountToken(map[string]any{"exp": testTime.Unix() + int64(n)*60}) }
		forever = serviceAccountToken(map[string]any{"exp": nil})
	)
	for title, tt := range map[string]struct {
		opts  Options
		image string
		token string
		want  responseOutcome
	}{
		"default":        {token: good, want: responseOutcome{"registry.example", "serviceaccount", good, 30 * time.Minute, plugin.CacheRegistry}},
		"user name":      {opts: Options{Username: "jwt"}, token: good, want: responseOutcome{"registry.example", "jwt", good, 30 * time.Minute, plugin.CacheRegistry}},
		"template":       {opts: Options{Username: "{namespace}-{serviceaccount}"}, token: good, want: responseOutcome{"registry.example", "team-puller", good, 30 * time.Minute, plugin.CacheRegistry}},
		"of the image":   {opts: Options{Username: "{repository}"}, token: good, want: responseOutcome{"registry.example", "team/app", good, 30 * time.Minute, plugin.CacheImage}},
		"audience":       {opts: Options{Audience: "registry.example"}, token: good, want: responseOutcome{"registry.example", "serviceaccount", good, 30 * time.Minute, plugin.CacheRegistry}},
		"at most":        {opts: Options{CacheDuration: new(time.Minute)}, token: good, want: responseOutcome{"registry.example", "serviceaccount", good, time.Minute, plugin.CacheRegistry}},
		"not cached":     {opts: Options{CacheDuration: new(time.Duration(0))}, token: good, want: responseOutcome{"registry.example", "serviceaccount", good, 0, plugin.CacheRegistry}},
		"short":          {token: minutes(10), want: responseOutcome{"registry.example", "serviceaccount", minutes(10), 5 * time.Minute, plugin.CacheRegistry}},
		"last minutes":   {token: minutes(2), want: responseOutcome{"registry.example", "serviceaccount", minutes(2), time.Minute, plugin.CacheRegistry}},
		"last minute":    {token: minutes(1), want: responseOutcome{"registry.example", "serviceaccount", minutes(1), 0, plugin.CacheRegistry}},
		"years":          {token: minutes(5_000_000), want: responseOutcome{"registry.example", "serviceaccount", minutes(5_000_000), 24 * time.Hour, plugin.CacheRegistry}},
		"no expiry":      {token: forever, want: responseOutcome{"registry.example", "serviceaccount", forever, 0, plugin.CacheRegistry}},
		"unknown expiry": {opts: Options{CacheDuration: new(time.Minute)}, token: forever, want: responseOutcome{"registry.example", "serviceaccount", forever, time.Minute, plugin.CacheRegistry}},
		"path":           {opts: Options{Registries: []string{"registry.example/team/"}}, token: good, want: responseOutcome{"registry.example", "serviceaccount", good, 30 * time.Minute, plugin.CacheImage}},
		"glob":           {opts: Options{Registries: []string{"other.example", "*.reg.example:5000"}}, image: "a.reg.example:5000/a", token: good, want: responseOutcome{"a.reg.example:5000", "serviceaccount", good, 30 * time.Minute, plugin.CacheRegistry}},
		"by hand":        {image: "https://registry.example/team/app:v1@sha256:00", token: good, want: responseOutcome{"registry.example", "serviceaccount", good, 30 * time.Minute, plugin.CacheRegistry}},

		"whole segment":     {opts: Options{Registries: []string{"registry.example/team"}}, token: good, want: responseOutcome{"registry.example", "serviceaccount", good, 30 * time.Minute, plugin.CacheImage}},
		"prefix with -":     {opts: Options{Registries: []string{"registry.example/te-"}}, image: "registry.example/te-am/app", token: good, want: responseOutcome{"registry.example", "serviceaccount", good, 30 * time.Minute, plugin.CacheImage}},
		"other segment":     {opts: Options{Registries: []string{"registry.example/team"}}, image: "registry.example/team-evil/app", token: good, want: responseOutcome{Scope: plugin.CacheImage}},
		"part of a segment": {opts: Options{Registries: []string{"registry.example/team/a"}}, image: "registry.example/team/app", token: good, want: responseOutcome{Scope: plugin.CacheImage}},
		"other path":        {opts: Options{Registries: []string{"registry.example/team/"}}, image: "registry.example/team-b/a", token: good, want: responseOutcome{Scope: plugin.CacheImage}},
		"optional":          {opts: Options{Optional: true}, want: responseOutcome{Scope: plugin.CacheImage}},
	} {
		t.Run(title, func(t *testing.T) {
			req := newRequest(tt.token, nil)
			if tt.image != "" {
				req.Image = tt.image
			}
			got := must.Get(getOutcome(t, newProvider(t, tt.opts), req))(t)
			same := got.Password == tt.want.Password
			if got.Password, tt.want.Password = "", ""; !same {
				t.Error("the password is not the token")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRefusedTokens(t *testing.T) {
	for title, tt := range map[string]struct {
		opts       Options
		apiVersion string
		token      string
		want       string
	}{
		"v1beta1": {apiVersion: plugin.V1Beta1, want: "registry.example: no service-account token: credentialprovider.kubelet.k8s.io/v1beta1 does not support it; set the provider's apiVersion to credentialprovider.kubelet.k8s.io/v1"},
		"v1":      {apiVersion: plugin.V1, want: "no service-account token in the request; set tokenAttributes in the provider's configuration, and use kubelet 1.34 or newer"},
		"audience": {opts: Options{Audience: "other.example"}, token: serviceAccountToken(nil),
			want: `the service-account token has the audience ["registry.example"], not "other.example"`},
		"audience of an opaque token": {opts: Options{Audience: "registry.example"}, token: canary.TokenSecret, want: "check the audience of the service-account token: not a JSON Web Token"},
		"expired": {token: serviceAccountToken(map[string]any{"exp": testTime.Add(-time.Minute).Unix()}),
			want: "the service-account token expired 1m0s ago, at 2026-11-21T11:59:00Z; check the node's clock, which shows 2026-11-21T12:00:00Z"},
		"expires now": {token: serviceAccountToken(map[string]any{"exp": testTime.Unix()}), want: "expired 0s ago"},
		"not of a service account": {opts: Options{Username: "{namespace}"}, token: serviceAccountToken(map[string]any{"sub": "system:node:a"}),
			want: "username: {namespace}: the token does not name a service account"},
		"no annotation":    {opts: Options{Username: "{annotation:example/user}"}, token: serviceAccountToken(nil), want: `username: the service account has no annotation "example/user"`},
		"colon":            {opts: Options{Username: "{registry}:{namespace}"}, token: serviceAccountToken(nil), want: "the user name contains a colon, which HTTP Basic authentication does not allow"},
		"control":          {opts: Options{Username: "a\nb"}, token: serviceAccountToken(nil), want: "the user name contains a control character"},
		"empty name":       {opts: Options{Username: "{repository}"}, token: serviceAccountToken(nil), want: "the user name is empty"},
		"optional expired": {opts: Options{Optional: true}, token: serviceAccountToken(map[string]any{"exp": 1}), want: "expired"},
	} {
		t.Run(title, func(t *testing.T) {
			req := newRequest(tt.token, nil)
			if tt.apiVersion != "" {
				req.APIVersion = tt.apiVersion
			}
			if title == "empty name" {
				req.Image = "registry.example"
			}
			_, err := getOutcome(t, newProvider(t, tt.opts), req)
			checkError(t, err, tt.want)
		})
	}
}

// TestOtherHosts verifies that a host that is not configured leads to an error with a fix, or to an
// empty response if OtherHosts is "empty".
func TestOtherHosts(t *testing.T) {
	for title, image := range map[string]string{
		"other registry": "evil.example/registry.example/a",
		"lookalike":      "registry.example.evil.example/a",
		"other port":     "registry.example:5000/a",
		"upper case":     "REGISTRY.example/a",
		"label":          "a.b.reg.example/a",
	} {
		t.Run(title, func(t *testing.T) {
			opts := Options{Registries: []string{"registry.example", "*.reg.example", "part.example/a/"}}
			req := newRequest(serviceAccountToken(nil), nil)
			req.Image = image
			host, _, _ := strings.Cut(image, "/")
			_, err := getOutcome(t, newProvider(t, opts), req)
			checkError(t, err, fmt.Sprintf("image host %q is not a configured registry, so it gets no credential; remove it from matchImages, add the registry with --registry or under registries in the configuration file, or set --other-hosts=empty", host))
			opts.OtherHosts = "empty"
			if got, err := getOutcome(t, newProvider(t, opts), req); err != nil || got.Key != "" || got.Cache != 0 {
				t.Errorf("error %v, or a response that is not empty", err)
			}
		})
	}
	req := newRequest(serviceAccountToken(nil), nil)
	req.Image = "/a"
	_, err := getOutcome(t, newProvider(t, Options{OtherHosts: "empty"}), req)
	checkError(t, err, `image "/a" does not begin with a registry host`)
}

// TestForAPIServer verifies that a token is not sent if the API server accepts it, because the
// receiver could act as the pod.
func TestForAPIServer(t *testing.T) {
	const issuer = "https://cluster.example"
	asked := newConstantServer(t, `{"access_token":"`+canary.PasswordSecret+`"}`)
	exchange := func() *Exchange { return &Exchange{URL: asked.URL(), TokenExchange: &TokenExchange{}} }
	for title, tt := range map[string]struct {
		opts     Options
		audience any
	}{
		"passed through":           {Options{Audience: issuer}, issuer},
		"among others":             {Options{}, []string{"registry.example", issuer}},
		"first of others":          {Options{}, []string{issuer, "registry.example"}},
		"of EKS":                   {Options{}, []string{"registry.example", "https://kubernetes.default.svc"}},
		"exchanged":                {exchangeOptions(exchange()), []string{issuer, "registry.example"}},
		"exchanged, of EKS":        {exchangeOptions(exchange()), "https://kubernetes.default.svc"},
		"exchanged, with audience": {Options{Registries: []string{"registry.example"}, Username: "u", Audience: issuer, Exchange: exchange()}, issuer},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := getOutcome(t, newProvider(t, tt.opts), newRequest(serviceAccountToken(map[string]any{"aud": tt.audience}), nil))
			checkError(t, err, `registry.example: the service-account token has the API server's audience, "https://`)
			checkError(t, err, `so the recipient of the token can act as "system:serviceaccount:team:puller"; set serviceAccountTokenAudience to the registry's audience`)
		})
	}
	for _, audience := range []any{nil, []string{}} {
		_, err := getOutcome(t, newProvider(t, exchangeOptions(exchange())), newRequest(serviceAccountToken(map[string]any{"aud": audience}), nil))
		checkError(t, err, `the service-account token has no audience, so the API server accepts it, and its recipient can act as "system:serviceaccount:team:puller"`)
	}
	if got := asked.RequestLines(); len(got) > 0 {
		t.Errorf("the endpoint was called: %q", got)
	}
	// This request contains only the namespace, so the token does not leave the node.
	opts := exchangeOptions(&Exchange{URL: asked.URL(), Form: map[string]string{"who": "{namespace}"}, Response: Response{Secret: "access_token"}})
	if _, err := getOutcome(t, newProvider(t, opts), newRequest(serviceAccountToken(map[string]any{"aud": issuer}), nil)); err != nil {
		t.Error(err)
	}
}

func TestNewRefuses(t *testing.T) {
	valid := func(change func(*Exchange)) *Exchange {
		x := &Exchange{URL: "https://sts.example/token", Response: Response{Secret: "token"}}
		change(x)
		return x
	}
	url := func(u string) *Exchange { return valid(func(x *Exchange) { x.URL = u }) }
	for title, tt := range map[string]struct {
		opts Options
		want string
	}{
		"no audience":       {Options{Registries: []string{"a.example"}}, "no audience: if the token is the password, set --audience to the value of serviceAccountTokenAudience"},
		"relative file":     {Options{Registries: []string{"a"}, Audience: "a", TokenFile: "token"}, `tokenFile "token": must be an absolute path`},
		"file and optional": {Options{Registries: []string{"a"}, Audience: "a", TokenFile: "/token", Optional: true}, "tokenFile and optional are mutually exclusive"},
		"a public suffix":   {Options{Registries: []string{"*.github.io/team"}, Audience: "a"}, `registry "*.github.io/team": anyone can register a name under the public suffix "github.io"`},
		"every domain":      {Options{Registries: []string{"*.com"}, Audience: "a"}, `registry "*.com": a * in one of the last two labels would send the password to third-party hosts`},
		"every host":        {Options{Registries: []string{"*.*"}, Audience: "a"}, `registry "*.*": a * in one`},
		"every label":       {Options{Registries: []string{"*"}, Audience: "a"}, `registry "*": a * in one`},
		"every name":        {Options{Registries: []string{"ghcr.i*"}, Audience: "a"}, `registry "ghcr.i*": a * in one`},
		"every owner's":     {Options{Registries: []string{"*.github.io/team"}, Audience: "a"}, `registry "*.github.io/team": anyone can register a name under the public suffix "github.io"`},
		"every domain's":    {Options{Registries: []string{"r.example", "*.com:443/team/"}, Audience: "a"}, `registry "*.com:443/team/": a * in one`},
		"exchanged":         {Options{Registries: []string{"*.com"}, Username: "u", Exchange: url("https://sts.example")}, `registry "*.com": a * in one`},
		"no registries":     {Options{Audience: "a"}, "no registries: list the registries to provide credentials for, such as registry.example.com, with --registry or under registries"},
		"bad pattern":       {Options{Registries: []string{"a:b:c"}, Audience: "a"}, `registry "a:b:c"`},
		"scheme":            {Options{Registries: []string{"https://a.example"}, Audience: "a"}, `registry "https://a.example": must be host`},
		"empty pattern":     {Options{Registries: []string{""}, Audience: "a"}, `registry "": must be host[:port] without a scheme, such as registry.example.com`},
		"negative cache":    {Options{Registries: []string{"a"}, Audience: "a", CacheDuration: new(-time.Second)}, "cacheDuration -1s: must not be negative"},
		"token as the user": {Options{Registries: []string{"a"}, Audience: "a", Username: "{token}"}, "{token} is not allowed here, because it would be visible"},
		"unclosed":          {Options{Registries: []string{"a"}, Audience: "a", Username: "{token"}, "{ without }; write {{ for a literal brace"},
		"no user name":      {Options{Registries: []string{"a"}, Exchange: url("https://sts.example")}, "no user name: set username"},
		"two user names": {Options{Registries: []string{"a"}, Username: "u", Exchange: valid(func(x *Exchange) { x.Response.Username = "u" })},
			"username and exchange.response.username are mutually exclusive"},

		"no url":            {exchangeOptions(url("")), `exchange.url "": must be an https URL`},
		"no scheme":         {exchangeOptions(url("sts.example/token")), "must be an https URL"},
		"other scheme":      {exchangeOptions(url("ftp://sts.example/token")), "must be an https URL"},
		"no host":           {exchangeOptions(url("https:///token")), "must be an https URL"},
		"host placeholder":  {exchangeOptions(url("https://{registry}/token")), "the host must not contain a placeholder"},
		"annotated host":    {exchangeOptions(url("https://{annotation:a/b}.example/token")), "the host must not contain a placeholder"},
		"user":              {exchangeOptions(url("https://u:" + canary.PasswordSecret + "@sts.example/")), "exchange.url: must not contain a user name; use basicAuth"},
		"user, no host":     {exchangeOptions(url("https://u:" + canary.PasswordSecret + "@/")), "exchange.url: must not contain a user name; use basicAuth"},
		"secret in query":   {exchangeOptions(url("ftp://sts.example/?k=" + canary.PasswordSecret)), `exchange.url "ftp://sts.example/": must be an https URL`},
		"fragment":          {exchangeOptions(url("https://sts.example/#a")), "must not have a fragment"},
		"plain http":        {exchangeOptions(url("http://sts.example/token")), "must use https, because http exposes the token (insecureHTTP: true allows http)"},
		"lookalike":         {exchangeOptions(url("http://localhost.example/token")), "must use https"},
		"token in the path": {exchangeOptions(url("https://sts.example/{token}")), "{token} is not allowed here, because it would be visible"},
		"token in query":    {exchangeOptions(url("https://sts.example/?t={token}")), "{token} is not allowed here, because it would be visible"},
		"file in query":     {exchangeOptions(url("https://sts.example/?t={file:/a}")), "{file} is not allowed here, because it would be visible"},
		"header's colon":    {exchangeOptions(valid(func(x *Exchange) { x.Headers = map[string]string{"a:b": "c"} })), `exchange.headers: "a:b" is not a valid header name`},
		"header name":       {exchangeOptions(valid(func(x *Exchange) { x.Headers = map[string]string{"a b": "c"} })), `exchange.headers: "a b" is not a valid header name`},
		"header template":   {exchangeOptions(valid(func(x *Exchange) { x.Headers = map[string]string{"X": "}"} })), "exchange.headers.X: } without {"},
		"host header":       {exchangeOptions(valid(func(x *Exchange) { x.Headers = map[string]string{"host": "c"} })), "headers: Host is not allowed, because the host in url determines this header"},
		"header twice":      {exchangeOptions(valid(func(x *Exchange) { x.Headers = map[string]string{"X-A": "b", "x-a": "c"} })), `exchange.headers: duplicate header "x-a"`},
		"two credentials": {exchangeOptions(valid(func(x *Exchange) {
			x.BasicAuth, x.Headers = &BasicAuth{Username: "u", Password: "{token}"}, map[string]string{"authorization": "Bearer {token}"}
		})), "are mutually exclusive"},
		"relative secret": {exchangeOptions(valid(func(x *Exchange) { x.BasicAuth = &BasicAuth{Username: "u", Password: "{file:secret}"} })), "exchange.basicAuth.password: {file:PATH} requires an absolute path"},
		"two bodies":      {exchangeOptions(valid(func(x *Exchange) { x.Form, x.JSON = map[string]string{}, "a" })), "form and json are mutually exclusive"},
		"field twice": {exchangeOptions(valid(func(x *Exchange) { x.Form, x.TokenExchange = map[string]string{"subject_token": "a"}, &TokenExchange{} })),
			"exchange.form.subject_token: already set by tokenExchange"},
		"method":        {exchangeOptions(valid(func(x *Exchange) { x.Method = "PUT" })), `exchange.method "PUT": must be GET or POST`},
		"GET with body": {exchangeOptions(valid(func(x *Exchange) { x.Method, x.JSON = "GET", "a" })), "exchange.method: a GET request cannot have a body"},
		"bad user path": {Options{Registries: []string{"a.example"}, Exchange: valid(func(x *Exchange) { x.Response.Username = "a..b" })}, `exchange.response.username "a..b": the path contains an empty name; separate`},
		"bad life path": {exchangeOptions(valid(func(x *Exchange) { x.Response.ExpiresIn = "a..b" })), `exchange.response.expiresIn "a..b": the path contains an empty name; separate`},
		"bad end path":  {exchangeOptions(valid(func(x *Exchange) { x.Response.ExpiresAt = "a..b" })), `exchange.response.expiresAt "a..b": the path contains an empty name; separate`},
		"no secret":     {exchangeOptions(valid(func(x *Exchange) { x.Response.Secret = "" })), "exchange.response.secret is missing; set it to the response field that contains the password, such as access_token"},
		"bad path":      {exchangeOptions(valid(func(x *Exchange) { x.Response.Secret = "a..b" })), `exchange.response.secret "a..b": the path contains an empty name; separate`},
		"JSON template": {exchangeOptions(valid(func(x *Exchange) { x.JSON = map[string]any{"a": []any{"{tokn}"}} })), "exchange.json.a[0]: unknown placeholder {tokn}"},
		"no JSON":       {exchangeOptions(valid(func(x *Exchange) { x.JSON = map[any]any{1: 2} })), "exchange.json: not a JSON value; put the value in quotes"},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := New(tt.opts)
			checkError(t, err, tt.want)
		})
	}
}

func exchangeOptions(x *Exchange) Options {
	return Options{Registries: []string{"registry.example"}, Username: "robot", Exchange: x}
}

func ExampleNew() {
	provider, err := New(Options{Registries: []string{"registry.example.com"}, Audience: "registry.example.com"})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = provider.GetCredentials(context.Background(), &plugin.Request{APIVersion: plugin.V1Beta1, Image: "registry.example.com/app"})
	fmt.Println(err)
	// Output:
	// registry.example.com: no service-account token: credentialprovider.kubelet.k8s.io/v1beta1 does not support it; set the provider's apiVersion to credentialprovider.kubelet.k8s.io/v1, and set tokenAttributes
}
