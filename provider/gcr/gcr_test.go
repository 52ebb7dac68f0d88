// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr_test

import (
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/gcr"
)

const clusterIssuer = "https://container.googleapis.com/v1/projects/p/locations/l/clusters/c"

// testCloud is a fake Google Cloud and its network.
type testCloud struct {
	*testcloud.Google
	net *testcloud.FakeNetwork
}

func newTestCloud(t testing.TB) *testCloud {
	t.Helper()
	net := must.Get(testcloud.NewFakeNetwork())(t)
	t.Cleanup(net.Close)
	google := must.Get(testcloud.NewGoogle(net))(t)
	t.Cleanup(google.Close)
	return &testCloud{google, net}
}

// newProvider returns a provider with short delays that uses only the endpoints of w.
func (w *testCloud) newProvider(t testing.TB, opts gcr.Options) *gcr.Provider {
	t.Helper()
	if opts.MetadataHost == "" {
		opts.MetadataHost = w.Addr()
	}
	if opts.Transport == nil {
		transport := w.net.Transport()
		t.Cleanup(transport.CloseIdleConnections)
		opts.Transport = transport
	}
	opts.Backoff = time.Millisecond
	return must.Get(gcr.New(opts))(t)
}

// podToken returns a service account token whose signature is a canary.
func podToken() plugin.Secret {
	claims := `{"iss":"https://issuer.example","sub":"system:serviceaccount:team:app","aud":["pool"]}`
	return plugin.NewSecret("e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + "." + canary.TokenSecret)
}

// podRequest returns a pod's request with annotations in the form "key=value".
func podRequest(image string, annotations ...string) *plugin.Request {
	req := &plugin.Request{Image: image, ServiceAccountToken: podToken(), ServiceAccountAnnotations: map[string]string{}}
	for _, a := range annotations {
		key, value, _ := strings.Cut(a, "=")
		req.ServiceAccountAnnotations[key] = value
	}
	return req
}

// responseSummary is a response without the fields that are always equal.
type responseSummary struct {
	Scope    plugin.CacheKeyType
	Duration string
	Keys     string
	Password string // the same under every key
}

func getCredentials(t testing.TB, p *gcr.Provider, req *plugin.Request) (responseSummary, error) {
	t.Helper()
	resp, err := p.GetCredentials(t.Context(), req)
	if err != nil {
		canary.AssertAbsent(t, "the error", err.Error())
		if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "open-sesame") {
			t.Error("the error has more than a line, or a token")
		}
		return responseSummary{}, err
	}
	if resp.APIVersion != "" || resp.CacheDuration == nil {
		t.Errorf("apiVersion %q, cacheDuration %v", resp.APIVersion, resp.CacheDuration)
	}
	got := responseSummary{Scope: resp.CacheKeyType, Duration: resp.CacheDuration.String()}
	for _, auth := range resp.Auth {
		got.Password = auth.Password.Reveal()
	}
	for _, auth := range resp.Auth {
		if auth.Username != "_token" || auth.Password.Reveal() != got.Password {
			t.Errorf("user %q, or different passwords", auth.Username)
		}
	}
	got.Keys = strings.Join(slices.Sorted(maps.Keys(resp.Auth)), " ")
	return got, nil
}

func mustGetCredentials(t testing.TB, p *gcr.Provider, req *plugin.Request) responseSummary {
	t.Helper()
	return must.Get(getCredentials(t, p, req))(t)
}

// googleKeys lists the keys that every response has, sorted.
const googleKeys = "*.gcr.io *.pkg.dev container.cloud.google.com gcr.io"

func nodeResponse(keys string) responseSummary {
	return responseSummary{plugin.CacheRegistry, "30m0s", keys, "open-sesame"}
}

var emptyResponse = responseSummary{Scope: plugin.CacheRegistry, Duration: "0s"}

// TestNodeIdentity verifies that one request is sent, with the header that the server
// requires.
func TestNodeIdentity(t *testing.T) {
	w := newTestCloud(t)
	got := mustGetCredentials(t, w.newProvider(t, gcr.Options{}), &plugin.Request{Image: "gcr.io/project/app"})
	if diff := cmp.Diff(nodeResponse(googleKeys), got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"GET " + w.Addr() + testcloud.GoogleTokenPath}, w.RequestLines()); diff != "" {
		t.Error(diff)
	}
	header := w.Requests()[0].Header
	if got := header.Get("Metadata-Flavor"); got != "Google" || header.Get("User-Agent") != "regcred auth-provider-gcp" {
		t.Errorf("asked with %v", header)
	}
}

