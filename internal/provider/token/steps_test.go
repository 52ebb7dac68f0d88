// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
)

// newVaultServer starts a server with the paths /login and /read, like HashiCorp Vault. login and
// read are the responses.
func newVaultServer(t *testing.T, login, read string) *testcloud.Server {
	t.Helper()
	server := testcloud.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/login":
			io.WriteString(w, login)
		case "/read":
			io.WriteString(w, read)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// newTwoStepProvider returns a provider that logs in at one server and reads the credential from another.
func newTwoStepProvider(t *testing.T, login, read *testcloud.Server, change func(*Options)) *Provider {
	t.Helper()
	return newExchangeProvider(t, login, func(o *Options) {
		o.Exchange = &Exchange{Steps: []Step{
			{"login", Exchange{
				URL: login.URL() + "/login", JSON: map[string]any{"jwt": "{token}", "role": "{namespace}"},
				Response: Response{ExpiresIn: "auth.lease_duration"},
			}},
			{"read", Exchange{
				URL: read.URL() + "/read", Headers: map[string]string{"X-Vault-Token": "{answer:login.auth.client_token}"},
				Response: Response{Secret: "data.password", Username: "data.username", ExpiresIn: "lease_duration"},
			}},
		}}
		o.Username = ""
		if change != nil {
			change(o)
		}
	})
}

const (
	loginResponse  = `{"auth":{"client_token":"` + canary.EnvSecret + `","lease_duration":600}}`
	secretResponse = `{"data":{"username":"puller","password":"` + canary.PasswordSecret + `"},"lease_duration":3600}`
)

func TestSteps(t *testing.T) {
	server := newVaultServer(t, loginResponse, secretResponse)
	got := must.Get(getOutcome(t, newTwoStepProvider(t, server, server, nil), newRequest(serviceAccountToken(nil), nil)))(t)
	if want := (responseOutcome{"registry.example", "puller", canary.PasswordSecret, 5 * time.Minute, plugin.CacheRegistry}); got != want {
		t.Error("another response than the last step's, for half the life of the shortest")
	}
	if got, want := strings.ReplaceAll(strings.Join(server.RequestLines(), ", "), server.Addr(), ""), "POST /login, GET /read"; got != want {
		t.Fatalf("asked %q, want %q", got, want)
	}
	login, read := server.Requests()[0], server.Requests()[1]
	if login.JSONBody()["jwt"] != serviceAccountToken(nil) || login.JSONBody()["role"] != "team" || login.Header.Get("X-Vault-Token") != "" {
		t.Error("another login")
	}
	if read.Header.Get("X-Vault-Token") != canary.EnvSecret || len(read.Body) > 0 {
		t.Error("another reading")
	}
}

// TestResponseValuesInBodies verifies that a value from a response is inserted unchanged anywhere
// in a request body.
func TestResponseValuesInBodies(t *testing.T) {
	const value = `a&b="c"{token}\`
	for title, step := range map[string]Exchange{
		"form":  {Form: map[string]string{"v": "<{answer:login.v}>"}},
		"json":  {JSON: map[string]any{"v": "<{answer:login.v}>"}},
		"basic": {BasicAuth: &BasicAuth{Username: "u", Password: "<{answer:login.v}>"}},
	} {
		t.Run(title, func(t *testing.T) {
			server := newVaultServer(t, `{"v":"a&b=\"c\"{token}\\"}`, secretResponse)
			step.URL, step.Response = server.URL()+"/read", Response{Secret: "data.password"}
			p := newTwoStepProvider(t, server, server, func(o *Options) { o.Username, o.Exchange.Steps[1].Exchange = "u", step })
			must.Get(getOutcome(t, p, newRequest(serviceAccountToken(nil), nil)))(t)
			r := server.Requests()[1]
			_, password, _ := (&http.Request{Header: r.Header}).BasicAuth()
			got := map[string]any{"form": r.Form().Get("v"), "json": r.JSONBody()["v"], "basic": password}[title]
			if got != "<"+value+">" {
				t.Errorf("it arrived as %q", got)
			}
		})
	}
}

// TestStepFails verifies that the error names the failed step and that no later endpoint is called.
func TestStepFails(t *testing.T) {
	for title, tt := range map[string]struct {
		login, read string
		fault       testcloud.Fault
		asked       int
		want        string
	}{
		"no value":       {login: `{"auth":{}}`, asked: 1, want: `, step "read": headers.X-Vault-Token: {answer:login}: the response has no "auth.client_token"`},
		"null":           {login: `null`, asked: 1, want: `{answer:login}: the response has no "auth.client_token"`},
		"a number":       {login: `{"auth":{"client_token":1}}`, asked: 1, want: `{answer:login}: "auth.client_token" in the response is a number, not a string`},
		"empty value":    {login: `{"auth":{"client_token":""}}`, asked: 1, want: `{answer:login}: "auth.client_token" in the response is empty`},
		"new line":       {login: `{"auth":{"client_token":"` + canary.EnvSecret + `\r\nX-Admin: yes"}}`, asked: 1, want: `, step "read": headers.X-Vault-Token: the value contains a control character`},
		"NUL":            {login: `{"auth":{"client_token":"\u0000"}}`, asked: 1, want: `headers.X-Vault-Token: the value contains a control character`},
		"no JSON":        {login: canary.EnvSecret, asked: 1, want: `, step "login": HOST: the response is not JSON`},
		"empty":          {asked: 1, want: `, step "login": HOST: the response is empty`},
		"deep":           {login: strings.Repeat("[", 20000), asked: 1, want: "the response is not JSON"},
		"bad lease":      {login: `{"auth":{"client_token":"a","lease_duration":"b"}}`, asked: 1, want: `, step "login": HOST: "auth.lease_duration" in the response is a string, not a number`},
		"no lease":       {login: `{"auth":{"client_token":"a","lease_duration":0}}`, asked: 1, want: `, step "login": HOST: "auth.lease_duration" in the response is not a positive number`},
		"403":            {fault: testcloud.Fault{Status: 403}, asked: 1, want: `, step "login": POST HOST/login: status 403 Forbidden; check that the endpoint trusts the token's subject "system:serviceaccount:team:puller"`},
		"404":            {fault: testcloud.Fault{Status: 404}, asked: 1, want: `, step "login": POST HOST/login: status 404 Not Found; check exchange.steps[0].url and exchange.steps[0].method`},
		"500":            {fault: testcloud.Fault{Status: 500, Times: -1}, asked: 3, want: `status 500 Internal Server Error, 3 times`},
		"endless":        {fault: testcloud.Fault{Status: 200, Body: strings.Repeat(" ", 2<<20)}, asked: 1, want: "the response is longer than 1048576 bytes"},
		"redirect":       {fault: testcloud.Fault{Status: 307, Header: http.Header{"Location": {"https://evil.example/"}}}, asked: 1, want: "redirect to another host"},
		"in the last":    {login: loginResponse, read: `{"data":{}}`, asked: 2, want: `, step "read": HOST: the response has no "data.password"`},
		"last is no one": {login: loginResponse, read: `{"data":{"password":"` + canary.PasswordSecret + `","username":"a:b"}}`, asked: 2, want: "the user name contains a colon, which HTTP Basic authentication does not allow"},
	} {
		t.Run(title, func(t *testing.T) {
			server := newVaultServer(t, tt.login, tt.read)
			if tt.fault.Status != 0 {
				server.Inject(tt.fault)
			}
			_, err := getOutcome(t, newTwoStepProvider(t, server, server, nil), newRequest(serviceAccountToken(nil), nil))
			checkError(t, err, strings.ReplaceAll(tt.want, "HOST", server.URL()))
			checkError(t, err, "registry.example: exchange the service-account token, step ")
			if got := len(server.Requests()); got != tt.asked {
				t.Errorf("asked %d times, want %d", got, tt.asked)
			}
		})
	}
}

