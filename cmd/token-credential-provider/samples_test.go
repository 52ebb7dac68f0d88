// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/lint"
	"github.com/regcred/regcred/plugin"
)

// silent is the address of a server that never answers.
func silent(t *testing.T) string {
	t.Helper()
	server := testcloud.Serve(http.NotFoundHandler())
	server.Inject(testcloud.Fault{Hang: true, Times: -1})
	t.Cleanup(server.Close)
	return server.URL()
}

// sample is what a registry's documented API expects of a sample, and gives.
type sample struct {
	image       string
	audience    string
	annotations map[string]string
	username    string // of the credential

	// What the endpoint expects; no endpoint means that the token itself is
	// the password.
	endpoint string // host
	line     string // method and path
	status   int
	user     string            // of HTTP Basic authentication, whose password is the token if basic is ""
	basic    string            // its password
	json     map[string]string // "TOKEN" stands for the token
	form     map[string]string
	jwt      bool // the answer's secret is a JSON Web Token
}

// samples are those of docs/plugins/token, with what docs/plugins/token.md
// cites of the registries' documentation.
func samples() map[string]sample {
	const idToken = "urn:ietf:params:oauth:token-type:id_token"
	const grant = "urn:ietf:params:oauth:grant-type:token-exchange"
	return map[string]sample{
		"harbor": {image: "harbor.example.com/team/app", audience: "harbor.example.com", username: "jwt"},
		"zot":    {image: "zot.example.com/team/app", audience: "zot.example.com", username: "serviceaccount"},
		"quay": {
			image: "quay.io/team/app", audience: "quay.io", username: "team+puller", jwt: true,
			annotations: map[string]string{"registry.example.com/quay-robot": "team+puller"},
			endpoint:    "quay.io", line: "GET /oauth2/federation/robot/token", status: 200, user: "team+puller",
		},
		"jfrog": {
			image: "acme.jfrog.io/docker/app", audience: "acme.jfrog.io", username: "puller",
			endpoint: "acme.jfrog.io", line: "POST /access/api/v1/oidc/token", status: 200,
			json: map[string]string{"grant_type": grant, "subject_token_type": idToken, "subject_token": "TOKEN", "provider_name": "my-cluster"},
		},
		"cloudsmith": {
			image: "docker.cloudsmith.io/acme/images/app", audience: "https://api.cloudsmith.io", username: "token", jwt: true,
			endpoint: "api.cloudsmith.io", line: "POST /openid/acme/", status: 201,
			json: map[string]string{"oidc_token": "TOKEN", "service_slug": "kubernetes-abcd"},
		},
		"gitlab": {
			image: "registry.gitlab.com/acme/app", audience: "gitlab-tokens.example.com", username: "gitlab+deploy-token-1",
			endpoint: "gitlab-tokens.example.com", line: "POST /token", status: 200, user: "node", basic: canary.Env,
			form: map[string]string{
				"grant_type": grant, "subject_token": "TOKEN", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
				"audience": "registry.gitlab.com", "scope": "read_registry",
			},
		},
	}
}

// problem says what of a request the API would refuse, without its values.
func (s sample) problem(r testcloud.Request, token string) string {
	user, password, _ := (&http.Request{Header: r.Header}).BasicAuth()
	wantPassword := s.basic
	if s.user != "" && s.basic == "" {
		wantPassword = token
	}
	form := map[string]string{}
	for name, values := range r.Form() {
		form[name] = strings.Join(values, " ")
	}
	members := map[string]string{}
	for name, value := range r.JSON() {
		members[name] = fmt.Sprint(value)
	}
	switch {
	case r.Method+" "+r.Path != s.line:
		return "not " + s.line
	case user != s.user || password != wantPassword:
		return "another user or password"
	case s.form != nil && (!cmp.Equal(form, withToken(s.form, token)) || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded"):
		return "another form"
	case s.json != nil && (!cmp.Equal(members, withToken(s.json, token)) || r.Header.Get("Content-Type") != "application/json"):
		return "other members"
	case s.form == nil && s.json == nil && len(r.Body) > 0:
		return "a body"
	}
	return ""
}

func withToken(fields map[string]string, token string) map[string]string {
	filled := maps.Clone(fields)
	for name, value := range filled {
		filled[name] = strings.ReplaceAll(value, "TOKEN", token)
	}
	return filled
}

// serve plays the endpoint.
func (s sample) serve(body, token string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, err := io.ReadAll(r.Body)
		got := testcloud.Request{Method: r.Method, Path: r.URL.Path, Header: r.Header, Body: content}
		if problem := s.problem(got, token); err != nil || problem != "" {
			w.Header().Set("X-Request-Id", strings.ReplaceAll(problem, " ", "-")) // is part of the plugin's error
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(s.status)
		io.WriteString(w, body)
	})
}