// TestHosts verifies that only registry hosts get the node's token, and that there is
// no request for other hosts.
func TestHosts(t *testing.T) {
	allow := []string{"registry.example", "*.mirror.example:5000", "Docker-*.Example.com", "*-docker.pkg-berlin-build0.goog"}
	own := func(key string) responseSummary { // googleKeys and the registry's own key
		keys := append(strings.Fields(googleKeys), key)
		slices.Sort(keys)
		return nodeResponse(strings.Join(keys, " "))
	}
	for image, want := range map[string]responseSummary{
		"gcr.io/p/app":                            nodeResponse(googleKeys),
		"container.cloud.google.com/p/app":        nodeResponse(googleKeys),
		"us.gcr.io/p/app":                         own("us.gcr.io"),
		"mirror.gcr.io/library/nginx":             own("mirror.gcr.io"),
		"us-docker.pkg.dev/p/r/app":               own("us-docker.pkg.dev"),
		"europe-west1-docker.pkg.dev/p/r/app":     own("europe-west1-docker.pkg.dev"),
		"docker.me-central2.rep.pkg.dev/p/r/app":  own("docker.me-central2.rep.pkg.dev"),
		"gcr.io:443/p/app":                        own("gcr.io:443"),
		"GCR.io/p/app":                            own("GCR.io"),
		"registry.example/app":                    own("registry.example"),
		"REGISTRY.example/app":                    own("REGISTRY.example"),
		"a.mirror.example:5000/app":               own("a.mirror.example:5000"),
		"docker-x.example.com/app":                own("docker-x.example.com"),
		"u-x-docker.pkg-berlin-build0.goog/p/r/a": own("u-x-docker.pkg-berlin-build0.goog"),

		"gcr.io.example/p/app":              emptyResponse,
		"evilgcr.io/p/app":                  emptyResponse,
		"evil-gcr.io/p/app":                 emptyResponse,
		"pkg.dev/p/app":                     emptyResponse,
		"pkg.dev.evil.com/p/app":            emptyResponse,
		"us-docker.pkg.dev.evil.com/p/app":  emptyResponse,
		"evilpkg.dev/p/app":                 emptyResponse,
		"a.b.pkg.dev/p/app":                 emptyResponse,
		"a.b.gcr.io/p/app":                  emptyResponse,
		"x.me-central2.rep.pkg.dev/p/app":   emptyResponse,
		"docker.a.b.rep.pkg.dev/p/app":      emptyResponse,
		".gcr.io/p/app":                     emptyResponse,
		".pkg.dev/p/app":                    emptyResponse,
		"gcr.io./p/app":                     emptyResponse,
		"gcr.io:8080/p/app":                 emptyResponse,
		"gcr.io:443:443/p/app":              emptyResponse,
		"us.gcr.io:80/p/app":                emptyResponse,
		"gcr.io@evil.example/p/app":         emptyResponse,
		"evil.example/gcr.io/app":           emptyResponse,
		"evil.example#.gcr.io/app":          emptyResponse,
		"evil.example%2f.gcr.io/app":        emptyResponse,
		"registry.k8s.io/pause":             emptyResponse,
		"docker.io/library/nginx":           emptyResponse,
		"nginx":                             emptyResponse,
		"library/nginx":                     emptyResponse,
		"localhost:5000/x/y":                emptyResponse,
		"169.254.169.254/x":                 emptyResponse,
		"[::1]:5000/x":                      emptyResponse,
		"registry.example:5000/app":         emptyResponse,
		"a.mirror.example/app":              emptyResponse,
		"a.b.mirror.example:5000/app":       emptyResponse,
		"docker.pkg-berlin-build0.goog/p/a": emptyResponse,
		"":                                  emptyResponse,
		"/":                                 emptyResponse,
	} {
		t.Run(image, func(t *testing.T) {
			w := newTestCloud(t)
			req := &plugin.Request{Image: image}
			if want == emptyResponse {
				_, err := getCredentials(t, w.newProvider(t, gcr.Options{AllowHosts: allow}), req)
				cure := `image host "` + req.Registry() + `" is not a Google registry, so it gets no credential; ` +
					"remove it from matchImages, add it with --allow-host or --mirror, or set --other-hosts=empty"
				if err == nil || err.Error() != cure {
					t.Errorf("got %v", err)
				}
			}
			p := w.newProvider(t, gcr.Options{AllowHosts: allow, OtherHosts: "empty"})
			if diff := cmp.Diff(want, mustGetCredentials(t, p, req)); diff != "" {
				t.Error(diff)
			}
			if asked := len(w.Requests()); (asked == 0) != (want == emptyResponse) {
				t.Errorf("%d requests", asked)
			}
		})
	}
}

