// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/lint"
	"github.com/regcred/regcred/plugin"
)

// newSilentServer returns the address of a server that never responds.
func newSilentServer(t *testing.T) string {
	t.Helper()
	server := testcloud.NewServer(http.NotFoundHandler())
	server.Inject(testcloud.Fault{Hang: true, Times: -1})
	t.Cleanup(server.Close)
	return server.URL()
}

// docSample describes the requests that a registry's documented API expects for a sample
// configuration, and the result.
type docSample struct {
	image        string
	audience     string // the audience of the request's token; "" without a token
	fileAudience string // audience of the token in the file jwt_svid.token; "" if the request has the token
	annotations  map[string]string
	username     string // user name of the credential
	secretIsJWT  bool   // the secret in the response is a JSON Web Token
	host         string // host name of the endpoint; "" means that the token itself is the password
	calls        []expectedCall // expected calls, in order
}

// expectedCall is an expected request to the endpoint, and the file with its response.
type expectedCall struct {
	responseFile  string
	line          string // method and path
	status        int
	user          string // user name of HTTP Basic authentication; the password is the token if basic is ""
	basicPassword string // password of HTTP Basic authentication
	headers       map[string]string
	json          map[string]string // members of the body, as formatted by fmt.Sprint; "TOKEN" stands for the token
	form          map[string]string
	signed        bool // authorized by a token that the node has signed
}

// firstStepToken is the token that the first endpoint returns and the second endpoint accepts.
const firstStepToken = canary.EnvSecret + "-between"

// docSamples lists the samples in docs/plugins/token with the values that
// docs/plugins/token.md cites from the products' documentation.
func docSamples() map[string]docSample {
	const idToken = "urn:ietf:params:oauth:token-type:id_token"
	const grant = "urn:ietf:params:oauth:grant-type:token-exchange"
	login := map[string]string{"role": "registry-pull", "jwt": "TOKEN"}
	loggedIn := map[string]string{"X-Vault-Token": firstStepToken}
	return map[string]docSample{
		"harbor": {image: "harbor.example.com/team/app", audience: "harbor.example.com", username: "jwt"},
		"zot":    {image: "zot.example.com/team/app", audience: "zot.example.com", username: "serviceaccount"},
		"spiffe": {image: "zot.example.com/team/app", fileAudience: "zot.example.com", username: "serviceaccount"},
		"quay": {
			image: "quay.io/team/app", audience: "quay.io", username: "team+puller", secretIsJWT: true,
			annotations: map[string]string{"registry.example.com/quay-robot": "team+puller"},
			host:        "quay.io", calls: []expectedCall{{responseFile: "quay", line: "GET /oauth2/federation/robot/token", status: 200, user: "team+puller"}},
		},
		"jfrog": {
			image: "acme.jfrog.io/docker/app", audience: "acme.jfrog.io", username: "puller", host: "acme.jfrog.io",
			calls: []expectedCall{{
				responseFile: "jfrog", line: "POST /access/api/v1/oidc/token", status: 200,
				json: map[string]string{"grant_type": grant, "subject_token_type": idToken, "subject_token": "TOKEN", "provider_name": "my-cluster"},
			}},
		},
		"cloudsmith": {
			image: "docker.cloudsmith.io/acme/images/app", audience: "https://api.cloudsmith.io", username: "token", secretIsJWT: true, host: "api.cloudsmith.io",
			calls: []expectedCall{{
				responseFile: "cloudsmith", line: "POST /openid/acme/", status: 201,
				json: map[string]string{"oidc_token": "TOKEN", "service_slug": "kubernetes-abcd"},
			}},
		},
		"gitlab": {
			image: "registry.gitlab.com/acme/app", audience: "gitlab-tokens.example.com", username: "gitlab+deploy-token-1", host: "gitlab-tokens.example.com",
			calls: []expectedCall{{
				responseFile: "gitlab", line: "POST /token", status: 200, user: "node", basicPassword: canary.EnvSecret,
				form: map[string]string{
					"grant_type": grant, "subject_token": "TOKEN", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
					"audience": "registry.gitlab.com", "scope": "read_registry",
				},
			}},
		},
		"vault": {
			image: "registry.example.com/team/app", audience: "vault.example.com", username: "puller", host: "vault.example.com",
			calls: []expectedCall{
				{responseFile: "vault-login", line: "POST /v1/auth/jwt/login", status: 200, json: login},
				{responseFile: "vault", line: "GET /v1/secret/data/registry", status: 200, headers: loggedIn},
			},
		},
		"vault-kubernetes": {
			image: "registry.example.com/team/app", audience: "vault.example.com", username: "puller", host: "vault.example.com",
			calls: []expectedCall{
				{responseFile: "vault-kubernetes-login", line: "POST /v1/auth/kubernetes/login", status: 200, json: login},
				{responseFile: "vault-kubernetes", line: "GET /v1/kv/registry", status: 200, headers: loggedIn},
			},
		},
		"github": {
			image: "ghcr.io/acme/app", username: "x-access-token", host: "api.github.com",
			calls: []expectedCall{{
				responseFile: "github", line: "POST /app/installations/12345678/access_tokens", status: 201, signed: true,
				headers: map[string]string{"Accept": "application/vnd.github+json", "X-Github-Api-Version": "2022-11-28"},
				json:    map[string]string{"permissions": "map[packages:read]"},
			}},
		},
	}
}

