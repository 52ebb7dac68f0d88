// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package parity

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	credentialproviderapi "k8s.io/kubelet/pkg/apis/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/dispatch"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/generate"
	"github.com/regcred/regcred/upstream/kubelet"
)

// scenario is a node with providers. A provider's response depends only on the part of an image
// that the response's scope covers, so that a cached response equals a new one.
type scenario struct {
	seed      uint64
	host      string // host in most images, patterns and keys
	providers []scriptedProvider
	maxStale  time.Duration
}

// scriptedProvider is a provider with its scripted behavior.
type scriptedProvider struct {
	config.Provider
	scope           plugin.CacheKeyType
	duration        *time.Duration
	fails           int  // fails for one in this many images or registries; 0 means never
	usesOwnPatterns bool // most keys in its responses are its patterns
}

var (
	kubeletMu            sync.Mutex // guards a node's requests, because plugins run concurrently
	dispatchHosts = []string{"registry.io", "sub.registry.io", "registry.io:5000", "docker.io", "localhost", "a.io", "[::1]:5000"}
	dispatchPaths = []string{"team/app", "team/app-b", "team-evil/app", "t/a", "v1/x", "v2/v1/x", "library/nginx", "team/sub/app"}
	sampleImages        = joinAll(dispatchHosts, dispatchPaths)
	// broadPatterns lists patterns and keys that match more than one image.
	broadPatterns = []string{
		"registry.io", "registry.io/team", "registry.io/team/", "registry.io/", "*.io", "*.io/team", "r*.io", "registry.*", "*.registry.io", "*.*.io",
		"registry.io:5000", "*.io:5000/team", "docker.io", "docker.io/library", "index.docker.io", "localhost", "*", "a.io/v1", "a.io/v1/x", "a.io/v2", "*:5000",
	}
	sampleDurations = []*time.Duration{nil, new(time.Duration(0)), new(time.Hour), new(time.Minute), new(-time.Minute)}
	cacheKeyTypes    = []plugin.CacheKeyType{plugin.CacheImage, plugin.CacheRegistry, plugin.CacheRegistry, plugin.CacheGlobal}
)

func joinAll(hosts, paths []string) (all []string) {
	for _, h := range hosts {
		for _, p := range paths {
			all = append(all, h+"/"+p)
		}
	}
	return all
}

func randomPatterns(r *rand.Rand, host string) (list []string) {
	for range 1 + r.IntN(3) {
		s := generate.PickElement(r, broadPatterns)
		switch r.IntN(5) {
		case 0:
			s = generate.PickElement(r, sampleImages)
		case 1:
			s, _, _ = strings.Cut(generate.PickElement(r, sampleImages), "/")
		case 2:
			s = host + "/" + generate.PickElement(r, dispatchPaths)
		case 3:
			s = host
		}
		if !slices.Contains(list, s) && !strings.HasPrefix(s, "[") {
			list = append(list, s)
		}
	}
	if list == nil {
		return []string{"registry.io"}
	}
	return list
}

// newScenario returns a scenario with one to six providers. If tokens is set, some of them are in
// service-account mode.
func newScenario(r *rand.Rand, tokens bool) *scenario {
	w := &scenario{seed: r.Uint64(), host: generate.PickElement(r, dispatchHosts), maxStale: time.Hour}
	for i := range 1 + r.IntN(6) {
		p := scriptedProvider{scope: generate.PickElement(r, cacheKeyTypes), duration: generate.PickElement(r, sampleDurations), fails: generate.PickElement(r, []int{0, 0, 0, 2, 4})}
		p.Provider = config.Provider{
			Name: fmt.Sprintf("p%d", i), MatchImages: randomPatterns(r, w.host), APIVersion: plugin.V1,
			DefaultCacheDuration: generate.PickElement(r, []*time.Duration{new(time.Duration(0)), new(time.Hour)}),
		}
		if tokens && generate.OneIn(r, 2) {
			p.TokenAttributes = generate.PickElement(r, []*config.TokenAttributes{
				{ServiceAccountTokenAudience: "a", CacheType: "Token", RequireServiceAccount: new(true)},
				{ServiceAccountTokenAudience: "a", CacheType: "ServiceAccount", RequireServiceAccount: new(false), OptionalServiceAccountAnnotationKeys: []string{"example.com/role", "example.com/none"}},
				{ServiceAccountTokenAudience: "b", CacheType: "ServiceAccount", RequireServiceAccount: new(true), RequiredServiceAccountAnnotationKeys: []string{"example.com/role"}},
				{ServiceAccountTokenAudience: "b", CacheType: "Token", RequireServiceAccount: new(true), RequiredServiceAccountAnnotationKeys: []string{"example.com/missing"}},
			})
		}
		w.providers = append(w.providers, p)
	}
	if generate.OneIn(r, 4) { // keep one or two providers whose responses may be valid for all images that they match
		w.providers = w.providers[:min(len(w.providers), 1+r.IntN(2))]
		for i := range w.providers {
			p := &w.providers[i]
			p.scope, p.duration, p.fails, p.usesOwnPatterns = plugin.CacheGlobal, new(time.Hour), 0, true
		}
	}
	return w
}

