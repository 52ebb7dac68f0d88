// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/lint"
)

var (
	agreementSeed  = flag.Uint64("agreement.seed", 10, "what the nodes of TestCommandsAgree are made from")
	agreementNodes = flag.Int("agreement.nodes", 100, "how many nodes TestCommandsAgree makes")
)

// TestCommandsAgree generates valid and broken nodes, and checks that the results of
// validate, doctor, explain, get and pull agree with each other and with the library.
func TestCommandsAgree(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "bin")
	must.Do(t, linkPlugins(bin))
	for _, odd := range []func() error{
		func() error { return os.WriteFile(filepath.Join(bin, "plain"), []byte("x"), 0o644) },
		func() error { return os.Mkdir(filepath.Join(bin, "folder"), 0o755) },
	} {
		must.Do(t, odd())
	}
	server := must.Get(newHalfOpenRegistry())(t)
	t.Cleanup(func() { server.Close() })

	seen := map[string]int{}
	t.Run("nodes", func(t *testing.T) {
		for i := range *agreementNodes {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				n := newRandomNode(t, rand.New(rand.NewPCG(*agreementSeed, uint64(i))), i, bin, server)
				if t.Failed() {
					return
				}
				want := n.lookupWithLibrary(t)
				seen[want.verdictKind()]++
				n.checkCommands(t, want)
				if t.Failed() {
					data, _ := os.ReadFile(n.config)
					t.Logf("asked about %s with %q, docker config %q:\n%s", n.image, n.flags, n.docker, data)
				}
			})
		}
	})
	t.Logf("%v", seen)
	for _, kind := range []string{"refused", "broken", "credentials", "failed", "none"} {
		if seen[kind] == 0 && *agreementNodes >= 100 {
			t.Errorf("no node was made that is %s: %v", kind, seen)
		}
	}
}

// randomNode is a generated node, and an image to look up on it.
type randomNode struct {
	dir, config, bin string
	docker           string // the node's docker config file
	secret           *regcred.PullSecret
	flags            []string // flags that select the pod or service account
	image            string
	open             bool // anonymous pulls of the image are allowed
	server           *testregistry.Server
}

func newRandomNode(t *testing.T, r *rand.Rand, i int, bin string, server *testregistry.Server) *randomNode {
	dir := t.TempDir()
	n := &randomNode{dir: dir, config: filepath.Join(dir, "config.yaml"), bin: bin, server: server, open: r.IntN(3) == 0}
	repository := map[bool]string{true: "open", false: "team"}[n.open] + fmt.Sprintf("/app%d", i)
	must.Get(server.Push(repository, "v1", testregistry.Image{Seed: int64(i)}))(t)
	n.image = server.Addr() + "/" + repository + ":v1"
	if r.IntN(12) == 0 {
		n.bin = filepath.Join(dir, "no-such-directory")
	}
	write := func(name, text string) {
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	}
	text := randomConfig(r, server.Addr())
	if r.IntN(6) == 0 { // the configuration is a directory
		write(filepath.Join(n.config, "10.yaml"), text)
		if r.IntN(2) == 0 {
			write(filepath.Join(n.config, "20.yaml"), randomConfig(r, server.Addr()))
		}
	} else {
		write(n.config, text)
	}
	if r.IntN(3) == 0 {
		n.docker = randomDockerConfig(r, server.Addr())
		write(filepath.Join(dir, "config.json"), n.docker)
	}
	if r.IntN(4) == 0 {
		text := randomDockerConfig(r, server.Addr())
		name := filepath.Join(dir, "secret.json")
		manifest, err := json.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson", "metadata": map[string]any{"namespace": "a", "name": "b"},
			"data": map[string]any{".dockerconfigjson": []byte(text)},
		})
		if err != nil {
			t.Fatal(err)
		}
		write(name, string(manifest))
		n.flags = append(n.flags, "--pull-secret", name)
		n.secret = &regcred.PullSecret{
			Namespace: "a", Name: "b", Type: "kubernetes.io/dockerconfigjson",
			Data: map[string][]byte{".dockerconfigjson": []byte(text)},
		}
	}
	return n
}

