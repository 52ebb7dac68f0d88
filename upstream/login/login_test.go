// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/login"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// randomExchanges is how many generated registries are compared.
const randomExchanges = 3000

const manifestBody = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json"}`

// scriptedResponse is what a token server returns.
type scriptedResponse struct {
	Status         int
	Body, Location string
}

// exchangeScript describes one registry, its token server and the credential.
type exchangeScript struct {
	Anonymous  int      // status for a request without a credential
	Challenges []string // header lines; REALM stands for the token server
	Again      []string // header lines for a refused credential; nil for the same
	Basic      bool     // the registry accepts every password
	Tokens     []string // accepted tokens
	NoHead     bool     // 405 for HEAD

	Post, Get scriptedResponse

	None               bool // no credential
	Username, Password string
	ID                 int
}

// pickRandom returns one of the choices. The first ones are the most likely.
func pickRandom[T any](r *rand.Rand, choices ...T) T {
	return choices[min(r.IntN(len(choices)), r.IntN(len(choices)))]
}

func newChallenge(r *rand.Rand) string {
	scheme := pickRandom(r, "Bearer", "Bearer", "Basic", "bearer", "BASIC", "Digest", "Negotiate", "bEARER", "", "Bearer,", " Bearer", "Béarer")
	var params []string
	add := func(likely float64, key string, values ...string) {
		if r.Float64() < likely {
			equals := "="
			if r.IntN(10) == 0 {
				key, equals = pickRandom(r, strings.ToUpper(key), key+" ", " "+key), pickRandom(r, "=", " = ", "")
			}
			params = append(params, key+equals+pickRandom(r, values...))
		}
	}
	add(0.95, "realm", `"REALM"`, `"REALM"`, `"REALM"`, `"REALM?account=x&scope=y"`, `"REALM"x`, `REALM`, `x`, `""`, `"/token"`, `"ftp://127.0.0.1/x"`, `"http://[::1"`, `"REALM`, `"http://user:pw@HOST/token/ID"`, `"http:\/\/HOST/token/ID"`, `"REALM?%zz=1"`, `"REALM#x"`)
	add(0.7, "service", `"registry"`, `s`, `""`, `"a b&c=d"`, `"é"`, `"a\"b"`)
	add(0.7, "scope", `"repository:x/ID:pull"`, `"repository:x/ID:pull,push"`, `"repository:x/ID:pull repository:y:pull"`, `""`, `"a  b"`, `"registry:catalog:*"`, `a:b`)
	add(0.1, "error", `"invalid_token"`, `"insufficient_scope"`, `""`)
	if r.IntN(4) == 0 {
		r.Shuffle(len(params), func(i, j int) { params[i], params[j] = params[j], params[i] })
	}
	return scheme + pickRandom(r, " ", " ", " ", " ", "\t", "  ", "") + strings.Join(params, pickRandom(r, ",", ",", ",", ", ", " , ", ",,", " "))
}

func newChallenges(r *rand.Rand) (lines []string) {
	for range pickRandom(r, 1, 1, 2, 2, 3, 0) {
		line := newChallenge(r)
		if r.IntN(10) == 0 {
			line += ", " + newChallenge(r)
		}
		lines = append(lines, line)
	}
	return lines
}

func newResponse(r *rand.Rand) scriptedResponse {
	a := scriptedResponse{Status: pickRandom(r, 200, 200, 200, 200, 201, 202, 204, 206, 300, 304, 302, 303, 307, 308, 400, 401, 403, 404, 405, 418)}
	if a.Status >= 300 && a.Status < 400 && r.IntN(2) == 0 {
		a.Location = pickRandom(r, "/moved/ID", "/token/ID?again=1", "ftp://x/y", "http://[::1")
	}
	var fields []string
	add := func(likely float64, key string, values ...string) {
		if r.Float64() < likely {
			fields = append(fields, fmt.Sprintf("%q:%s", key, pickRandom(r, values...)))
		}
	}
	add(0.6, "access_token", `"good"`, `"good"`, `"bad"`, `""`, `1`, `null`)
	add(0.6, "token", `"good"`, `"good"`, `"bad"`, `""`, `1`, `null`)
	add(0.1, "TOKEN", `"good"`, `"bad"`)
	add(0.5, "expires_in", `300`, `300`, `0`, `-5`, `300.5`, `3e2`, `"300"`, `null`, `1e300`, `99999999999999999999`)
	add(0.4, "issued_at", `"2026-11-25T10:00:00Z"`, `"2026-11-25T10:00:00.123456789+01:00"`, `"2026-11-25 10:00:00"`, `""`, `1`, `null`, `"2026-11-25T10:00:00"`)
	add(0.3, "refresh_token", `"refresh"`, `1`, `""`)
	add(0.2, "scope", `"a"`, `["a"]`)
	a.Body = "{" + strings.Join(fields, ",") + "}"
	switch r.IntN(25) {
	case 0:
		a.Body = pickRandom(r, "", "null", "[]", `"good"`, "<html>", "{", `{"token":"good"`, "\ufeff{}", "{}{}", "1")
	case 1:
		a.Body += pickRandom(r, " trailing", "\n", `{"token":"bad"}`)
	}
	return a
}