// respondFor returns a provider's response for an image.
func (w *scenario) respondFor(i int, image string) (*plugin.Response, error) {
	p := &w.providers[i]
	base := image
	switch p.scope {
	case plugin.CacheRegistry:
		base, _, _ = strings.Cut(image, "/")
	case plugin.CacheGlobal:
		base = ""
	}
	h := fnv.New64a()
	fmt.Fprint(h, i, base)
	r := rand.New(rand.NewPCG(w.seed, h.Sum64()))
	if p.fails > 0 && generate.OneIn(r, p.fails) {
		return nil, errors.New("it broke")
	}
	resp := &plugin.Response{CacheKeyType: p.scope, CacheDuration: p.duration, Auth: map[string]plugin.AuthConfig{}}
	seen := map[string]bool{}
	for j := range r.IntN(4) {
		key := w.randomKey(r, base)
		if p.usesOwnPatterns && !generate.OneIn(r, 4) {
			key = generate.PickElement(r, p.MatchImages)
		}
		if same := generate.NormalizeKey(key); !seen[same] && utf8.ValidString(key) { // strings in JSON are valid UTF-8
			seen[same] = true
			resp.Auth[key] = plugin.AuthConfig{Username: fmt.Sprintf("%s.%d", p.Name, j), Password: plugin.NewSecret(password)}
		}
	}
	return resp, nil
}

// randomKey returns an auth key that is likely to match an image of base, and to be in the response of
// another provider too.
func (w *scenario) randomKey(r *rand.Rand, base string) string {
	about := base
	if base == "" {
		about = generate.PickElement(r, []string{w.host, w.host, generate.PickElement(r, dispatchHosts)})
	}
	host, _, image := strings.Cut(about, "/")
	if !image {
		about += "/" + generate.PickElement(r, dispatchPaths)
	}
	switch r.IntN(6) {
	case 0:
		return generate.RandomAuthKey(r, about)
	case 1:
		return generate.PickElement(r, broadPatterns)
	case 2:
		return about[:len(host)+r.IntN(len(about)-len(host)+1)]
	case 3:
		return "https://" + host + "/v2" + about[len(host):]
	case 4:
		return generate.PickElement(r, []string{"", "https://", "http://"}) + host + generate.PickElement(r, []string{"", "/", "/v1/", "//", "/team", "/team/", "/t", "/v2/t"})
	}
	return host
}

// providerRequest is a request to a provider.
type providerRequest struct{ provider, image, token, annotations string }

// dispatcherNode is a kubelet with a configuration.
type dispatcherNode struct {
	t             *testing.T
	bin           string
	requests      map[providerRequest]bool
	cachedByScope map[plugin.CacheKeyType]int // number of the dispatcher's responses that the kubelet has cached, by scope
}

func newDispatcherNode(t *testing.T) *dispatcherNode {
	n := &dispatcherNode{t: t, bin: t.TempDir(), cachedByScope: map[plugin.CacheKeyType]int{}}
	for i := range 6 {
		writeScript(t, filepath.Join(n.bin, fmt.Sprintf("p%d", i)), "exit 1\n")
		name := entries.DispatcherName
		if i > 0 {
			name += fmt.Sprintf("-%d", i+1)
		}
		writeScript(t, filepath.Join(n.bin, name), "exit 1\n")
	}
	return n
}