// randomConfig returns a configuration. One in four has an error.
func randomConfig(r *rand.Rand, host string) string {
	one := func(list ...string) string { return list[r.IntN(len(list))] }
	version := one("v1", "v1", "v1", "v1beta1", "v1alpha1")
	var b strings.Builder
	b.WriteString("apiVersion: kubelet.config.k8s.io/" + version + "\nkind: CredentialProviderConfig\nproviders:\n")
	names := []string{"good", "good", "open", "empty", "failing", "garbage", "silent", "stranger", "whoami", "wrong-version", "leaky", "declining", "colon", "absent", "plain", "folder", "tokens"}
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	broken := r.IntN(4) == 0
	for _, name := range names[:1+r.IntN(3)] {
		pattern := one(host, host, host, host+"/team", host+"/open", "other.example", "*.example", "127.0.0.1")
		field := ""
		if broken && r.IntN(2) == 0 {
			pattern = one(pattern, "[", "", "https://*.example:http", "*.*.", "a b")
			field = one("", "nonsense: true, ", "name: again, ", "env: [{name: '', value: x}], ", "defaultCacheDuration: soon, ", "tokenAttributes: {}, ")
		}
		fmt.Fprintf(&b, "- {name: %s, matchImages: [%q], %sdefaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/%s", name, pattern, field, version)
		if name == "tokens" && version == "v1" {
			b.WriteString(", tokenAttributes: {serviceAccountTokenAudience: reg, cacheType: Token, requireServiceAccount: true}")
		}
		b.WriteString("}\n")
	}
	if broken {
		b.WriteString(one("", "", "---\nkind: Other\n", "---\n\t{", "providers: []\n", "# end\n", "\x00", "&a [*a]\n"))
	}
	return b.String()
}

// randomDockerConfig returns a docker config file with a correct credential, a wrong credential or
// another user's credential. One in five is invalid.
func randomDockerConfig(r *rand.Rand, host string) string {
	login := []string{"ci:" + canary.PasswordSecret, "ci:wrong", "other:" + canary.PasswordSecret}[r.IntN(3)]
	key := []string{host, host, "https://" + host + "/v1/", "other.example", host + "/team"}[r.IntN(5)]
	text := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, key, base64.StdEncoding.EncodeToString([]byte(login)))
	if r.IntN(5) == 0 {
		return text[:len(text)-3]
	}
	return text
}

// libraryVerdict is the library's result for a node, from which all commands' results
// can be derived.
type libraryVerdict struct {
	refused  bool // the kubelet does not start because of the configuration
	broken   bool // the kubelet does not start because of an executable
	errors   bool // there is a finding with severity error
	users    []string
	failed   bool // credentials are missing because of a failure
	accepted int  // index of the credential that the registry accepts; -1 if none
}

func (v *libraryVerdict) verdictKind() string {
	switch {
	case v.refused:
		return "refused"
	case len(v.users) > 0:
		return "credentials"
	case v.failed:
		return "failed"
	case v.broken:
		return "broken"
	}
	return "none"
}

// lookupWithLibrary returns the library's verdict.
func (n *randomNode) lookupWithLibrary(t *testing.T) *libraryVerdict {
	v := &libraryVerdict{accepted: -1}
	cfg, err := config.Load(n.config)
	if err != nil || cfg.Validate() != nil {
		v.refused = true
		return v
	}
	for _, f := range append(lint.Check(cfg), lint.BinDir(cfg, n.bin)...) {
		v.broken = v.broken || report.StopsKubelet(f)
		v.errors = v.errors || f.Severity == finding.SeverityError
	}
	o := &node.Origin{Environ: n.commandEnviron(), Dir: n.dir, RootDir: n.dir}
	k, err := regcred.New(cfg, regcred.Options{
		BinDir: n.bin, Environ: o.Environ, Dir: o.Dir, Sources: []regcred.Source{regcred.NodeDockerConfig(doctor.DockerConfigPaths(o))},
	})
	if err != nil {
		t.Fatalf("New refuses what Validate accepts: %v", err)
	}
	defer k.Close()
	req := regcred.Request{Image: n.image}
	if n.secret != nil {
		req.PullSecrets = []regcred.PullSecret{*n.secret}
	}
	res, err := k.Lookup(t.Context(), req)
	if _, v.failed = errors.AsType[*regcred.LookupError](err); err != nil && !v.failed {
		t.Fatal(err)
	}
	if hasFailedPullSecret(res.Attempts) { // in the kubelet, MakeDockerKeyring then returns an error, and the pull fails
		v.failed = true
		return v
	}
	for i, c := range res.Credentials {
		v.users = append(v.users, c.Username)
		if v.accepted < 0 && c.Username == "ci" && c.Password.Reveal() == canary.PasswordSecret {
			v.accepted = i
		}
	}
	return v
}

// exitCode returns the exit code of commands that look up credentials.
func (v *libraryVerdict) exitCode() int {
	switch v.verdictKind() {
	case "credentials":
		return exitOK
	case "none":
		return exitNoMatch
	}
	return exitFailed
}

func (n *randomNode) commandEnviron() []string {
	return []string{"HOME=" + n.dir, "PATH=" + os.Getenv("PATH"), "GORACE=" + noRaceSleep}
}