// rejectionReason returns why the API would reject a request, or "". The text contains no values of the
// request.
func (c expectedCall) rejectionReason(r testcloud.Request, token string) string {
	user, password, _ := (&http.Request{Header: r.Header}).BasicAuth()
	wantPassword := c.basicPassword
	if c.user != "" && c.basicPassword == "" {
		wantPassword = token
	}
	form := map[string]string{}
	for name, values := range r.Form() {
		form[name] = strings.Join(values, " ")
	}
	members := map[string]string{}
	for name, value := range r.JSONBody() {
		members[name] = fmt.Sprint(value)
	}
	for name, value := range c.headers {
		if r.Header.Get(name) != value {
			return "another " + name
		}
	}
	switch {
	case r.Method+" "+r.Path != c.line:
		return "not " + c.line
	case c.signed && !isSigned(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")):
		return "another signature or other claims"
	case user != c.user || password != wantPassword:
		return "another user or password"
	case c.form != nil && (!cmp.Equal(form, withToken(c.form, token)) || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded"):
		return "another form"
	case c.json != nil && (!cmp.Equal(members, withToken(c.json, token)) || r.Header.Get("Content-Type") != "application/json"):
		return "other members"
	case c.form == nil && c.json == nil && len(r.Body) > 0:
		return "a body"
	}
	return ""
}

// appKey is the key of the sample's GitHub App.
var appKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// isSigned reports whether GitHub would accept the token. The token must use RS256, be issued by
// the app in the past, and be valid for ten minutes at most.
func isSigned(token string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	claims, claimsErr := jwt.Parse(token)
	return err == nil && claimsErr == nil && rsa.VerifyPKCS1v15(&appKey().PublicKey, crypto.SHA256, digest[:], signature) == nil &&
		claims.Issuer == "Iv23liEXAMPLE" && time.Until(claims.IssuedAt) < -50*time.Second &&
		time.Until(claims.Expires) > 0 && time.Until(claims.Expires) < 10*time.Minute
}

func withToken(fields map[string]string, token string) map[string]string {
	filled := maps.Clone(fields)
	for name, value := range filled {
		filled[name] = strings.ReplaceAll(value, "TOKEN", token)
	}
	return filled
}

// newHandler returns the handler of the endpoint. It expects the sample's calls in order.
func (s docSample) newHandler(t *testing.T, secret, token string) http.Handler {
	var next atomic.Int32
	bodies := make([]string, len(s.calls))
	for i, c := range s.calls {
		bodies[i] = documentedResponse(t, c.responseFile, secret)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, err := io.ReadAll(r.Body)
		i := int(next.Add(1)) - 1
		problem := "one call too many"
		if i < len(s.calls) {
			problem = s.calls[i].rejectionReason(testcloud.Request{Method: r.Method, Path: r.URL.Path, Header: r.Header, Body: content}, token)
		}
		if err != nil || problem != "" {
			w.Header().Set("X-Request-Id", strings.ReplaceAll(problem, " ", "-")) // the plugin's error contains this header
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(s.calls[i].status)
		io.WriteString(w, bodies[i])
	})
}

// TestSamples pulls an image with each sample of the documentation, with the real
// files, hosts and programs. All servers are on loopback.
func TestSamples(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("SSL_CERT_FILE has no effect here")
	}
	bin := binDir(t)
	all := docSamples()
	files, err := filepath.Glob("../../docs/plugins/token/*.kubelet.yaml")
	if err != nil || len(files) != len(all) {
		t.Fatalf("found %q, %v", files, err)
	}
	for name, s := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			token := tokenFor(s.audience + s.fileAudience)
			secret := token
			if s.host != "" {
				secret = canary.PasswordSecret
			}
			if s.secretIsJWT {
				secret = newUnsignedJWT(canary.PasswordSecret, map[string]any{"exp": time.Now().Add(time.Hour).Unix()})
			}
			reg, host := registryHost(t, s, secret)
			web := must.Get(testcloud.NewFakeNetwork())(t)
			t.Cleanup(web.Close)
			web.Handle(host, reg)
			if s.host != "" {
				mux := http.NewServeMux()
				mux.Handle("/v2/", reg)
				mux.Handle("/", s.newHandler(t, secret, token))
				web.Handle(s.host, mux)
			}
			pullWithSample(t, web, bin, copySamples(t, name, token), s, token)
			if strays := web.UnknownHosts(); len(strays) > 0 {
				t.Errorf("asked %q", strays)
			}
		})
	}
}