// registerProviders configures a kubelet with these providers. Their responses come from ask.
func (n *dispatcherNode) registerProviders(providers []config.Provider, ask func(i int, req *plugin.Request) (*plugin.Response, error)) {
	n.t.Helper()
	n.requests = map[providerRequest]bool{}
	path := filepath.Join(n.bin, "config.json")
	data, err := json.Marshal(map[string]any{"kind": "CredentialProviderConfig", "apiVersion": "kubelet.config.k8s.io/v1", "providers": configFields(providers)})
	if err != nil {
		n.t.Fatal(err)
	}
	writeFile(n.t, path, string(data))
	tokens := kubelet.TokenFuncs{Token: issueToken, ServiceAccount: func(namespace, name string) (*corev1.ServiceAccount, error) {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid", Annotations: map[string]string{"example.com/role": "puller"}}}, nil
	}}
	if err := kubelet.RegisterPlugins(path, n.bin, tokens); err != nil {
		n.t.Fatalf("%v\n%s", err, data)
	}
	for i := range providers {
		e, err := kubelet.ExecPluginAt(i)
		if err == nil {
			err = kubelet.SetPlugin(i, inProcessPlugin{e, providers[i].APIVersion, plugin.ProviderFunc(func(_ context.Context, req *plugin.Request) (*plugin.Response, error) { return ask(i, req) })})
		}
		if err != nil {
			n.t.Fatal(err)
		}
	}
}

// configFields returns the configuration without the fields that a Provider does not marshal.
func configFields(providers []config.Provider) (all []map[string]any) {
	for _, p := range providers {
		m := map[string]any{"name": p.Name, "matchImages": p.MatchImages, "apiVersion": p.APIVersion, "defaultCacheDuration": p.DefaultCacheDuration.String()}
		if p.TokenAttributes != nil {
			m["tokenAttributes"] = p.TokenAttributes
		}
		all = append(all, m)
	}
	return all
}

// issueToken issues a token for the requested audience, as an API server does.
func issueToken(namespace, name string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	part := func(v any) string {
		data, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(data)
	}
	tr.Status.Token = part(map[string]string{"alg": "RS256"}) + "." + part(map[string]any{"aud": tr.Spec.Audiences, "sub": namespace + ":" + name}) + ".c2ln"
	return tr, nil
}

// inProcessPlugin calls a plugin without a process. It encodes requests and responses as the
// protocol does.
type inProcessPlugin struct {
	exec       *kubelet.ExecPlugin
	apiVersion string
	provider   plugin.Provider
}

// ExecPlugin implements the kubelet's Plugin.
func (s inProcessPlugin) ExecPlugin(ctx context.Context, image, token string, annotations map[string]string) (*credentialproviderapi.CredentialProviderResponse, error) {
	stdin, err := s.exec.EncodeRequest(image, token, annotations)
	if err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	if code := plugin.Serve(ctx, s.provider, plugin.ServeOptions{Stdin: bytes.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Args: []string{}, Name: "plugin"}); code != 0 {
		return nil, fmt.Errorf("exit %d: %s", code, stderr.String())
	}
	resp, err := s.exec.DecodeResponse(stdout.Bytes())
	if err != nil {
		return nil, err
	}
	out := &credentialproviderapi.CredentialProviderResponse{CacheKeyType: credentialproviderapi.PluginCacheKeyType(resp.CacheKeyType), Auth: map[string]credentialproviderapi.AuthConfig{}}
	if resp.CacheDuration != nil {
		out.CacheDuration = &metav1.Duration{Duration: *resp.CacheDuration}
	}
	for _, e := range resp.Auth {
		out.Auth[string(e.Key)] = credentialproviderapi.AuthConfig{Username: string(e.Username), Password: string(e.Password)}
	}
	return out, nil
}

// queryProvider calls a provider of the scenario and records the request.
func (n *dispatcherNode) queryProvider(w *scenario, i int, req *plugin.Request) (*plugin.Response, error) {
	n.requests[providerRequest{w.providers[i].Name, req.Image, req.ServiceAccountToken.Reveal(), fmt.Sprint(req.ServiceAccountAnnotations)}] = true
	return w.respondFor(i, req.Image)
}

// registerDirect configures the kubelet to call the providers itself.
func (n *dispatcherNode) registerDirect(w *scenario) {
	var list []config.Provider
	for _, p := range w.providers {
		list = append(list, p.Provider)
	}
	n.registerProviders(list, func(i int, req *plugin.Request) (*plugin.Response, error) { return n.queryProvider(w, i, req) })
}