// TestStepRefused verifies that the error of a step that does not send the service account token
// does not mention the token.
func TestStepRefused(t *testing.T) {
	server, refusing := newVaultServer(t, loginResponse, secretResponse), newVaultServer(t, loginResponse, secretResponse)
	refusing.Inject(testcloud.Fault{Status: 403})
	_, err := getOutcome(t, newTwoStepProvider(t, server, refusing, nil), newRequest(serviceAccountToken(nil), nil))
	checkError(t, err, `step "read": GET `+refusing.URL()+"/read: status 403 Forbidden")
	if strings.Contains(fmt.Sprint(err), "check that the endpoint trusts the token's subject") {
		t.Errorf("it blames the token: %v", err)
	}
}

// TestStepExpired verifies that an expired token in an earlier step's response is an error.
func TestStepExpired(t *testing.T) {
	server := newVaultServer(t, `{"auth":{"client_token":"a"},"end":"2026-11-21T11:59:59Z"}`, secretResponse)
	p := newTwoStepProvider(t, server, server, func(o *Options) { o.Exchange.Steps[0].Response = Response{ExpiresAt: "end"} })
	_, err := getOutcome(t, p, newRequest(serviceAccountToken(nil), nil))
	checkError(t, err, `step "login": `+server.URL()+": the credential in the response expired at 2026-11-21T11:59:59Z; check the node's clock")
}

// TestStepsShareTheTime verifies that the timeout applies to all steps together.
func TestStepsShareTheTime(t *testing.T) {
	first, second := newVaultServer(t, loginResponse, secretResponse), newVaultServer(t, loginResponse, secretResponse)
	second.Inject(testcloud.Fault{Hang: true, Times: -1})
	p := newTwoStepProvider(t, first, second, nil)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("that was all"))
	defer cancel()
	_, err := p.GetCredentials(ctx, newRequest(serviceAccountToken(nil), nil))
	checkError(t, err, `step "read": GET `+second.URL()+"/read: that was all")
}

// TestStepsAreOpaque verifies that formatting does not print the templates of steps.
func TestStepsAreOpaque(t *testing.T) {
	s := Step{"a", Exchange{URL: "https://a.example", Form: map[string]string{"a": canary.PasswordSecret}}}
	x := Exchange{Steps: []Step{s}, JWT: &JWT{Claims: map[string]any{"a": canary.PasswordSecret}}}
	for _, v := range []any{s, &s, x, &x, []Step{s}, Options{Exchange: &x}, x.JWT, *x.JWT} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			canary.AssertAbsent(t, verb, fmt.Sprintf(verb, v))
		}
	}
}