func newScript(r *rand.Rand, id int) *exchangeScript {
	s := &exchangeScript{
		ID: id, Anonymous: pickRandom(r, 401, 401, 401, 401, 200, 403, 404), Challenges: newChallenges(r),
		Basic: r.IntN(3) > 0, Tokens: pickRandom(r, []string{"good"}, []string{"good", "bad"}, nil), NoHead: r.IntN(20) == 0,
		Post: newResponse(r), Get: newResponse(r),
		None: r.IntN(6) == 0, Username: pickRandom(r, "user", "user", "", "ü ser", "a:b"), Password: pickRandom(r, "pass", "pass", "", "p&a=s s", "é"),
	}
	if r.IntN(4) == 0 {
		s.Again = newChallenges(r)
	}
	return s
}

// scriptedRegistry serves the scripts, and records the requests by repository.
type scriptedRegistry struct {
	scripts []*exchangeScript
	host    string

	mu   sync.Mutex
	seen map[string][]string
}

var idPattern = regexp.MustCompile(`[cr]\d+`)

func (g *scriptedRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := idPattern.FindString(r.URL.Path)
	var n int
	if _, err := fmt.Sscanf(id[min(1, len(id)):], "%d", &n); err != nil || n >= len(g.scripts) {
		http.Error(w, "no script", http.StatusInternalServerError)
		return
	}
	r.ParseForm()
	g.recordRequest(id, r)
	s := g.scripts[n]
	put := func(text string) string {
		return strings.NewReplacer("REALM", "http://"+g.host+"/token/"+id, "HOST", g.host, "ID", id).Replace(text)
	}
	if !strings.HasPrefix(r.URL.Path, "/v2/") {
		a := s.Get
		if r.Method == http.MethodPost {
			a = s.Post
		}
		if a.Location != "" && r.URL.Query().Get("again") == "" {
			w.Header().Set("Location", put(a.Location))
		}
		w.WriteHeader(a.Status)
		io.WriteString(w, a.Body)
		return
	}
	auth := r.Header.Get("Authorization")
	token, bearer := strings.CutPrefix(auth, "Bearer ")
	ok := auth == "" && s.Anonymous == 200 || bearer && slices.Contains(s.Tokens, token) || strings.HasPrefix(auth, "Basic ") && s.Basic
	switch {
	case ok && s.NoHead && r.Method == http.MethodHead:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case ok:
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		w.Header().Set("Docker-Content-Digest", "sha256:"+strings.Repeat("a", 64))
		w.Header().Set("Content-Length", fmt.Sprint(len(manifestBody)))
		if r.Method != http.MethodHead {
			io.WriteString(w, manifestBody)
		}
	default:
		lines := s.Challenges
		if auth != "" && s.Again != nil {
			lines = s.Again
		}
		for _, line := range lines {
			w.Header().Add("WWW-Authenticate", put(line))
		}
		w.WriteHeader(cmp.Or(map[bool]int{true: s.Anonymous}[auth == ""], 401))
	}
}

// recordRequest records a request. It merges a request that repeats the one before.
func (g *scriptedRegistry) recordRequest(id string, r *http.Request) {
	auth := r.Header.Get("Authorization")
	if user, password, ok := r.BasicAuth(); ok {
		auth = fmt.Sprintf("Basic %q %q", user, password)
	}
	line := strings.ReplaceAll(fmt.Sprintf("%s %s %s form %s", r.Method, r.URL, auth, r.PostForm.Encode()), id, "ID")
	g.mu.Lock()
	defer g.mu.Unlock()
	if seen := g.seen[id]; len(seen) == 0 || seen[len(seen)-1] != line {
		g.seen[id] = append(seen, line)
	}
}

var statusPattern = regexp.MustCompile(`unexpected status from \w+ request to .*: (\d{3})`)

// classifyOutcome returns the class of an error from containerd.
func classifyOutcome(text string) string {
	status := statusPattern.FindStringSubmatch(text)
	switch {
	case text == "":
		return "success"
	case strings.Contains(text, "no basic auth credentials"):
		return "incomplete credential"
	case strings.Contains(text, "no realm specified"), strings.Contains(text, "invalid token auth challenge realm"):
		return "no realm"
	case strings.Contains(text, "decode token response"), strings.Contains(text, "did not include a token"):
		return "bad token"
	case strings.Contains(text, "server message:"):
		return "status 401"
	case status != nil:
		return "status " + status[1]
	case strings.HasSuffix(text, "not found"):
		return "status 404"
	}
	return "transport"
}

// headFallback lists the statuses of HEAD after which containerd and probe send GET.
var headFallback = []int{http.StatusMethodNotAllowed, http.StatusForbidden}

