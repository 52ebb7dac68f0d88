// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/dockerjson"
	"github.com/regcred/regcred/internal/must"
)

var testNow = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func encodeBase64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func newToken(ends time.Time) string {
	return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d,"jti":%q}`, ends.Unix(), canary.TokenSecret)) + "." + canary.TokenSecret
}

func ecrToken(ends time.Time) string {
	return encodeBase64(fmt.Sprintf(`{"payload":%q,"expiration":%d}`, canary.TokenSecret, ends.Unix()))
}

// terseFindings formats findings as "severity rule line:column path".
func terseFindings(t *testing.T, c *Result) (lines []string) {
	t.Helper()
	for _, f := range c.Findings {
		lines = append(lines, fmt.Sprintf("%s %s %d:%d %s", f.Severity, caseName(f), f.Line, f.Column, f.Path))
		canary.AssertAbsent(t, caseName(f), f.String()+f.Fix)
	}
	return lines
}

// TestDockerLogin verifies that each entry of auths has exactly the expected finding.
func TestDockerLogin(t *testing.T) {
	const secret = canary.PasswordSecret
	auth := func(s string) string { return `{"auth":"` + encodeBase64(s) + `"}` }
	plain := func(user, password string) string {
		data := must.Get(json.Marshal(map[string]string{"username": user, "password": password}))(t)
		return string(data)
	}
	day := 24 * time.Hour
	for name, tt := range map[string]struct {
		login string
		want  string // rule and field of the only finding
	}{
		"good":                 {auth("u:" + secret), ""},
		"unpadded":             {`{"auth":"` + strings.TrimRight(encodeBase64("u:"+secret), "=") + `"}`, ""},
		"written out":          {plain("u", secret), ""},
		"kubectl's":            {`{"username":"u","password":"` + secret + `","email":"a@b.example","auth":"` + encodeBase64("u:"+secret) + `"}`, ""},
		"nothing":              {`{}`, "docker-no-login"},
		"null":                 {`null`, "docker-no-login"},
		"e-mail alone":         {`{"email":"a@b.example"}`, "docker-no-login"},
		"user and pass":        {`{"user":"u","pass":"` + secret + `"}`, "docker-no-login"},
		"identity token":       {`{"identitytoken":"` + secret + `"}`, "docker-token-alone .identitytoken"},
		"az acr login":         {`{"auth":"` + encodeBase64("0:") + `","identitytoken":"` + secret + `"}`, "docker-token-alone .identitytoken"},
		"registry token":       {`{"registrytoken":"` + secret + `"}`, "docker-token-alone .registrytoken"},
		"both":                 {`{"auth":"` + encodeBase64("u:"+secret) + `","identitytoken":"` + secret + `"}`, ""},
		"no password":          {auth("u:"), "docker-no-password .auth"},
		"no user":              {auth(":" + secret), "docker-no-user .auth"},
		"no user, written out": {plain("", secret), "docker-no-user .password"},
		"twice":                {auth(encodeBase64("u:" + secret)), "docker-auth .auth"},
		"not base64":           {`{"auth":"` + secret + `"}`, "docker-auth .auth"},
		"number":               {`{"username":1}`, "docker-config-type .username"},
		"line feed":            {auth("u:" + secret + "\n"), "docker-control-character .auth"},
		"CR":                   {auth("u:" + secret + "\r\n"), "docker-control-character .auth"},
		"CR in the user":       {plain("u\r", secret), "docker-control-character .username"},
		"NUL":                  {auth("u:" + secret + "\x00"), "docker-control-character .auth"},
		"blank":                {plain("u", secret+" "), "docker-blank .password"},
		"blank in front":       {auth(" u:" + secret), "docker-blank .auth"},
		"wrapped":              {`{"auth":"` + encodeBase64("u:" + secret)[:8] + `\n` + encodeBase64("u:" + secret)[8:] + `"}`, "docker-auth-wrapped .auth"},
		"auth wins":            {`{"password":"x","auth":"` + encodeBase64("u:"+secret) + `"}`, "docker-auth-wins .password"},
		"password is auth":     {plain("u", encodeBase64("u:"+secret)), "docker-password-encoded .password"},
		"placeholder":          {plain("u", "${TOKEN}"), "docker-placeholder .password"},
		"dollars":              {plain("u", "$$"+secret), ""},
		"JWT ended":            {plain("u", newToken(testNow)), "docker-password-ended .password"},
		"JWT ends":             {plain("u", newToken(testNow.Add(day))), "docker-password-ends .password"},
		"JWT lasts":            {plain("u", newToken(testNow.Add(30*day))), ""},
		"ECR ended":            {auth("AWS:" + ecrToken(testNow.Add(-time.Hour))), "docker-password-ended .auth"},
		"ECR ends":             {auth("AWS:" + ecrToken(testNow.Add(time.Hour))), "docker-password-ends .auth"},
		"ECR without a date":   {auth("AWS:" + secret), "docker-password-ends .auth"},
		"Google's":             {plain("oauth2accesstoken", secret), "docker-password-ends .password"},
		"JSON key":             {plain("_json_key", "{\n\"private_key\":\""+secret+"\"}\n"), ""},
		"JSON key cut":         {plain("_json_key", "{\"private_key\":\""+secret), "docker-json-key .password"},
		"JSON key encoded":     {plain("_json_key", encodeBase64(`{"private_key":"`+secret+`"}`)), "docker-json-key .password"},
		"JSON key base64":      {plain("_json_key_base64", encodeBase64(`{"private_key":"`+secret+`"}`)), ""},
		"not base64 key":       {plain("_json_key_base64", `{"private_key":"`+secret+`"}`), "docker-json-key .password"},
	} {
		t.Run(name, func(t *testing.T) {
			c := CheckAs(DockerConfig, "f", []byte("{\"auths\":\n {\"r.example\":"+tt.login+"}}"), testNow)
			got := strings.Join(terseFindings(t, c), "\n")
			rule, field, _ := strings.Cut(tt.want, " ")
			if want := rule + " 2:"; tt.want != "" && (!strings.Contains(got, want) || !strings.HasSuffix(got, `auths["r.example"]`+field)) || (tt.want == "") != (got == "") || strings.Contains(got, "\n") {
				t.Errorf("got %q, want %s", got, tt.want)
			}
		})
	}
}

// TestUserNames verifies that only unfilled placeholders are reported as such, for user names that
// registries document.
func TestUserNames(t *testing.T) {
	jwt := newToken(testNow.Add(time.Hour))
	const placeholder, ends = "docker-placeholder", "docker-password-ends"
	for _, tt := range []struct{ host, user, password, want string }{
		{"nvcr.io", "$oauthtoken", "x", ""},
		{"quay.io", "$oauthtoken", "x", ""},
		{"quay.io", "$app", "x", ""},
		{"quay.io", "$token", "x", ""},
		{"quay.io", "org+robot", "x", ""},
		{"quay.corp.example", "$app", "x", ""},
		{"172.30.0.1:5000", "<token>", jwt, ""},
		{"172.30.0.1:5000", "<token>", newToken(testNow), "docker-password-ended"},
		{"registry.gitlab.com", "gitlab-ci-token", "x", ends},
		{"registry.gitlab.com", "gitlab+deploy-token-1", "x", ""},
		{"r.example", "robot$name", "x", ""},
		{"r.example", "_token", "x", ""},
		{"r.azurecr.io", "00000000-0000-0000-0000-000000000000", jwt, ends},
		{"r.example", "$CI_REGISTRY_USER", "x", placeholder},
		{"registry.gitlab.com", "$oauthtoken", "x", placeholder},
		{"quay.io", "${app}", "x", placeholder},
		{"quay.io", "<robot>", "x", placeholder},
		{"quay.io", "robot", "$token", placeholder},
	} {
		data := must.Get(json.Marshal(map[string]any{"auths": map[string]any{tt.host: map[string]string{"username": tt.user, "password": tt.password}}}))(t)
		var got []string
		for _, f := range CheckAs(DockerConfig, "f", data, testNow).Findings {
			got = append(got, caseName(f))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("user %q of %s: got %q, want %q", tt.user, tt.host, got, tt.want)
		}
	}
}

func TestDockerKeys(t *testing.T) {
	const none, other = "docker-key-no-image", "docker-key-other-image"
	for key, want := range map[string]string{
		"r.example": "", "r.example:5000": "", "r.example/team": "", "r.example/team/": "", "r.example/": "", "https://r.example/v2/": "", "http://r.example": "",
		"*.r.example": "", "localhost": "", "docker.io": "", "docker.io/team": "", "docker.io/v1/": "", "https://index.docker.io/v1/": "", "index.docker.io": "", "index.docker.io/v2/": "",
		"https://index.docker.io/v1": none + " https://index.docker.io/v1/",
		"docker.io/v1":               other + " https://index.docker.io/v1/",
		"registry-1.docker.io":       other + " https://index.docker.io/v1/",
		"hub.docker.com":             other + " https://index.docker.io/v1/",
		"https://r.example/v2":       other + " r.example",
		"https://r.example/v2/team":  other + " r.example/team",
		"r.example/app:1.2":          none + " r.example/app",
		"r.example/app@sha256:0":     none + " r.example/app",
		"r.example/*":                none + " r.example",
		"R.example":                  other + " r.example",
		"r.example/App":              none + " r.example/app",
		"r.example:443":              other + " r.example",
		"r.example:99999":            none + " ",
		"HTTPS://r.example":          none + " r.example",
		"oci://r.example":            none + " r.example",
		"registry":                   none + " ",
		"":                           none + " ",
		"r.example:x":                none + " ",
		"u@r.example":                other + " r.example",
		" r.example":                 none + " r.example",
		"*.github.io":                other + " spell out the domain",
		"r-*.GitHub.io":              other + " spell out the domain",
		"https://*.co.uk/team":       other + " spell out the domain",
		"*.compute.amazonaws.com:1":  other + " spell out the domain",
		"*.com":                      other + " spell out the domain",
		"*.r.github.io":              "", "*.azurecr.io": "", "*.internal": "", "*.dkr.ecr.*.amazonaws.com": "",
	} {
		data, err := json.Marshal(map[string]any{"auths": map[string]any{key: map[string]string{"username": "u", "password": canary.PasswordSecret}}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range CheckAs(DockerConfig, "f", data, testNow).Findings {
			got = append(got, caseName(f)+" "+f.Fix)
			canary.AssertAbsent(t, key, f.String())
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
}

func TestDockerFile(t *testing.T) {
	const login = `{"auth":"` + "dTpjYW5hcnktcGFzc3dvcmQ=" + `"}`
	for name, tt := range map[string]struct {
		data string
		want []string
	}{
		"good":           {`{"auths":{"r.example":` + login + `},"psFormat":"x"}`, nil},
		"empty":          {``, []string{"error docker-config-syntax 1:1 "}},
		"no logins":      {`{"auths":{}}`, []string{"info docker-config-empty 1:1 "}},
		"a list":         {`[]`, []string{"error docker-config-type 1:1 "}},
		"base64":         {encodeBase64(`{"auths":{"r.example":` + login + `}}`), []string{"error docker-config-encoded 1:1 "}},
		"dockercfg":      {`{"r.example":` + login + `}`, []string{"error docker-config-form 1:1 "}},
		"taken back":     {`{"auths":{"r.example":` + login + `},"Auths":null}`, []string{"warning docker-duplicate 1:60 auths"}},
		"any case":       {`{"Auths":{"r.example":` + login + `}}`, []string{"info docker-config-case 1:2 auths"}},
		"auth":           {`{"auth":{"r.example":` + login + `}}`, []string{"error docker-config-level 1:2 "}},
		"auths in auths": {`{"auths":{"auths":{"r.example":` + login + `}}}`, []string{"error docker-config-level 1:11 auths.auths"}},
		"no registry":    {`{"auths":` + login + `}`, []string{"error docker-config-level 1:2 auths", "error docker-config-type 1:18 auths[a hidden key]"}},
		"beside auths":   {`{"auths":{},"r.example":` + login + `}`, []string{`error docker-config-level 1:13 "r.example"`}},
		"too low":        {`{"data":{"auths":{"r.example":` + login + `}}}`, []string{"error docker-config-level 1:2 ", "info docker-config-field 1:2 "}},
		"unknown":        {`{"auths":{"r.example":` + login + `},"x":1}`, []string{"info docker-config-field 1:60 "}},
		"credsStore":     {`{"auths":{"r.example":{}},"credsStore":"desktop"}`, []string{"warning docker-helper-ignored 1:27 credsStore"}},
		"store unused":   {`{"auths":{"r.example":` + login + `},"credsStore":"desktop"}`, nil},
		"credHelpers":    {`{"auths":{"r.example":` + login + `},"credHelpers":{"r.example":"x","s.example":"y"}}`, []string{"warning docker-helper-ignored 1:60 credHelpers"}},
		"same key":       {`{"auths":{"r.example":` + login + `,"https://r.example":{"username":"u","password":"x"}}}`, []string{`warning docker-same-key 1:59 auths["https://r.example"]`}},
		"same login":     {`{"auths":{"r.example":` + login + `,"https://r.example/":` + login + `}}`, nil},
		"duplicate":      {`{"auths":{"r.example":` + login + `,"r.example":` + login + `}}`, []string{`warning docker-duplicate 1:11 auths["r.example"]`}},
		"auth twice":     {`{"auths":{"r.example":{"username":"x","username":"u","password":"p"}}}`, []string{`warning docker-duplicate 1:24 auths["r.example"].username`}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, terseFindings(t, CheckAs(DockerConfig, "f", []byte(tt.data), testNow))); diff != "" {
				t.Error(diff)
			}
		})
	}
	c := CheckAs(Dockercfg, "f", []byte(`{"auths":{"r.example":`+login+`},"credsStore":"x"}`), testNow)
	if diff := cmp.Diff([]string{"error docker-config-form 1:2 auths"}, terseFindings(t, c)); diff != "" {
		t.Errorf("a config.json for a .dockercfg: %s", diff)
	}
}

func TestSecretManifest(t *testing.T) {
	config := `{"auths":{"r.example":{"auth":"` + encodeBase64("u:"+canary.PasswordSecret) + `"}}}`
	cut := `{"auths":{"r.example":{"auth":"` + encodeBase64("u:"+canary.PasswordSecret+"\n") + `"}}}`
	head := func(kind string) string { return "apiVersion: v1\nkind: Secret\ntype: " + kind + "\n" }
	const jsonType = "kubernetes.io/dockerconfigjson"
	for name, tt := range map[string]struct {
		data   string
		logins int
		want   []string
	}{
		"data":            {head(jsonType) + "data:\n  .dockerconfigjson: " + encodeBase64(config), 1, nil},
		"stringData":      {head(jsonType) + "stringData:\n  .dockerconfigjson: |\n    " + config, 1, nil},
		"JSON":            {`{"kind":"Secret","type":"` + jsonType + `","data":{".dockerconfigjson":"` + encodeBase64(config) + `"}}`, 1, nil},
		"dockercfg":       {head("kubernetes.io/dockercfg") + "stringData:\n  .dockercfg: '{\"r.example\":{\"auth\":\"" + encodeBase64("u:"+canary.PasswordSecret) + "\"}}'", 1, nil},
		"twice":           {head(jsonType) + "data:\n  .dockerconfigjson: " + encodeBase64(encodeBase64(config)), 0, []string{`error docker-config-encoded 5:22 data[".dockerconfigjson"]`}},
		"empty":           {head(jsonType) + "data:\n  .dockerconfigjson: ''", 0, []string{"error secret-type 1:1 "}},
		"text as base64":  {head(jsonType) + "stringData:\n  .dockerconfigjson: " + encodeBase64(config), 0, []string{`error docker-config-encoded 5:22 stringData[".dockerconfigjson"]`}},
		"JSON in data":    {head(jsonType) + "data:\n  .dockerconfigjson: '" + config + "'", 0, []string{`error secret-base64 5:22 data[".dockerconfigjson"]`}},
		"Opaque":          {head("Opaque") + "data:\n  .dockerconfigjson: " + encodeBase64(config), 0, []string{"error secret-type 3:7 type"}},
		"no type":         {"kind: Secret\ndata:\n  config.json: " + encodeBase64(config), 0, []string{"error secret-type 1:1 "}},
		"basic-auth":      {head("kubernetes.io/basic-auth") + "stringData: {username: u, password: x}", 0, []string{"info secret-no-pull-secret 3:7 type"}},
		"another key":     {head(jsonType) + "data:\n  config.json: " + encodeBase64(config), 0, []string{"error secret-type 3:7 type"}},
		"no key":          {head(jsonType), 0, []string{"error secret-type 1:1 "}},
		"dockercfg's key": {head(jsonType) + "data:\n  .dockercfg: " + encodeBase64(config), 0, []string{"error secret-type 3:7 type", `error docker-config-form 5:15 data[".dockercfg"]: auths`}},
		"both":            {head(jsonType) + "data:\n  .dockerconfigjson: e30=\nstringData:\n  .dockerconfigjson: '" + config + "'", 1, []string{`warning secret-twice 7:22 stringData[".dockerconfigjson"]`}},
		"place in data":   {head(jsonType) + "data:\n  .dockerconfigjson: " + encodeBase64(cut), 1, []string{`error docker-control-character 5:22 data[".dockerconfigjson"]: auths["r.example"].auth`}},
		"place in a block": {head(jsonType) + "stringData:\n  .dockerconfigjson: |-\n    {\"auths\":\n      " + cut[9:], 1,
			[]string{`error docker-control-character 7:28 stringData[".dockerconfigjson"]: auths["r.example"].auth`}},
		"place on a line": {head(jsonType) + "stringData:\n  .dockerconfigjson: '" + cut + "'", 1, []string{`error docker-control-character 5:53 stringData[".dockerconfigjson"]: auths["r.example"].auth`}},
		"documents":       {"kind: Deployment\n---\n" + head(jsonType) + "data:\n  .dockerconfigjson: " + encodeBase64(cut) + "\n---\n" + head("Opaque") + "data: {x: eA==}", 1, []string{`error docker-control-character 7:22 data[".dockerconfigjson"]: auths["r.example"].auth`, "info secret-no-pull-secret 11:7 type"}},
		"list":            {"kind: List\nitems:\n- kind: Secret\n  type: Opaque\n  data: {.dockercfg: e30=}", 0, []string{"error secret-type 4:9 type", `info docker-config-empty 5:22 data[".dockercfg"]`}},
		"not YAML":        {head(jsonType) + "data:\n\t.dockerconfigjson: " + canary.PasswordSecret, 0, []string{"error secret-yaml 5:0 "}},
		"another shape":   {head(jsonType) + "data: [" + canary.PasswordSecret + "]", 0, []string{"error secret-yaml 1:0 "}},
		"number":          {head(jsonType) + "data: {.dockerconfigjson: 1}", 0, []string{`error secret-base64 4:27 data[".dockerconfigjson"]`}},
		"billion laughs":  {head(jsonType) + "a: &a " + strings.Repeat("x", 1<<20) + "\nb: &b [" + strings.Repeat("*a,", 20) + "*a]\ndata: {}", 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := Check("f.yaml", []byte(tt.data), testNow)
			if c == nil || c.Kind != Manifest {
				t.Fatalf("got %+v", c)
			}
			if diff := cmp.Diff(tt.want, terseFindings(t, c)); diff != "" {
				t.Error(diff)
			}
			if (c.Unchecked != nil) != (name == "billion laughs") || c.Unchecked != nil && c.Rejected {
				t.Errorf("unchecked: %v, rejected: %v", c.Unchecked, c.Rejected)
			}
			if c.Credentials != tt.logins {
				t.Errorf("%d logins, want %d", c.Credentials, tt.logins)
			}
		})
	}
}

func TestPullSecretObject(t *testing.T) {
	data := []byte("{\"auths\":{\n\"r.example\":{\"auth\":\"" + encodeBase64("AWS:"+ecrToken(testNow.Add(-time.Hour))) + "\"}}}")
	c := CheckSecret(Secret{Namespace: "team", Name: "pull", Type: dockerjson.SecretTypeConfigJSON, Data: map[string][]byte{dockerjson.SecretKeyConfigJSON: data}}, testNow)
	const want = `Secret team/pull, .dockerconfigjson:2:21: auths["r.example"].auth: the password for "r.example" is an Amazon ECR token that expired at 2026-05-01 11:00:00 UTC [docker-password-ended]`
	if len(c.Findings) != 1 || c.Findings[0].String() != want {
		t.Errorf("got %v, want %s", c.Findings, want)
	}
	// A Secret of another type cannot be used as a pull secret.
	for _, kind := range []string{"", "Opaque", "kubernetes.io/basic-auth"} {
		c := CheckSecret(Secret{Name: "x", Type: kind, Data: map[string][]byte{"username": []byte(canary.PasswordSecret)}}, testNow)
		if got := terseFindings(t, c); len(got) != 1 || !strings.HasPrefix(got[0], "error secret-type") {
			t.Errorf("type %q: got %q", kind, got)
		}
	}
	// A credential that expires soon is not reported, because a controller may renew it.
	ends := []byte(`{"auths":{"r.example":{"auth":"` + encodeBase64("AWS:"+ecrToken(testNow.Add(time.Hour))) + `"}}}`)
	if c := CheckSecret(Secret{Name: "x", Type: dockerjson.SecretTypeConfigJSON, Data: map[string][]byte{dockerjson.SecretKeyConfigJSON: ends}}, testNow); len(c.Findings) != 0 {
		t.Errorf("got %v", c.Findings)
	}
}

func TestDetectKind(t *testing.T) {
	for _, tt := range []struct {
		name, data string
		want       Kind
	}{
		{"a", `{"auths":{}}`, DockerConfig},
		{"a", `{"credsStore":"x"}`, DockerConfig},
		{"a", "auths:\n  r.example: {}", DockerConfig},
		{"a", "\xff\xfe{\x00\"\x00a\x00u\x00t\x00h\x00s\x00\"\x00:\x00", DockerConfig},
		{"a", `{"r.example":{"auth":"x"}}`, Dockercfg},
		{"config.json", `{"r.example":{"auth":"x"}}`, DockerConfig},
		{".dockercfg", `{"auths":{}}`, Dockercfg},
		{"/x/.docker/config.json", ``, DockerConfig},
		{"a.yaml", "kind: Secret", Manifest},
		{"a.yaml", "kind: Deployment\n---\nkind: 'Secret' # x\n", Manifest},
		{"a.json", `{"apiVersion":"v1","kind":"Secret"}`, Manifest},
		{"a.yaml", "kind: CredentialProviderConfig\nproviders: []", ""},
		{"config.json", `{"kind":"CredentialProviderConfig","apiVersion":"kubelet.config.k8s.io/v1"}`, ""},
		{"a.yaml", "providers:\n- name: x", ""},
		{"a.yaml", "kind: SecretProviderClass", ""},
		{"a", "", ""},
		{"a", "hello", ""},
	} {
		if got := detectKind(tt.name, []byte(tt.data)); got != tt.want {
			t.Errorf("%s %q: got %q, want %q", tt.name, tt.data, got, tt.want)
		}
	}
}

// TestManyCredentials verifies that allocations grow linearly with the size of the file.
func TestManyCredentials(t *testing.T) {
	work := func(n int) float64 {
		var b strings.Builder
		b.WriteString(`{"credHelpers":{"x.example":"y"},"auths":{`)
		for i := range n {
			fmt.Fprintf(&b, "\"r%d.example/App:1\":{\"auth\":%q},\n", i, encodeBase64("u:"+canary.PasswordSecret+"\n"))
		}
		b.WriteString(`"r.example":{}}}`)
		return testing.AllocsPerRun(1, func() {
			if c := CheckAs(DockerConfig, "f", []byte(b.String()), testNow); len(c.Findings) < 200 {
				t.Errorf("%d findings", len(c.Findings))
			}
		})
	}
	few, many := work(2000), work(20000)
	if many > 11*few || many > 200*20000 {
		t.Errorf("%.0f allocations for 2,000 logins, %.0f for 20,000", few, many)
	}
}

// FuzzCredentials verifies that CheckAs and [dockerconfig.Parse] reject the same files and count
// the same credentials, and that findings contain no secret.
func FuzzCredentials(f *testing.F) {
	for _, seed := range []string{
		`{"auths":{"r.example":{"auth":"` + encodeBase64("u:"+canary.PasswordSecret) + `"}}}`, `{"r.example":{"username":"u","password":"` + canary.PasswordSecret + `"},"r.example":null}`,
		"kind: Secret\ntype: kubernetes.io/dockercfg\nstringData: {.dockercfg: '{}'}\n---\nkind: List\nitems: [{kind: Secret, data: {x: eA==}}]", `{"Auths":{"a.b":{"AUTH":"x","auth":""}},"credHelpers":{"a":"b"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		auths, err := dockerconfig.Parse(data, dockerconfig.ConfigJSON)
		c := CheckAs(DockerConfig, "f", data, testNow)
		users := 0
		for _, a := range auths {
			if a.Username != "" {
				users++
			}
		}
		if c.Rejected != (err != nil) || c.Credentials != users {
			t.Fatalf("error %v, %d users; refused: %v, %d logins", err, users, c.Rejected, c.Credentials)
		}
		legacy, err := dockerconfig.Parse(data, dockerconfig.DockerCfg)
		c2 := CheckAs(Dockercfg, "f", data, testNow)
		if c2.Rejected != (err != nil) || len(legacy) < c2.Credentials {
			t.Fatalf("legacy: error %v, refused: %v", err, c2.Rejected)
		}
		all := append(c.Findings, c2.Findings...)
		if c3 := Check("f", data, testNow); c3 != nil {
			all = append(all, c3.Findings...)
		}
		all = append(all, CheckSecret(Secret{Name: "x", Type: dockerjson.SecretTypeConfigJSON, Data: map[string][]byte{dockerjson.SecretKeyConfigJSON: data}}, testNow).Findings...)
		for _, f := range all {
			canary.AssertAbsent(t, caseName(f), f.String()+f.Fix)
		}
	})
}