// registerDispatched configures the kubelet to call the dispatcher. The kubelet gets an entry for each
// distinct tokenAttributes. The entry matches the patterns of its providers and the patterns in
// more. left returns how many of an image's credentials the dispatcher has dropped.
func (n *dispatcherNode) registerDispatched(w *scenario, more []string) (left func(image string) int) {
	var list []config.Provider
	var own []entries.Entry
	for _, p := range w.providers {
		i := slices.IndexFunc(own, func(e entries.Entry) bool { return e.Serves(&p.Provider) })
		if i < 0 {
			i = len(own)
			e := entries.Entry{Name: entries.DispatcherName, APIVersion: plugin.V1, TokenAttributes: p.TokenAttributes}
			if i > 0 {
				e.Name += fmt.Sprintf("-%d", i+1)
			}
			own = append(own, e)
		}
		own[i].MatchImages = append(own[i].MatchImages, p.MatchImages...)
		list = append(list, p.Provider)
	}
	last, byEntry := 0, map[string]map[int]int{} // credentials that the dispatcher has dropped: in its last response, and by image and entry
	var asked []*dispatch.Provider
	var kubelets []config.Provider
	for i := range own {
		wider := own[i]
		wider.MatchImages = slices.Concat(own[i].MatchImages, more)
		kubelets = append(kubelets, wider.Provider())
		if w.seed%2 == 0 { // otherwise the kubelet's entries are from another generation
			own[i] = wider
		}
		asked = append(asked, &dispatch.Provider{
			Entry: own[i], Config: &config.Config{Providers: list}, MaxStale: w.maxStale,
			Observe: func(o dispatch.Outcome) { last = o.Dropped },
			Plugin: func(c *config.Provider) plugin.Provider {
				at := slices.IndexFunc(list, func(p config.Provider) bool { return p.Name == c.Name })
				return plugin.ProviderFunc(func(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
					kubeletMu.Lock()
					defer kubeletMu.Unlock()
					return n.queryProvider(w, at, req)
				})
			},
		})
	}
	n.registerProviders(kubelets, func(i int, req *plugin.Request) (*plugin.Response, error) {
		resp, err := asked[i].GetCredentials(context.Background(), req)
		if byEntry[req.Image] == nil {
			byEntry[req.Image] = map[int]int{}
		}
		byEntry[req.Image][i] = last
		if err == nil && *resp.CacheDuration > 0 {
			n.cachedByScope[resp.CacheKeyType]++
		}
		return resp, err
	})
	return func(image string) (sum int) {
		for _, n := range byEntry[image] {
			sum += n
		}
		return sum
	}
}

// lookUpWithKubelet returns the credentials that a kubelet tries for an image, in order. An empty account
// means a static pod.
func lookUpWithKubelet(image, account string) []corpus.Auth {
	creds, _ := kubelet.NewKeyring("default", "pod", "pod-uid", account).Lookup(image)
	return kubelet.AuthsOf(creds)
}

// TestDispatch verifies that a kubelet with the dispatcher tries the same credentials for each
// image, in the same order, as a kubelet with the plugins. What the kubelets have cached must not
// matter.
func TestDispatch(t *testing.T) {
	n := newDispatcherNode(t)
	found, several, leftOut := 0, 0, 0
	runCases(t, 3_000, func(r *rand.Rand) bool {
		w := newScenario(r, false)
		list := w.randomImages(r)
		n.registerDirect(w)
		var want [][]corpus.Auth
		for _, image := range list {
			want = append(want, lookUpWithKubelet(image, "puller"))
		}
		left := n.registerDispatched(w, w.extraPatterns(r))
		for i, image := range list {
			got := lookUpWithKubelet(image, "puller")
			if left(image) > 0 { // the dispatcher drops the last keys
				leftOut++
				want[i] = want[i][:len(want[i])-left(image)]
			}
			found += len(got)
			if len(got) > 1 {
				several++
			}
			if !slices.Equal(got, want[i]) {
				t.Errorf("image %d, %q: %q, with the plugins themselves %q\n%s", i, image, usernames(got), usernames(want[i]), w)
				return false
			}
			if !w.checkMatches(t, image, got) {
				return false
			}
		}
		return true
	})
	t.Logf("%d credentials; %d times several; %d times some were left out; kept: %v", found, several, leftOut, n.cachedByScope)
	if several < 1_000 || leftOut == 0 || len(n.cachedByScope) < 3 {
		t.Error("the generator no longer makes all kinds")
	}
}