// runRegcred returns the class of regcred's outcome.
func (g *scriptedRegistry) runRegcred(t *testing.T, s *exchangeScript) string {
	repository := fmt.Sprintf("x/r%d", s.ID)
	reg := must.Get(name.NewRegistry(g.host))(t)
	target := must.Get(login.NewTarget(reg, "repository:"+repository+":pull", false))(t)
	r := &login.Registry{Target: target, Secrets: &login.Secrets{}, Retry: login.RetryOptions{Attempts: 1}}
	send := func(rt http.RoundTripper, method string) (*http.Response, error) {
		req := must.Get(http.NewRequestWithContext(t.Context(), method, "http://"+g.host+"/v2/"+repository+"/manifests/v1", nil))(t)
		resp, err := rt.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		return resp, err
	}
	resp, err := send(r, http.MethodHead)
	method := http.MethodHead
	if err == nil && slices.Contains(headFallback, resp.StatusCode) {
		method = http.MethodGet
		resp, err = send(r, method)
	}
	if err == nil && resp.StatusCode == http.StatusUnauthorized && r.Learn(resp) != nil {
		var cred *regcred.Credential
		if !s.None {
			cred = &regcred.Credential{Username: s.Username, Password: plugin.NewSecret(s.Password)}
		}
		var session *login.Session
		if session, err = r.Login(t.Context(), cred); err == nil {
			if resp, err = send(session, method); err == nil && method == http.MethodHead && slices.Contains(headFallback, resp.StatusCode) {
				resp, err = send(session, http.MethodGet)
			}
		}
		if cred == nil && err == nil && resp.StatusCode == http.StatusUnauthorized && !r.UsesTokens() {
			return "incomplete credential"
		}
	}
	switch {
	case err == nil && resp.StatusCode == http.StatusOK:
		return "success"
	case err == nil:
		return fmt.Sprint("status ", resp.StatusCode)
	case errors.Is(err, login.ErrIncompleteCredential):
		return "incomplete credential"
	case errors.Is(err, login.ErrBadToken):
		return "bad token"
	case login.StatusCode(err) != 0:
		return fmt.Sprint("status ", login.StatusCode(err))
	case strings.Contains(err.Error(), "Bearer challenge"):
		return "no realm"
	}
	return "transport"
}

// TestLogin compares both for many generated scripts.
func TestLogin(t *testing.T) {
	g := &scriptedRegistry{seen: map[string][]string{}}
	random := rand.New(rand.NewPCG(28, 4))
	for id := range randomExchanges {
		g.scripts = append(g.scripts, newScript(random, id))
	}
	srv := httptest.NewServer(g)
	defer srv.Close()
	g.host = must.Get(url.Parse(srv.URL))(t).Host

	theirs := runContainerd(t, g)
	outcomes := map[string]int{}
	requests, disagreements, documented := 0, 0, 0
	for id, s := range g.scripts {
		want, got := classifyOutcome(theirs[id]), g.runRegcred(t, s)
		sent, wantSent := g.seen[fmt.Sprint("r", id)], g.seen[fmt.Sprint("c", id)]
		requests += len(sent)
		outcomes[want]++
		switch {
		case got == want && slices.Equal(sent, wantSent):
			continue
		case want == "status 401" && s.Again != nil && len(sent) > len(wantSent) && slices.Equal(sent[:len(wantSent)], wantSent):
			documented++ // regcred gets a token for the scope of the second challenge
			continue
		}
		if disagreements++; disagreements <= 5 {
			t.Errorf("%+v\ncontainerd: %s: %s\n\t%s\nregcred: %s\n\t%s", *s, want, theirs[id], strings.Join(wantSent, "\n\t"), got, strings.Join(sent, "\n\t"))
		}
	}
	t.Logf("%d exchanges with %d requests, %d disagreements, %d documented differences; outcomes: %v", randomExchanges, requests, disagreements, documented, outcomes)
	if disagreements > 5 || documented > randomExchanges/100 {
		t.Errorf("%d disagreements, %d documented differences", disagreements, documented)
	}
	for _, outcome := range []string{"success", "incomplete credential", "no realm", "bad token", "status 401", "status 403", "status 404", "transport"} {
		if outcomes[outcome] < 20 {
			t.Errorf("only %d exchanges end with %q", outcomes[outcome], outcome)
		}
	}
}

// runContainerd returns containerd's error for each script, or "".
func runContainerd(t *testing.T, g *scriptedRegistry) []string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "containerd")
	build := exec.Command("go", "build", "-modfile=../containerd2.mod", "-tags=no_tracing", "-o", program, "containerd/main.go")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build containerd's resolver: %v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), program)
	in := must.Get(run.StdinPipe())(t)
	out := must.Get(run.StdoutPipe())(t)
	must.Do(t, run.Start())
	go func() {
		defer in.Close()
		for id, s := range g.scripts {
			json.NewEncoder(in).Encode(map[string]any{"Host": g.host, "Name": fmt.Sprintf("x/c%d", id), "Username": s.Username, "Password": s.Password, "None": s.None})
		}
	}()
	var all []string
	for decoder := json.NewDecoder(out); len(all) < len(g.scripts); {
		var got struct{ Error string }
		if err := decoder.Decode(&got); err != nil {
			t.Fatalf("containerd, after %d images: %v", len(all), err)
		}
		all = append(all, got.Error)
	}
	must.Do(t, run.Wait())
	return all
}