// TestAnyHost verifies that every registry gets its own key, as with the upstream plugin.
func TestAnyHost(t *testing.T) {
	w := newTestCloud(t)
	p := w.newProvider(t, gcr.Options{AnyHost: true})
	if diff := cmp.Diff(nodeResponse(googleKeys+" registry.example:5000"), mustGetCredentials(t, p, &plugin.Request{Image: "registry.example:5000/app"})); diff != "" {
		t.Error(diff)
	}
	if _, err := getCredentials(t, p, &plugin.Request{Image: "/"}); err == nil {
		t.Error("no host is a host")
	}
}

// TestMirrors verifies that the response contains the credential for the target only under the
// image's own host.
func TestMirrors(t *testing.T) {
	opts := gcr.Options{
		Mirrors: []string{
			"docker.io=europe-docker.pkg.dev/p/hub", "quay.io/team=europe-docker.pkg.dev/p/quay", "k8s.example=registry.example",
		},
		MirrorOrigin: "none", AllowHosts: []string{"registry.example"},
	}
	own := func(scope plugin.CacheKeyType, key string) responseSummary {
		return responseSummary{scope, "30m0s", key, "open-sesame"}
	}
	for image, want := range map[string]responseSummary{
		"docker.io/library/nginx":   own(plugin.CacheRegistry, "docker.io"),
		"DOCKER.io/library/nginx":   own(plugin.CacheRegistry, "DOCKER.io"),
		"k8s.example/pause":         own(plugin.CacheRegistry, "k8s.example"),
		"quay.io/team/app":          own(plugin.CacheImage, "quay.io"),
		"quay.io/other/app":         {Scope: plugin.CacheImage, Duration: "0s"},
		"europe-docker.pkg.dev/p/a": nodeResponse("*.gcr.io *.pkg.dev container.cloud.google.com europe-docker.pkg.dev gcr.io"),
	} {
		w := newTestCloud(t)
		if diff := cmp.Diff(want, mustGetCredentials(t, w.newProvider(t, opts), &plugin.Request{Image: image})); diff != "" {
			t.Errorf("%s: %s", image, diff)
		}
	}
	w := newTestCloud(t)
	if _, err := getCredentials(t, w.newProvider(t, opts), &plugin.Request{Image: "docker.io.example/app"}); err == nil {
		t.Error("another host is mirrored")
	}
}

// TestCacheDuration verifies that the duration follows the token's lifetime unless the options set it.
func TestCacheDuration(t *testing.T) {
	for name, tt := range map[string]struct {
		body string
		opts gcr.Options
		want responseSummary
	}{
		"an hour":        {body: `{"access_token":"open-sesame","expires_in":3600}`, want: responseSummary{Duration: "30m0s"}},
		"a real one":     {body: `{"access_token":"open-sesame","expires_in":3599,"token_type":"Bearer"}`, want: responseSummary{Duration: "29m59s"}},
		"ten minutes":    {body: `{"access_token":"open-sesame","expires_in":600}`, want: responseSummary{Duration: "5m0s"}},
		"eight minutes":  {body: `{"access_token":"open-sesame","expires_in":480}`, want: responseSummary{Duration: "3m0s"}},
		"five minutes":   {body: `{"access_token":"open-sesame","expires_in":300}`, want: responseSummary{Duration: "0s"}},
		"a second":       {body: `{"access_token":"open-sesame","expires_in":1}`, want: responseSummary{Duration: "0s"}},
		"not said":       {body: `{"access_token":"open-sesame"}`, want: responseSummary{Duration: "0s"}},
		"null":           {body: `{"access_token":"open-sesame","expires_in":null}`, want: responseSummary{Duration: "0s"}},
		"as text":        {body: `{"access_token":"open-sesame","expires_in":"3600"}`, want: responseSummary{Duration: "30m0s"}},
		"with fraction":  {body: `{"access_token":"open-sesame","expires_in":3600.9}`, want: responseSummary{Duration: "30m0s"}},
		"a century":      {body: `{"access_token":"open-sesame","expires_in":3155760000}`, want: responseSummary{Duration: "6h0m0s"}},
		"beyond a float": {body: `{"access_token":"open-sesame","expires_in":1e999}`, want: responseSummary{Duration: "0s"}},
		"set to 1m":      {body: `{"access_token":"open-sesame","expires_in":3600}`, opts: gcr.Options{CacheDuration: new(time.Minute)}, want: responseSummary{Duration: "1m0s"}},
		"set to 0":       {body: `{"access_token":"open-sesame","expires_in":3600}`, opts: gcr.Options{CacheDuration: new(time.Duration)}, want: responseSummary{Duration: "0s"}},
		"set to Global":  {body: `{"access_token":"open-sesame","expires_in":3600}`, opts: gcr.Options{CacheKeyType: plugin.CacheGlobal}, want: responseSummary{Scope: plugin.CacheGlobal, Duration: "30m0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCloud(t)
			w.Inject(testcloud.Fault{Status: 200, Body: tt.body})
			want := tt.want
			want.Keys, want.Password = googleKeys, "open-sesame"
			if want.Scope == "" {
				want.Scope = plugin.CacheRegistry
			}
			if diff := cmp.Diff(want, mustGetCredentials(t, w.newProvider(t, tt.opts), &plugin.Request{Image: "gcr.io/p/app"})); diff != "" {
				t.Error(diff)
			}
		})
	}
	// The options do not affect a response without credentials.
	w := newTestCloud(t)
	p := w.newProvider(t, gcr.Options{CacheKeyType: plugin.CacheGlobal, CacheDuration: new(time.Hour), OtherHosts: "empty"})
	if diff := cmp.Diff(emptyResponse, mustGetCredentials(t, p, &plugin.Request{Image: "docker.io/library/nginx"})); diff != "" {
		t.Error(diff)
	}
}

