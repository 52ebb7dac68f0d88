// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/secretfile"
)

func TestTemplate(t *testing.T) {
	v := placeholderValues{
		req: newRequest(canary.TokenSecret, map[string]string{"example.com/a.b": "x"}), registry: "registry.example:5000", repository: "team/app",
		token:     inputToken{text: canary.TokenSecret, claims: jwt.Claims{Subject: "system:serviceaccount:ns:sa"}},
		signedJWT: canary.EnvSecret,
		responses: map[string]any{"log-in": map[string]any{"auth": map[string]any{"x.y": canary.PasswordSecret}}},
	}
	in := templateContext{allowSecrets: true, allowJWT: true, step: 1, steps: []string{"log-in", "read", "last"}}
	for text, want := range map[string]string{
		"":                             "",
		"plain":                        "plain",
		"{{}}":                         "{}",
		"{{token}}":                    "{token}",
		`{{"a":"{namespace}"}}`:        `{"a":"ns"}`,
		"{image}":                      "registry.example:5000/team/app",
		"{registry}|{repository}":      "registry.example:5000|team/app",
		"{namespace}/{serviceaccount}": "ns/sa",
		"{annotation:example.com/a.b}": "x",
		"{token}":                      canary.TokenSecret,
		"Bearer {jwt}":                 "Bearer " + canary.EnvSecret,
		`{answer:log-in.auth.x\.y}`:    canary.PasswordSecret,
	} {
		tmpl, err := parseTemplate(text, in)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got, err := tmpl.expandWith(v, noEscape); err != nil || got != want {
			t.Errorf("%q: another text than wanted, or %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"{":                                "{ without }; write {{ for a literal brace",
		"}":                                "} without {; write }} for a literal brace",
		"a}b":                              "} without {; write }} for a literal brace",
		"{{}":                              "} without {; write }} for a literal brace",
		"{}":                               "unknown placeholder {}",
		"{Token}":                          "unknown placeholder {Token}",
		"{token:x}":                        "unknown placeholder {token:x}",
		`{"a":"` + canary.EnvSecret + `"}`: "unknown placeholder {…}",
		"{annotation}":                     "{annotation:KEY} requires an annotation key",
		"{annotation:}":                    "{annotation:KEY} requires an annotation key",
		"{file}":                           "requires an absolute path",
		"{file:a}":                         "requires an absolute path",
		"{jwt:x}":                          "unknown placeholder {jwt:x}",
		"{answer}":                         "{answer:STEP.PATH} requires an earlier step and a path in its response, such as {answer:login.auth.client_token}",
		"{answer:log-in}":                  "{answer:STEP.PATH} requires an earlier step and a path in its response, such as {answer:login.auth.client_token}",
		"{answer:log-in.}":                 "{answer:STEP.PATH} requires an earlier step and a path in its response, such as {answer:login.auth.client_token}",
		"{answer:log-in.a..b}":             "{answer:STEP.PATH} requires an earlier step and a path in its response, such as {answer:login.auth.client_token}",
		"{answer:.a}":                      "{answer:STEP.PATH} requires an earlier step and a path in its response, such as {answer:login.auth.client_token}",
		"{answer:other.a}":                 `{answer:other}: no such step; the steps are ["log-in" "read" "last"]`,
		"{answer:read.a}":                  "{answer:read}: a step cannot use its own response",
		"{answer:last.a}":                  "{answer:last}: the step comes later; use an earlier step",
	} {
		_, err := parseTemplate(text, in)
		checkError(t, err, want)
	}
}

func TestPath(t *testing.T) {
	document := map[string]any{
		"a": map[string]any{"b": []any{"zero", map[string]any{"c": "here"}}, "x.y": "dotted", `\`: "slash", "0": "digit"},
		"n": nil, "": "nameless",
	}
	for text, want := range map[string]any{
		"a.b.1.c": "here", "a.b.0": "zero", `a.x\.y`: "dotted", `a.\\`: "slash", "a.0": "digit",
		"n": nil, "b": nil, "a.b.2": nil, "a.b.c": nil, "a.b.0.c": nil, "a.b.-1": nil, "a.b.99999999999999999999": nil,
	} {
		path, err := parsePath(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got, ok := path.findValue(document); got != want || ok != (want != nil) {
			t.Errorf("%q: got %v, %t, want %v", text, got, ok, want)
		}
		if got := path.String(); got != text {
			t.Errorf("%q: written as %q", text, got)
		}
	}
	for _, text := range []string{"", ".", "a.", ".a", "a..b", `a\`, `a\b`, strings.Repeat("a.", maxPathLength) + "a"} {
		if path, err := parsePath(text); err == nil {
			t.Errorf("%q: accepted as %q", text, path)
		}
	}
}

func TestParse(t *testing.T) {
	got, err := Parse([]byte(`registries: [registry.example, "*.example"]
username: "{namespace}"
audience: registry.example
optional: true
cacheDuration: 10m
exchange:
  url: https://sts.example/token
  method: POST
  headers: {X-A: b}
  basicAuth: {username: u, password: "{file:/secret}"}
  form: {a: 1}
  tokenExchange: {audience: a, scope: s, resource: r, subjectTokenType: t, requestedTokenType: q}
  response: {username: u, secret: s, expiresIn: i, expiresAt: a}
  caFile: /ca.pem
  insecureHTTP: true
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Options{
		Registries: []string{"registry.example", "*.example"}, Username: "{namespace}", Audience: "registry.example", Optional: true,
		CacheDuration: new(10 * time.Minute),
		Exchange: &Exchange{
			URL: "https://sts.example/token", Method: "POST", Headers: map[string]string{"X-A": "b"},
			BasicAuth: &BasicAuth{Username: "u", Password: "{file:/secret}"}, Form: map[string]string{"a": "1"},
			TokenExchange: &TokenExchange{"a", "s", "r", "t", "q"}, Response: Response{"u", "s", "i", "a"},
			CAFile: "/ca.pem", InsecureHTTP: true,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseSteps(t *testing.T) {
	got, err := Parse([]byte(`tokenFile: /run/token
exchange:
  jwt:
    keyFile: /key.pem
    keyID: k
    issuer: i
    subject: s
    audience: a
    lifetime: 9m
    claims: {c: [1, 2.5, true, null, "{token}"]}
  steps:
  - name: login
    url: https://sts.example/login
    json: {a: [1, 2.5, true, null, "{jwt}"]}
    response: {expiresIn: lease}
  - name: read
    url: https://sts.example/read
    headers: {X-Token: "{answer:login.auth.token}"}
    response: {secret: s}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Options{
		TokenFile: "/run/token",
		Exchange: &Exchange{
			JWT: &JWT{KeyFile: "/key.pem", KeyID: "k", Issuer: "i", Subject: "s", Audience: "a", Lifetime: 9 * time.Minute, Claims: map[string]any{"c": []any{1, 2.5, true, nil, "{token}"}}},
			Steps: []Step{
				{"login", Exchange{URL: "https://sts.example/login", JSON: map[string]any{"a": []any{1, 2.5, true, nil, "{jwt}"}}, Response: Response{ExpiresIn: "lease"}}},
				{"read", Exchange{URL: "https://sts.example/read", Headers: map[string]string{"X-Token": "{answer:login.auth.token}"}, Response: Response{Secret: "s"}}},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestParseLocates verifies that errors about fields include the line number.
func TestParseLocates(t *testing.T) {
	steps := func(text string) string {
		return "exchange:\n  steps:\n  - name: login\n    url: https://a.example\n  - name: read\n    url: https://a.example\n    response: {secret: s}\n" + text
	}
	for title, tt := range map[string]struct{ text, want string }{
		"url":              {"exchange:\n  url: ftp://a\n", `line 2: exchange.url "ftp://a": must be an https URL`},
		"missing":          {"registries: []\nexchange:\n  method: GET\n", `line 2: exchange.url "": must be`},
		"form":             {"exchange:\n  url: https://a\n  form:\n    a: b\n    c.d: '{x}'\n", "line 5: exchange.form.c.d: unknown placeholder {x}"},
		"json":             {"exchange:\n  url: https://a\n  json:\n    a:\n    - b\n    - c: '{x}'\n", "line 6: exchange.json.a[1].c: unknown placeholder {x}"},
		"flow":             {"exchange: {url: 'https://a', headers: {A: '{x}'}}\n", "line 1: exchange.headers.A: unknown placeholder {x}"},
		"alias":            {"exchange:\n  url: https://a\n  form: &f {x: '{x}'}\n  headers: *f\n", "line 3: exchange.headers.x: unknown placeholder"},
		"key":              {"exchange:\n  url: https://a\n  jwt:\n    keyFile: key.pem\n", `line 4: exchange.jwt.keyFile "key.pem": must be an absolute path`},
		"unused key":       {"exchange:\n  url: https://a\n  response: {secret: s}\n  jwt:\n    keyFile: /key.pem\n", `line 4: exchange.jwt: {jwt} is not used; add it to the request`},
		"later step":       {steps("  - name: last\n    url: https://a\n    headers:\n      X: '{answer:last.a}'\n"), "line 7: exchange.steps[1].response: username and secret are allowed only in the last step; later steps use this response as {answer:…}"},
		"itself":           {strings.Replace(steps(""), "    response", "    headers:\n      X: '{answer:read.a}'\n    response", 1), "line 8: exchange.steps[1].headers.X: {answer:read}: a step cannot use"},
		"a later one":      {strings.Replace(steps(""), "    url", "    headers:\n      X: '{answer:read.a}'\n    url", 1), "line 5: exchange.steps[0].headers.X: {answer:read}: the step comes later"},
		"an unknown one":   {strings.Replace(steps(""), "    response", "    form:\n      X: '{answer:log.a}'\n    response", 1), `line 8: exchange.steps[1].form.X: {answer:log}: no such step; the steps are ["login" "read"]`},
		"in an address":    {strings.Replace(steps(""), "    response", "    method: GET\n    response", 1) + "  - name: b\n    url: https://a/{answer:read.a}\n", "line 8: exchange.steps[1].response: username and secret"},
		"in a path":        {strings.Replace(steps(""), "https://a.example\n    response", "https://a.example/{answer:login.a}\n    response", 1), "line 6: exchange.steps[1].url \"https://a.example/{answer:login.a}\": {answer} is not allowed here, because it would be visible"},
		"in a query":       {strings.Replace(steps(""), "https://a.example\n    response", "https://a.example/?a={answer:login.a}\n    response", 1), "line 6: exchange.steps[1].url \"https://a.example/\": {answer} is not allowed here, because it would be visible"},
		"in a host":        {strings.Replace(steps(""), "https://a.example\n    response", "https://{answer:login.a}/\n    response", 1), "line 6: exchange.steps[1].url \"https://{answer:login.a}/\": the host must not contain a placeholder"},
		"nameless":         {steps("  - url: https://a\n"), "line 8: exchange.steps[2].name: must be a name such as login, with only letters, digits, _ and -"},
		"bad name":         {steps("  - name: a.b\n"), "line 8: exchange.steps[2].name: must be a name such as login, with only letters, digits, _ and -"},
		"name twice":       {steps("  - name: read\n"), `line 8: exchange.steps[2].name "read": another step already has this name`},
		"steps of a step":  {steps("  - name: b\n    steps: []\n"), "line 8: exchange.steps[2]: jwt and steps are not allowed in a step; move them to exchange"},
		"key of a step":    {steps("  - name: b\n    jwt: {}\n"), "line 8: exchange.steps[2]: jwt and steps are not allowed in a step; move them to exchange"},
		"none":             {"exchange:\n  steps: []\n", "line 2: exchange.steps: must not be empty"},
		"too many":         {"exchange:\n  steps:\n" + strings.Repeat("  - url: https://a\n", 33), "line 2: exchange.steps: has 33 steps, but at most 8 are allowed"},
		"url beside steps": {steps("  url: https://a\n"), "line 2: exchange.steps: only jwt is allowed alongside steps; move the other fields into the steps"},
		"user name":        {"exchange:\n  steps:\n  - name: a\n    url: https://a\n    response: {username: u}\n  - name: b\n    url: https://b\n    response: {secret: s}\n", "line 5: exchange.steps[0].response: username and secret are allowed only in the last step; later steps use this response as {answer:…}"},
		"no secret":        {"exchange:\n  steps:\n  - name: a\n    url: https://a\n", "line 3: exchange.steps[0].response.secret is missing; set it to the response field that contains the password, such as access_token"},
		"jwt in itself":    {"exchange:\n  url: https://a\n  headers: {X: '{jwt}'}\n  jwt:\n    keyFile: /k\n    claims:\n      a: '{jwt}'\n", "line 7: exchange.jwt.claims.a: {jwt} requires exchange.jwt, and cannot be used in it"},
		"answer in it":     {"exchange:\n  url: https://a\n  headers: {X: '{jwt}'}\n  jwt:\n    keyFile: /k\n    claims:\n      a: '{answer:a.b}'\n", "line 7: exchange.jwt.claims.a: {answer:a}: no such step"},
		"claim twice":      {"exchange:\n  url: https://a\n  jwt:\n    keyFile: /k\n    claims:\n      iss: a\n", "line 6: exchange.jwt.claims.iss: use issuer, subject, audience and lifetime instead"},
		"token in issuer":  {"exchange:\n  url: https://a\n  jwt:\n    keyFile: /k\n    issuer: '{token}'\n", "line 5: exchange.jwt.issuer: {token} is not allowed here"},
		"long":             {"exchange:\n  url: https://a\n  jwt:\n    keyFile: /k\n    lifetime: 61m\n", "line 5: exchange.jwt.lifetime 1h1m0s: must be between 1s and 1h0m0s"},
		"negative":         {"exchange:\n  url: https://a\n  jwt:\n    keyFile: /k\n    lifetime: -1s\n", "line 5: exchange.jwt.lifetime -1s: must be between"},
		"no jwt":           {"exchange:\n  url: https://a\n  headers: {X: '{jwt}'}\n", "line 3: exchange.headers.X: {jwt} requires exchange.jwt"},
		"jwt in the url":   {"exchange:\n  url: https://a/{jwt}\n  jwt: {keyFile: /k}\n", "{jwt} is not allowed here, because it would be visible"},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := Parse([]byte(tt.text))
			if checkError(t, err, tt.want); err != nil && !strings.HasPrefix(err.Error(), "line ") {
				t.Errorf("no line: %v", err)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for title, tt := range map[string]struct{ text, want string }{
		"empty":        {"", "file is empty"},
		"comment":      {"# nothing\n", "file is empty"},
		"unknown":      {"registries: []\nregistry: x\n", `line 2: unknown field "registry"`},
		"wrong case":   {"exchange:\n  URL: x\n", `line 2: unknown field "URL"`},
		"deep":         {"exchange:\n  response:\n    secret: a\n    password: b\n", `line 4: unknown field "password"`},
		"twice":        {"username: a\nusername: b\n", `line 2: mapping key "username" already defined at line 1`},
		"list":         {"exchange:\n  url: [" + canary.EnvSecret + "]\n", "line 2: wrong type: seq"},
		"text":         {"registries: " + canary.EnvSecret + "\n", "line 1: wrong type: str"},
		"a list":       {"- " + canary.EnvSecret + "\n", "line 1: wrong type: seq"},
		"bool":         {"optional: " + canary.EnvSecret + "\n", "line 1: wrong type: str"},
		"duration":     {"cacheDuration: " + canary.EnvSecret + "\n", "line 1: must be a duration such as 10m, not str"},
		"not YAML":     {"username: a\naudience: b: c\n", "line 2: mapping values are not allowed"},
		"tab":          {"exchange:\n\turl: x\n", "line 2: found character that cannot start any token"},
		"two":          {"exchange: {url: x}\n---\nexchange: {url: x}\n", "more than one YAML document"},
		"no exchange":  {"registries: [a]\n", "exchange is missing; to use the token as the password, use --registry instead of a file"},
		"unknown name": {"username: *" + canary.EnvSecret + "\n", "a value that begins with * is a YAML alias; quote the value"},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := Parse([]byte(tt.text))
			checkError(t, err, tt.want)
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	wrong, long := filepath.Join(dir, "wrong.yaml"), filepath.Join(dir, "long.yaml")
	for name, text := range map[string]string{wrong: "a: 1\n", long: strings.Repeat("#", secretfile.MaxSize+1)} {
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	}
	open := filepath.Join(dir, "open.yaml")
	must.Do(t, errors.Join(os.WriteFile(open, []byte("a: 1\n"), 0o600), os.Chmod(open, 0o602)))
	_, err := Load(open)
	checkError(t, err, `read "`+open+`": other users can change it; run chmod o-w `+open)
	_, err = Load(wrong)
	checkError(t, err, wrong+`: line 1: unknown field "a"`)
	_, err = Load(long)
	checkError(t, err, `read "`+long+`": larger than 1048576 bytes`)
	if _, err = Load(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got error %v", err)
	}
}

// FuzzTemplate verifies that a value in a header, body or URL arrives unchanged, and that it cannot
// change the rest of the request.
func FuzzTemplate(f *testing.F) {
	f.Add("{annotation:a}", `x","y":"`)
	f.Add(`{{"a": "{annotation:a}"}}`, "{token}")
	f.Add("{registry}{repository}{image}", "\x00\u2028</script>")
	f.Add(`{jwt}{answer:a.b\.c}{{{answer:a.b}}}`, "{answer:a.b}")
	f.Add("{answer:b.c}{answer:a.}", "\r\nX-Admin: yes")
	f.Fuzz(func(t *testing.T, text, value string) {
		if !utf8.ValidString(value) || value == "" {
			t.Skip("a request cannot hold it")
		}
		if tmpl, err := parseTemplate(text, templateContext{allowJWT: true, step: 1, steps: []string{"a", "b"}}); err == nil && slices.ContainsFunc(tmpl, func(p templatePart) bool { return isSecretPlaceholder(p.name) }) {
			t.Error("a secret where it would be shown")
		}
		v := placeholderValues{req: newRequest("", map[string]string{"a": value}), responses: map[string]any{"a": map[string]any{"b": value}}}
		answer := must.Get(parseTemplate("<{answer:a.b}>", templateContext{allowSecrets: true, step: 1, steps: []string{"a", "b"}}))(t)
		header := http.Header{}
		step := compiledStep{headers: map[string]template{"X-A": answer}}
		switch err := step.fillHeader(header, v); {
		case strings.ContainsFunc(value, isControl) != (err != nil):
			t.Errorf("%q in a header: error %v", value, err)
		case err == nil && header.Get("X-A") != "<"+value+">":
			t.Errorf("%q became %q in a header", value, header.Get("X-A"))
		}
		document := must.Get(parseJSON("json", map[string]any{"k": "<{annotation:a}>", "l": []any{"{{{annotation:a}}}"}}, contextWithSecrets()))(t)
		filled := must.Get(expandJSON(document, v))(t)
		body := must.Get(json.Marshal(filled))(t)
		var back any
		must.Do(t, json.Unmarshal(body, &back))
		if diff := cmp.Diff(map[string]any{"k": "<" + value + ">", "l": []any{"{" + value + "}"}}, back); diff != "" {
			t.Error(diff)
		}
		x := Exchange{URL: "https://sts.example/a/{annotation:a}/b?q={annotation:a}&r=1", Response: Response{Secret: "s"}}
		c := must.Get(x.compileExchange())(t)
		address, err := c.steps[0].expandURL(v)
		if err != nil {
			return
		}
		u, err := url.Parse(address)
		if err != nil {
			t.Fatalf("%q: %v", address, err)
		}
		if u.Host != "sts.example" || u.Path != "/a/"+value+"/b" || u.Query().Get("q") != value || u.Query().Get("r") != "1" || u.Fragment != "" {
			t.Errorf("%q became %q", value, address)
		}
	})
}

// FuzzRead verifies that parsing a response and extracting the credential never panics, and that
// invalid JSON has no credential.
func FuzzRead(f *testing.F) {
	f.Add("a.b", []byte(`{"a":{"b":"x"},"expires_in":60,"expires_at":"2030-01-01T00:00:00Z"}`))
	f.Add("0.1", []byte(`[["a","b"]]`))
	f.Add(`a\.b`, []byte(`{"a.b":"x.eyJleHAiOjE5fQ.y","expires_in":"1e400","expires_at":1e22}`))
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		parsed, err := parsePath(path)
		if err != nil {
			return
		}
		if again, err := parsePath(parsed.String()); err != nil || !cmp.Equal(again, parsed) {
			t.Fatalf("%q is written as %q", path, parsed)
		}
		x := Exchange{URL: "https://sts.example", Response: Response{Secret: path, ExpiresIn: "expires_in", ExpiresAt: "expires_at"}}
		p := must.Get(New(Options{Registries: []string{"a"}, Username: "u", Exchange: &x, Now: func() time.Time { return testTime }}))(t)
		cred, err := p.readResponse(p.exchange.steps[0], &remote.Response{Body: body}, placeholderValues{})
		if err == nil && (cred.secret == "" || !json.Valid(body)) {
			t.Error("a password out of nothing")
		}
		if d := p.responseCacheDuration(cred.expires); *d < 0 || *d > maxCacheDuration {
			t.Errorf("reused for %v", *d)
		}
	})
}

// FuzzParse verifies that no configuration leads to a panic, and that every error is one line.
func FuzzParse(f *testing.F) {
	samples, err := filepath.Glob("../../../docs/plugins/token/*.yaml")
	if err != nil || len(samples) == 0 {
		f.Fatalf("no samples: %v", err)
	}
	for _, name := range samples {
		data := must.Get(os.ReadFile(name))(f)
		f.Add(data)
	}
	f.Add([]byte("exchange:\n  json: {1: 2, ? [a] : b}\n  url: https://a/{"))
	f.Add([]byte("exchange:\n  jwt: {keyFile: /k, claims: {a: [&x {b: '{token}'}, *x]}}\n  steps:\n  - {name: a, url: 'https://a', form: {a: '{jwt}'}}\n  - {name: b, url: 'https://b', headers: {c: '{answer:a.b}'}, response: {secret: d}}"))
	f.Add([]byte("exchange:\n  steps:\n  - &s {name: a, url: 'https://a', headers: {c: '{answer:b.b}'}}\n  - *s\n  - <<: *s"))
	f.Fuzz(func(t *testing.T, data []byte) {
		opts, err := Parse(data)
		if err == nil {
			_, err = New(opts)
		}
		if err != nil && (err.Error() == "" || strings.Contains(err.Error(), "\n")) {
			t.Errorf("an error without words, or of two lines: %q", err)
		}
	})
}