// run runs a command on the node and decodes its JSON output.
func (n *randomNode) run(t *testing.T, into any, args ...string) (code int, stderr string) {
	var stdout, talk bytes.Buffer
	a := newApp(strings.NewReader(""), &stdout, &talk, n.commandEnviron())
	a.dir = n.dir
	args = append(args, "--config", n.config, "--bin-dir", n.bin, "--root-dir", n.dir, "-o", "json")
	code = a.run(t.Context(), args)
	if stdout.Len() > 0 {
		if err := json.Unmarshal(stdout.Bytes(), into); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
	return code, talk.String()
}

// commandOutput contains the fields of the commands' JSON output that the test compares.
type commandOutput struct {
	Valid       bool
	Healthy     bool
	Verdict     struct{ Outcome string }
	Credentials []struct{ Username string }
	Credential  *struct{ Username string }
	Failed      []struct{ Credential *struct{ Username string } }
}

func (s *commandOutput) userNames() (list []string) {
	for _, c := range s.Credentials {
		list = append(list, c.Username)
	}
	return list
}

func (n *randomNode) checkCommands(t *testing.T, want *libraryVerdict) {
	code := func(command string, got, want int, stderr string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: exit code %d, want %d\n%s", command, got, want, stderr)
		}
	}
	starts := !want.refused && !want.broken

	var validated commandOutput
	got, stderr := n.run(t, &validated, "validate")
	code("validate", got, map[bool]int{true: exitOK, false: exitFailed}[starts && !want.errors], stderr)
	if validated.Valid != starts {
		t.Errorf("validate: valid is %v, want %v", validated.Valid, starts)
	}

	var checked commandOutput
	got, stderr = n.run(t, &checked, "doctor")
	code("doctor", got, map[bool]int{true: exitOK, false: exitFailed}[starts && !want.errors], stderr)
	if checked.Healthy != (got == exitOK) {
		t.Errorf("doctor: healthy is %v with exit code %d", checked.Healthy, got)
	}

	var explained commandOutput
	got, stderr = n.run(t, &explained, append([]string{"explain", n.image}, n.flags...)...)
	code("explain", got, want.exitCode(), stderr)
	outcome := map[string]string{
		"refused": report.VerdictInvalid, "broken": report.VerdictInvalid, "credentials": report.VerdictWithCredentials, "failed": report.OutcomeFailed, "none": report.VerdictAnonymous,
	}[want.verdictKind()]
	if explained.Verdict.Outcome != outcome && !(want.broken && explained.Verdict.Outcome == report.VerdictInvalid && want.exitCode() == exitFailed) {
		t.Errorf("explain: outcome %q, want %q", explained.Verdict.Outcome, outcome)
	}
	if diff := cmp.Diff(want.users, explained.userNames()); diff != "" {
		t.Errorf("explain: -library +explain\n%s", diff)
	}

	var gotten commandOutput
	got, stderr = n.run(t, &gotten, append([]string{"get", n.image}, n.flags...)...)
	code("get", got, want.exitCode(), stderr)
	if diff := cmp.Diff(want.users, gotten.userNames()); diff != "" {
		t.Errorf("get: -library +get\n%s", diff)
	}
	n.checkPull(t, want)
}

// checkPull pulls, and checks the registry's requests.
func (n *randomNode) checkPull(t *testing.T, want *libraryVerdict) {
	var pulled struct{ Images []commandOutput }
	n.server.ResetLog()
	got, stderr := n.run(t, &pulled, append([]string{"pull", n.image, "--layout", filepath.Join(n.dir, "layout")}, n.flags...)...)
	kind := want.verdictKind()
	success := kind == "credentials" && want.accepted >= 0 || kind == "none" && n.open
	if code := map[bool]int{true: exitOK, false: exitFailed}[success]; got != code {
		t.Errorf("pull: exit code %d, want %d\n%s", got, code, stderr)
	}
	asked := len(n.server.Requests()) > 0
	if goes := kind == "credentials" || kind == "none"; asked != goes {
		t.Errorf("pull: it asked the registry: %v, want %v", asked, goes)
	}
	if kind != "none" {
		for _, r := range n.server.Requests() {
			if strings.Contains(r.Path, "/manifests/") && r.User == "" && r.Status == 200 {
				t.Errorf("pull: an anonymous request got the manifest: %+v", r)
			}
		}
	}
	var users []string
	if len(pulled.Images) > 0 {
		for _, f := range pulled.Images[0].Failed {
			if f.Credential != nil {
				users = append(users, f.Credential.Username)
			}
		}
		if c := pulled.Images[0].Credential; c != nil {
			users = append(users, c.Username)
		}
	}
	tried := want.users
	if want.accepted >= 0 {
		tried = tried[:want.accepted+1]
	}
	if diff := cmp.Diff(tried, users); diff != "" {
		t.Errorf("pull: -library +tried\n%s", diff)
	}
}