func TestCanceled(t *testing.T) {
	w := newTestCloud(t)
	w.Inject(testcloud.Fault{Hang: true, Times: -1})
	ctx, cancel := context.WithCancelCause(t.Context())
	p := w.newProvider(t, gcr.Options{})
	done := make(chan error)
	go func() {
		_, err := p.GetCredentials(ctx, &plugin.Request{Image: "gcr.io/p/app"})
		done <- err
	}()
	cancel(errors.New("SIGTERM"))
	if err := <-done; err == nil || !strings.Contains(err.Error(), "SIGTERM") {
		t.Error(err)
	}
}

func TestNewRefuses(t *testing.T) {
	for want, opts := range map[string]gcr.Options{
		`the target registry.example is not part of Google`:                                  {Mirrors: []string{"docker.io=registry.example"}, MirrorOrigin: "none"},
		`if the runtime falls back to docker.io, it sends this credential there`:             {Mirrors: []string{"docker.io=gcr.io/p"}},
		`--mirror requires the flow gcr`:                                                     {Mirrors: []string{"docker.io=gcr.io/p"}, MirrorOrigin: "none", Flow: gcr.FlowDockercfg},
		`--allow-host "*.co.uk": anyone can register a name under the public suffix "co.uk"`: {AllowHosts: []string{"*.co.uk"}},
		`the flow "GCR" must be gcr, dockercfg or dockercfg-url`:                             {Flow: "GCR"},
		`set --project-id`: {IdentityProvider: clusterIssuer},
		`an identity provider requires a project; set --project-id`: {IdentityProvider: clusterIssuer, Flow: gcr.FlowDockercfg},
		`requires a project`: {IdentityProvider: clusterIssuer, STSAudience: "a"},
		`workload identity is required but not configured; set --identity-provider and --project-id`:           {RequireWorkloadIdentity: true},
		`and in either case use the flow gcr`:                                                                  {RequireWorkloadIdentity: true, STSAudience: "a", Flow: gcr.FlowDockercfg},
		`--impersonate requires a pod identity; set --identity-provider and --project-id, or --sts-audience`:   {Impersonate: true},
		`the universe domain "a/b" is not a domain name`:                                                       {UniverseDomain: "a/b"},
		`the metadata server "http://x" must be host[:port]`:                                                   {MetadataHost: "http://x"},
		`the metadata server "u@x" must be host[:port]`:                                                        {MetadataHost: "u@x"},
		`the metadata server "x/y" must be host[:port]`:                                                        {MetadataHost: "x/y"},
		`the metadata server ":80" must be host[:port]`:                                                        {MetadataHost: ":80"},
		`the metadata server "x:y" must be host[:port]`:                                                        {MetadataHost: "x:y"},
		`the metadata server "x?" must be host[:port]`:                                                         {MetadataHost: "x?"},
		`the cache key type "image" must be Image, Registry or Global`:                                         {CacheKeyType: "image"},
		`the cache duration -1s is negative`:                                                                   {CacheDuration: new(-time.Second)},
		`--allow-host "*": a * in one of the last two labels would send the password to third-party hosts`:     {AllowHosts: []string{"registry.example", "*"}},
		`--allow-host "*.*.*": a * in one of the last two labels would send the password to third-party hosts`: {AllowHosts: []string{"*.*.*"}},
		`--allow-host "": must have the form host[:port]`:                                                      {AllowHosts: []string{""}},
		`--allow-host "https://a.example": must have the form host[:port]`:                                     {AllowHosts: []string{"https://a.example"}},
		`--allow-host "a.example/team": must have the form host[:port]`:                                        {AllowHosts: []string{"a.example/team"}},
		`--allow-host "a.example:": must have the form host[:port]`:                                            {AllowHosts: []string{"a.example:"}},
		`--allow-host "a.example:*": must have the form host[:port]`:                                           {AllowHosts: []string{"a.example:*"}},
		`--allow-host "[ab].example": must have the form host[:port]`:                                          {AllowHosts: []string{"[ab].example"}},
		`--allow-host "a..example": must have the form host[:port]`:                                            {AllowHosts: []string{"a..example"}},
	} {
		if _, err := gcr.New(opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for name, opts := range map[string]gcr.Options{
		"nothing": {}, "ipv6": {MetadataHost: "[fd20:ce::254]"}, "name": {MetadataHost: "metadata.google.internal."},
		"sts alone": {STSAudience: "a", Flow: gcr.FlowDockercfg, IdentityProvider: clusterIssuer},
	} {
		if _, err := gcr.New(opts); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadEnviron(t *testing.T) {
	minute := time.Minute
	for name, tt := range map[string]struct {
		env  map[string]string
		want gcr.Options
		err  string
	}{
		"nothing":        {},
		"duration":       {env: map[string]string{gcr.EnvCacheDuration: "60s"}, want: gcr.Options{CacheDuration: &minute}},
		"no unit":        {env: map[string]string{gcr.EnvCacheDuration: "60"}, err: `KUBE_SIDECAR_CACHE_DURATION="60" must be a duration such as 10m or 0s`},
		"negative":       {env: map[string]string{gcr.EnvCacheDuration: "-1m"}, err: `KUBE_SIDECAR_CACHE_DURATION="-1m" must be a duration such as 10m or 0s`},
		"image":          {env: map[string]string{gcr.EnvCacheType: "image"}, want: gcr.Options{CacheKeyType: plugin.CacheImage}},
		"registry":       {env: map[string]string{gcr.EnvCacheType: "registry"}, want: gcr.Options{CacheKeyType: plugin.CacheRegistry}},
		"global":         {env: map[string]string{gcr.EnvCacheType: "global"}, want: gcr.Options{CacheKeyType: plugin.CacheGlobal}},
		"upper case":     {env: map[string]string{gcr.EnvCacheType: "Global"}, err: `KUBE_SIDECAR_CACHE_TYPE="Global" must be image, registry or global, in lowercase`},
		"metadata":       {env: map[string]string{gcr.EnvMetadataHost: "a:1", gcr.EnvMetadataIP: "10.0.0.1"}, want: gcr.Options{MetadataHost: "a:1"}},
		"metadata ip":    {env: map[string]string{gcr.EnvMetadataIP: "10.0.0.1"}, want: gcr.Options{MetadataHost: "10.0.0.1"}},
		"metadata ipv6":  {env: map[string]string{gcr.EnvMetadataIP: "fd20:ce::254"}, want: gcr.Options{MetadataHost: "[fd20:ce::254]"}},
		"metadata wrong": {env: map[string]string{gcr.EnvMetadataHost: "http://a"}, err: `GCE_METADATA_HOST or GCE_METADATA_IP="http://a" must be host[:port]`},
	} {
		t.Run(name, func(t *testing.T) {
			var got gcr.Options
			got.Getenv = func(name string) string { return tt.env[name] }
			err := got.ReadEnviron()
			got.Getenv = nil
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("got %v, want %s", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Error(err, diff)
			}
		})
	}
}

// TestTotalTimeout verifies that the total timeout also interrupts an attempt, and that the error
// names the endpoint.
func TestTotalTimeout(t *testing.T) {
	if remote.RequestTimeout >= protocol.ServeTimeout {
		t.Error("a plugin is ended before it can say why")
	}
	w := newTestCloud(t)
	w.Inject(testcloud.Fault{Hang: true, Times: -1})
	_, err := getCredentials(t, w.newProvider(t, gcr.Options{Budget: 50 * time.Millisecond}), &plugin.Request{Image: "gcr.io/p/app"})
	if err == nil || !strings.Contains(err.Error(), "GET http://"+w.Addr()+testcloud.GoogleTokenPath+": no response within 50ms") {
		t.Error(err)
	}
}