// TestSamples pulls an image with each sample of the documentation: the real
// files, hosts and processes, in an internet on loopback.
func TestSamples(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("SSL_CERT_FILE has no effect here")
	}
	bin := binDir(t)
	all := samples()
	files, err := filepath.Glob("../../docs/plugins/token/*.kubelet.yaml")
	if err != nil || len(files) != len(all) {
		t.Fatalf("found %q, %v", files, err)
	}
	for name, s := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			token := tokenFor(s.audience)
			secret := token
			if s.endpoint != "" {
				secret = canary.Password
			}
			if s.jwt {
				secret = jwtOf(canary.Password, map[string]any{"exp": time.Now().Add(time.Hour).Unix()})
			}
			reg, host := registryOf(t, s, secret)
			web, err := testcloud.NewNet()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(web.Close)
			web.Handle(host, reg)
			if s.endpoint != "" {
				mux := http.NewServeMux()
				mux.Handle("/v2/", reg)
				mux.Handle("/", s.serve(wire(t, name, secret), token))
				web.Handle(s.endpoint, mux)
			}
			pullWith(t, web, bin, copySamples(t, name), s, token)
			if strays := web.Strays(); len(strays) > 0 {
				t.Errorf("asked %q", strays)
			}
		})
	}
}

// pullWith looks the image's credential up and pulls the image with it.
func pullWith(t *testing.T, web *testcloud.Net, bin, config string, s sample, token string) {
	t.Helper()
	cfg := loadSample(t, config)
	keyring, err := regcred.New(cfg, regcred.Options{BinDir: bin, Command: plugin.Command{Environ: web.Environ()}})
	if err != nil {
		t.Fatal(err)
	}
	defer keyring.Close()
	res, err := keyring.Lookup(t.Context(), regcred.Request{Image: s.image + ":v1", Token: plugin.NewSecret(token), Annotations: s.annotations})
	if err != nil {
		canary.Check(t, "the error", err.Error())
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
		canary.Check(t, "the error", err.Error())
		t.Error("the registry did not take it")
	}
}

// loadSample loads a configuration that neither the kubelet nor lint minds.
func loadSample(t *testing.T, name string) *config.Config {
	t.Helper()
	cfg, err := config.Load(name)
	if err == nil {
		err = cfg.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range lint.Check(cfg) {
		if finding.Severity != lint.SeverityInfo {
			t.Errorf("%+v", finding)
		}
	}
	return cfg
}

// copySamples copies the samples of a registry, with another directory in
// place of the one in /etc, and returns the kubelet's.
func copySamples(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	files, err := filepath.Glob("../../docs/plugins/token/" + name + ".*")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %q, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.ReplaceAll(string(text), "/etc/token-credential-provider/", dir+"/"))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "client-secret"), []byte(canary.Env+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name+".kubelet.yaml")
}

// wire is the documented answer with the secret in it.
func wire(t *testing.T, name, secret string) string {
	t.Helper()
	text, err := os.ReadFile("../../provider/token/testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "@secret@") {
		t.Fatal("the sample has no place for the secret")
	}
	return strings.ReplaceAll(string(text), "@secret@", secret)
}

// registryOf is a registry that has the sample's image and takes the secret.
func registryOf(t *testing.T, s sample, secret string) (http.Handler, string) {
	t.Helper()
	reg, err := testregistry.New(testregistry.Options{Auth: testregistry.Basic, Users: map[string]string{s.username: secret}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reg.Close() })
	host, repo, _ := strings.Cut(s.image, "/")
	if _, err := reg.Push(repo, "v1", testregistry.Image{}); err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(reg.URL())
	if err != nil {
		t.Fatal(err)
	}
	return httputil.NewSingleHostReverseProxy(target), host
}

// TestSampleRefused: the servers of the samples do look at what they are sent.
func TestSampleRefused(t *testing.T) {
	names := slices.Sorted(maps.Keys(samples()))
	for _, name := range names {
		s := samples()[name]
		if s.endpoint == "" {
			continue
		}
		method, path, _ := strings.Cut(s.line, " ")
		r := testcloud.Request{Method: method, Path: path, Header: http.Header{}}
		if s.problem(r, "open-sesame") == "" {
			t.Errorf("%s: takes a request without a token", name)
		}
	}
}
