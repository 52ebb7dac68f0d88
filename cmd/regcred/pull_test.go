// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
)

// TestPullScripts runs scripts with a registry, whose host is $REGISTRY. The registry has the image
// team/app:v1 (digest $DIGEST), which requires authentication, and the public image open/app:v1.
func TestPullScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/pull",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			server, err := newScriptRegistry(env)
			if err != nil {
				return err
			}
			env.Values["registry"] = server
			env.Defer(func() { server.Close() })
			return setupScript(env)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":   scriptCode,
			"says":   scriptOutputContains,
			"config": scriptPullConfig,
			"inject": scriptInject,
			"log":    scriptAccessLog,
			"field":  scriptField,
		},
	})
}

// newHalfOpenRegistry starts a registry that requires authentication, except for
// repositories below open.
func newHalfOpenRegistry() (*testregistry.Server, error) {
	return testregistry.New(testregistry.Options{
		Auth:  testregistry.AuthBearer,
		Users: map[string]string{"ci": canary.PasswordSecret},
		Rules: []testregistry.Rule{
			{User: testregistry.AnyUser, Prefix: "", Pull: true},
			{User: testregistry.Anonymous, Prefix: "open", Pull: true},
		},
	})
}

func newScriptRegistry(env *testscript.Env) (*testregistry.Server, error) {
	server, err := newHalfOpenRegistry()
	if err != nil {
		return nil, err
	}
	digest, err := server.Push("team/app", "v1", testregistry.Image{})
	if err != nil {
		return nil, err
	}
	if _, err := server.Push("open/app", "v1", testregistry.Image{Seed: 1}); err != nil {
		return nil, err
	}
	env.Setenv("REGISTRY", server.Addr())
	env.Setenv("DIGEST", digest)
	return server, nil
}

// TestContent checks that the printed size is the sum of the layers, or the size that
// the runtime reports.
func TestContent(t *testing.T) {
	for want, r := range map[string]imageReport{
		"linux/amd64, 2 layers, 3.0 KiB (1 already present)": {Platform: "linux/amd64", Digest: "sha256:x", Layers: []layerReport{{Size: 1 << 10}, {Size: 2 << 10, Reused: true}}},
		"5.0 KiB": {Size: 5 << 10},
		"":        {},
	} {
		if got := r.contentText(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func scriptServer(ts *testscript.TestScript) *testregistry.Server {
	return ts.Value("registry").(*testregistry.Server)
}

// scriptPullConfig is the script command "config PLUGIN...". It writes config.yaml with the plugins
// as providers for the registry.
func scriptPullConfig(ts *testscript.TestScript, neg bool, plugins []string) {
	var b strings.Builder
	b.WriteString("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n")
	for _, name := range plugins {
		fmt.Fprintf(&b, "- {name: %s, matchImages: [%q], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n", name, ts.Getenv("REGISTRY"))
	}
	ts.Check(os.WriteFile(ts.MkAbs("config.yaml"), []byte(b.String()), 0o600))
}

// scriptInject is the script command "inject manifests|blobs|tokens KIND". It makes all later
// requests to the endpoint fail.
func scriptInject(ts *testscript.TestScript, neg bool, args []string) {
	endpoint := map[string]testregistry.Endpoint{"manifests": testregistry.EndpointManifests, "blobs": testregistry.EndpointBlobs, "tokens": testregistry.EndpointToken}
	kind := map[string]testregistry.FaultKind{
		"unauthorized": testregistry.FaultUnauthorized, "corrupt": testregistry.FaultCorrupt, "cut": testregistry.FaultTruncate,
	}
	scriptServer(ts).Inject(testregistry.Fault{Kind: kind[args[1]], Endpoint: endpoint[args[0]], Times: testregistry.Forever})
}

// scriptAccessLog is the script command "log USER". It checks that the registry served a manifest
// to the user, or anonymously if USER is anonymous.
func scriptAccessLog(ts *testscript.TestScript, neg bool, args []string) {
	want := strings.TrimPrefix(args[0], "anonymous")
	found := false
	for _, r := range scriptServer(ts).Requests() {
		if strings.Contains(r.Path, "/manifests/") && r.User == want {
			found = true
		}
	}
	if found == neg {
		ts.Fatalf("manifest asked for by %q: %v", args[0], found)
	}
}

// scriptField is the script command "field NAME VALUE". It checks a field of the first image's
// report in stdout.
func scriptField(ts *testscript.TestScript, neg bool, args []string) {
	var report struct{ Images []map[string]any }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &report))
	if got := fmt.Sprint(report.Images[0][args[0]]); (got == args[1]) == neg {
		ts.Fatalf("%s is %q, want %q", args[0], got, args[1])
	}
}

func TestDemo(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp) // for this process, which creates the demo's directory
	t.Setenv("TMP", temp)
	var out, errOut strings.Builder
	code := run(t.Context(), []string{"demo", "-o", "json"}, strings.NewReader(""), &out, &errOut, os.Environ())
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, errOut.String())
	}
	var r demoReport
	must.Do(t, json.Unmarshal([]byte(out.String()), &r))
	if r.Digest == "" || r.Pulled.Digest != r.Digest || r.Pulled.Credential.Username != demoUser {
		t.Errorf("pushed %q, pulled %q with %+v", r.Digest, r.Pulled.Digest, r.Pulled.Credential)
	}
	if r.Anonymous.Status != http.StatusUnauthorized {
		t.Errorf("the anonymous pull got %d, want 401", r.Anonymous.Status)
	}
	if r.SecondLookup.Cache != "hit" || r.Execs != 1 {
		t.Errorf("second lookup: cache %q, %d execs; want a hit and one exec", r.SecondLookup.Cache, r.Execs)
	}
	left, err := filepath.Glob(filepath.Join(temp, "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