// pullWithSample looks up the image's credential and pulls the image with it.
func pullWithSample(t *testing.T, web *testcloud.FakeNetwork, bin, config string, s docSample, token string) {
	t.Helper()
	cfg := loadSample(t, config)
	keyring := must.Get(regcred.New(cfg, regcred.Options{BinDir: bin, Environ: web.Environ()}))(t)
	defer keyring.Close()
	req := regcred.Request{Image: s.image + ":v1", Annotations: s.annotations}
	if s.audience != "" {
		req.Token = plugin.NewSecret(token)
	}
	res, err := keyring.Lookup(t.Context(), req)
	if err != nil {
		canary.AssertAbsent(t, "the error", err.Error())
		t.Fatalf("%d attempts and no credential: %v", len(res.Attempts), err)
	}
	if len(res.Credentials) != 1 || res.Credentials[0].Username != s.username {
		t.Fatalf("got %d credentials, want one of %q", len(res.Credentials), s.username)
	}
	if left := time.Until(res.Credentials[0].CachedUntil); left < 25*time.Minute || left > 31*time.Minute {
		t.Errorf("reused for %v, want half an hour", left)
	}
	puller := &pull.Puller{Transport: web.Transport()}
	if _, err := puller.Pull(t.Context(), s.image+":v1", res.Credentials, t.TempDir()); err != nil {
		canary.AssertAbsent(t, "the error", err.Error())
		t.Error("the registry did not take it")
	}
}

// loadSample loads a configuration. The kubelet must accept it, and lint must report only infos.
func loadSample(t *testing.T, name string) *config.Config {
	t.Helper()
	cfg, err := config.Load(name)
	if err == nil {
		err = cfg.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range lint.Check(cfg) {
		if f.Severity != finding.SeverityInfo {
			t.Errorf("%+v", f)
		}
	}
	return cfg
}

// copySamples copies a registry's samples, replaces the directories of the node, and returns the path of the kubelet's
// configuration.
func copySamples(t *testing.T, name, token string) string {
	t.Helper()
	dir := t.TempDir()
	files, err := filepath.Glob("../../docs/plugins/token/" + name + ".*")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %q, %v", files, err)
	}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		there := strings.NewReplacer("/etc/token-credential-provider/", dir+"/", "/run/spiffe-helper/", dir+"/")
		must.Do(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), []byte(there.Replace(string(text))), 0o600))
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(appKey())})
	for file, text := range map[string]string{"client-secret": canary.EnvSecret + "\n", "jwt_svid.token": token, "github-app.pem": string(key)} {
		must.Do(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	return filepath.Join(dir, name+".kubelet.yaml")
}

// documentedResponse returns the documented response with the secret in it.
func documentedResponse(t *testing.T, name, secret string) string {
	t.Helper()
	text := must.Get(os.ReadFile("../../internal/provider/token/testdata/" + name + ".json"))(t)
	filled := strings.NewReplacer("@secret@", secret, "@between@", firstStepToken, "@hour@", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)).Replace(string(text))
	if filled == string(text) {
		t.Fatal("the sample has no place for a secret")
	}
	return filled
}

// registryHost starts a registry that has the sample's image and accepts the secret.
func registryHost(t *testing.T, s docSample, secret string) (http.Handler, string) {
	t.Helper()
	reg, err := testregistry.New(testregistry.Options{Auth: testregistry.AuthBasic, Users: map[string]string{s.username: secret}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reg.Close() })
	host, repo, _ := strings.Cut(s.image, "/")
	must.Get(reg.Push(repo, "v1", testregistry.Image{}))(t)
	target := must.Get(url.Parse(reg.URL()))(t)
	return httputil.NewSingleHostReverseProxy(target), host
}

// TestSampleRefused verifies that the samples' servers check their requests.
func TestSampleRefused(t *testing.T) {
	for name, s := range docSamples() {
		for _, c := range s.calls {
			method, path, _ := strings.Cut(c.line, " ")
			r := testcloud.Request{Method: method, Path: path, Header: http.Header{}}
			if c.rejectionReason(r, "open-sesame") == "" {
				t.Errorf("%s: %s takes a request without a token", name, c.line)
			}
		}
	}
	for name, token := range map[string]string{
		"unsigned":   newUnsignedJWT("e30", map[string]any{"iss": "Iv23liEXAMPLE", "iat": time.Now().Unix() - 60, "exp": time.Now().Unix() + 60}),
		"no token":   "",
		"of nothing": "a.b.c",
	} {
		if isSigned(token) {
			t.Errorf("%s: it is taken", name)
		}
	}
}