// TestDispatchTokens is like TestDispatch, with providers in service-account mode and therefore
// with several entries. The credentials must be the same, and no provider may receive more data. If
// a key is in the responses of two entries, the order of the entries applies and not the order of
// the providers.
func TestDispatchTokens(t *testing.T) {
	n := newDispatcherNode(t)
	found, ordered := 0, 0
	runCases(t, 1_500, func(r *rand.Rand) bool {
		w := newScenario(r, true)
		list := w.randomImages(r)
		accounts := make([]string, len(list))
		for i := range accounts {
			accounts[i] = generate.PickElement(r, []string{"puller", "puller", ""})
		}
		n.registerDirect(w)
		var want [][]corpus.Auth
		for i, image := range list {
			want = append(want, lookUpWithKubelet(image, accounts[i]))
		}
		asked := n.requests
		left := n.registerDispatched(w, nil)
		for i, image := range list {
			got := lookUpWithKubelet(image, accounts[i])
			found += len(got)
			if slices.Equal(got, want[i]) {
				ordered++
			}
			if left(image) == 0 && !slices.Equal(sortAuths(got), sortAuths(want[i])) || !w.checkMatches(t, image, got) {
				t.Errorf("image %d, %q: %q, with the plugins themselves %q\n%s", i, image, usernames(got), usernames(want[i]), w)
				return false
			}
		}
		for s := range n.requests {
			if !hasSameRequest(asked, s) {
				t.Errorf("%s was called what it would not have been: %+v\n%s", s.provider, s, w)
				return false
			}
		}
		return true
	})
	t.Logf("%d credentials; %d images in the same order", found, ordered)
	if found < 2_000 {
		t.Error("the generator no longer makes enough")
	}
}

// hasSameRequest reports whether asked contains a request to the same provider with the same token
// and annotations. The image in a request depends on the kubelet's cache.
func hasSameRequest(asked map[providerRequest]bool, s providerRequest) bool {
	for a := range asked {
		if a.provider == s.provider && a.token == s.token && a.annotations == s.annotations {
			return true
		}
	}
	return false
}

func sortAuths(list []corpus.Auth) []corpus.Auth {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b corpus.Auth) int { return strings.Compare(string(a.Username), string(b.Username)) })
	return list
}

func (w *scenario) randomImages(r *rand.Rand) (list []string) {
	for range 6 {
		image := w.host + "/" + generate.PickElement(r, dispatchPaths)
		if generate.OneIn(r, 4) {
			image = generate.PickElement(r, sampleImages)
		}
		list = append(list, image)
	}
	return list
}

// extraPatterns returns patterns that only the kubelet's entries have.
func (w *scenario) extraPatterns(r *rand.Rand) []string {
	if generate.OneIn(r, 2) {
		return nil
	}
	return randomPatterns(r, w.host)
}

// checkMatches checks that each credential is from a provider that matches the image.
func (w *scenario) checkMatches(t *testing.T, image string, got []corpus.Auth) bool {
	for _, a := range got {
		name, _, _ := strings.Cut(string(a.Username), ".")
		i := slices.IndexFunc(w.providers, func(p scriptedProvider) bool { return p.Name == name })
		if !slices.ContainsFunc(w.providers[i].MatchImages, func(s string) bool {
			ok, _ := credentialprovider.URLsMatchStr(s, image)
			return ok
		}) {
			t.Errorf("image %q is offered what %s has, which matches %q", image, name, w.providers[i].MatchImages)
			return false
		}
	}
	return true
}

// String formats the providers.
func (w *scenario) String() string {
	var b strings.Builder
	for i, p := range w.providers {
		fmt.Fprintf(&b, "%s %s %q %v/%v fails %d", p.Name, p.scope, p.MatchImages, p.duration, p.DefaultCacheDuration, p.fails)
		for _, image := range []string{"registry.io/team/app"} {
			if a, err := w.respondFor(i, image); err == nil {
				fmt.Fprintf(&b, " %s: %q", image, slices.Sorted(maps.Keys(a.Auth)))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
