// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// docs/library.md and README.md quote these examples; TestDocsQuoteExamples checks
// that.

// exampleKeyring loads the configuration of the examples. It uses in-process providers instead
// of executables.
func exampleKeyring(opts regcred.Options, team plugin.ProviderFunc) *regcred.Keyring {
	cfg, err := config.Load("testdata/library/credential-providers.yaml")
	if err != nil {
		panic(err)
	}
	opts.BinDir = "/usr/libexec/credential-providers"
	opts.InProcess = map[string]plugin.Provider{"team-credential-provider": team, "tenant-credential-provider": plugin.ProviderFunc(askAsTenants)}
	keyring, err := regcred.New(cfg, opts)
	if err != nil {
		panic(err)
	}
	return keyring
}

func askAsTeam(context.Context, *plugin.Request) (*plugin.Response, error) {
	return &plugin.Response{
		CacheKeyType: plugin.CacheRegistry,
		Auth: map[string]plugin.AuthConfig{
			"registry.example/team": {Username: "ci", Password: plugin.NewSecret(canary.PasswordSecret)},
			"registry.example":      {Username: "guest", Password: plugin.NewSecret(canary.PasswordSecret)},
		},
	}, nil
}

func askAsTenants(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
	if req.ServiceAccountToken.Reveal() != canary.TokenSecret {
		return nil, errors.New("not the token of the service account")
	}
	return &plugin.Response{
		CacheKeyType: plugin.CacheImage,
		Auth:         map[string]plugin.AuthConfig{"tenants.example": {Username: "shop", Password: plugin.NewSecret(canary.PasswordSecret)}},
	}, nil
}

func throttledPlugin(context.Context, *plugin.Request) (*plugin.Response, error) {
	return nil, errors.New("the token endpoint answers 429")
}

// Compiled, but not run, because it uses a node's paths.
func Example() {
	cfg, err := config.Load("/etc/kubernetes/credential-providers")
	if err != nil {
		fmt.Println(err)
		return
	}
	keyring, err := regcred.New(cfg, regcred.Options{BinDir: "/usr/libexec/credential-providers"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keyring.Close()
	result, err := keyring.Lookup(context.Background(), regcred.Request{Image: "registry.example/team/app:v1"})
	if err != nil {
		fmt.Println(err) // a provider failed: do not pull anonymously instead
		return
	}
	for _, c := range result.Credentials {
		fmt.Println(c.Match, c.Username, c.Provider) // try them in this order
	}
}

func ExampleNew() {
	cfg, err := config.Load("testdata/library/credential-providers.yaml")
	if err == nil {
		err = cfg.Validate()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	keyring, err := regcred.New(cfg, regcred.Options{
		BinDir: "/usr/libexec/credential-providers",
		Sources: []regcred.Source{
			regcred.NodeDockerConfig(regcred.NodePaths{RootDir: "/var/lib/kubelet"}),
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keyring.Close()

	for _, p := range cfg.Providers {
		fmt.Println(p.Name, p.MatchImages)
	}
	// Output:
	// team-credential-provider [registry.example/team *.mirror.example]
	// tenant-credential-provider [tenants.example]
}

func ExampleKeyring_Lookup() {
	keyring := exampleKeyring(regcred.Options{}, askAsTeam)
	defer keyring.Close()

	result, err := keyring.Lookup(context.Background(), regcred.Request{Image: "registry.example/team/app:v1"})
	if err != nil {
		fmt.Println("do not pull:", err) // not anonymously either
		return
	}
	if len(result.Credentials) == 0 {
		fmt.Println("pull anonymously")
	}
	for _, c := range result.Credentials {
		// Try each once, in this order, until the registry accepts one.
		fmt.Printf("%s: %s, %s from %s\n", c.Match, c.Username, c.Password, c.Provider)
	}
	// Output:
	// registry.example/team: ci, [redacted] from team-credential-provider
	// registry.example: guest, [redacted] from team-credential-provider
}

func ExampleLookupError() {
	keyring := exampleKeyring(regcred.Options{}, throttledPlugin)
	defer keyring.Close()

	result, err := keyring.Lookup(context.Background(), regcred.Request{Image: "registry.example/team/app:v1"})
	var failed *regcred.LookupError
	if errors.As(err, &failed) {
		fmt.Println(failed)
		for _, a := range result.Attempts {
			fmt.Printf("%s matched %s and failed at stage %q\n", a.Provider, a.Pattern, a.Stage)
		}
	}
	// Output:
	// no credentials for registry.example/team/app: plugin "team-credential-provider": exec: the token endpoint answers 429
	// team-credential-provider matched registry.example/team and failed at stage "exec"
}

// simulatePull simulates a pull and returns the registry's status.
func simulatePull(string, string) int { return http.StatusUnauthorized }

func ExampleKeyring_Invalidate() {
	keyring := exampleKeyring(regcred.Options{}, askAsTeam)
	defer keyring.Close()
	request := regcred.Request{Image: "registry.example/team/app:v1"}
	ctx := context.Background()

	result, err := keyring.Lookup(ctx, request)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range result.Credentials {
		if status := simulatePull(c.Username, c.Password.Reveal()); status != http.StatusUnauthorized {
			break
		}
		keyring.Invalidate(c)
	}

	result, err = keyring.Lookup(ctx, request)
	if err == nil {
		fmt.Println(result.Attempts[0].Cache)
	}
	// Output: miss
}

func ExamplePullSecret() {
	keyring := exampleKeyring(regcred.Options{}, askAsTeam)
	defer keyring.Close()
	dockerConfig := []byte(`{"auths": {"registry.example": {"username": "shop", "password": "` + canary.PasswordSecret + `"}}}`)

	result, err := keyring.Lookup(context.Background(), regcred.Request{
		Image: "registry.example/team/app:v1",
		PullSecrets: []regcred.PullSecret{{
			Namespace: "shop", Name: "registry-login",
			Type: "kubernetes.io/dockerconfigjson",
			Data: map[string][]byte{".dockerconfigjson": dockerConfig},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range result.Credentials {
		fmt.Println(c.Username, c.Origin.Kind)
	}
	// Output:
	// shop pullSecret
	// ci provider
	// guest provider
}

// staticAccounts has one service account. A real implementation calls an API server.
type staticAccounts struct{}

func (staticAccounts) GetServiceAccount(_ context.Context, namespace, name string) (*regcred.ServiceAccount, error) {
	return &regcred.ServiceAccount{Namespace: namespace, Name: name, UID: "5d0a5a2c"}, nil
}

func (staticAccounts) RequestToken(_ context.Context, req regcred.TokenRequest) (plugin.Secret, error) {
	fmt.Printf("a token of %s/%s for %s, bound to pod %s\n", req.Namespace, req.ServiceAccount, req.Audience, req.PodName)
	return plugin.NewSecret(canary.TokenSecret), nil
}

func ExampleServiceAccountClient() {
	keyring := exampleKeyring(regcred.Options{ServiceAccounts: staticAccounts{}}, askAsTeam)
	defer keyring.Close()

	pod := &regcred.Pod{Namespace: "shop", Name: "web-0", UID: "9b2e71f4", ServiceAccount: "web"}
	for range 2 {
		result, err := keyring.Lookup(context.Background(), regcred.Request{Image: "tenants.example/shop/web", Pod: pod})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(result.Credentials[0].Username, result.Attempts[0].Cache)
	}
	// Output:
	// a token of shop/web for tenants.example, bound to pod web-0
	// shop miss
	// shop hit
}

// metricsExample holds functions that update the kubelet's metrics, for any metrics library.
type metricsExample struct {
	errorsTotal func(pluginName string)            // credential_provider_plugin_errors_total
	duration    func(pluginName string, s float64) // credential_provider_plugin_duration, in seconds
}

func (m metricsExample) observe(e regcred.Event) {
	if e.Kind != regcred.EventExec {
		return
	}
	m.duration(e.Provider, e.Duration.Seconds())
	switch e.Stage {
	case plugin.StageStart, plugin.StageExec, plugin.StageTimeout, plugin.StageCanceled:
		m.errorsTotal(e.Provider) // a kubelet counts no other failures
	}
}

func ExampleOptions_observer() {
	m := metricsExample{
		errorsTotal: func(name string) { fmt.Println("errors_total", name) },
		duration:    func(name string, s float64) { fmt.Println("duration", name, s < time.Minute.Seconds()) },
	}
	keyring := exampleKeyring(regcred.Options{Observer: m.observe}, throttledPlugin)
	defer keyring.Close()

	_, err := keyring.Lookup(context.Background(), regcred.Request{Image: "registry.example/team/app:v1"})
	fmt.Println(err)
	// Output:
	// duration team-credential-provider true
	// errors_total team-credential-provider
	// no credentials for registry.example/team/app: plugin "team-credential-provider": exec: the token endpoint answers 429
}

// New rejects the same configurations as Validate. It does not run a plugin.
func ExampleNew_invalid() {
	cfg := &config.Config{Providers: []config.Provider{{
		Name: "../sh", MatchImages: []string{"registry.example"}, DefaultCacheDuration: new(time.Hour), APIVersion: plugin.V1,
	}}}
	_, err := regcred.New(cfg, regcred.Options{BinDir: "/usr/libexec/credential-providers"})
	fmt.Println(err)
	// Output:
	// keyring: providers[0].name: must be a file name in the kubelet's --image-credential-provider-bin-dir, without slashes: "../sh"
}

// A build job runs plugins with shorter timeouts than the kubelet's and with its own
// environment.
func ExampleOptions_environ() {
	cfg, err := config.Load("testdata/library/credential-providers.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	keyring, err := regcred.New(cfg, regcred.Options{
		BinDir:  "/nonexistent",
		Environ: []string{"HOME=/home/ci", "PATH=/usr/bin"},
		Timeout: 10 * time.Second,
		Grace:   time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keyring.Close()
	result, err := keyring.Lookup(context.Background(), regcred.Request{Image: "registry.example/team/app"})
	fmt.Println(err != nil, result.Attempts[0].Stage) // a missing plugin is an Attempt
	// Output: true start
}

// A registry lookup skips providers whose pattern has a path.
func ExampleKeyring_Lookup_registry() {
	cfg, err := config.Load("testdata/library/credential-providers.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	keyring, err := regcred.New(cfg, regcred.Options{BinDir: "/usr/libexec/credential-providers"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keyring.Close()
	result, err := keyring.Lookup(context.Background(), regcred.Request{Registry: "registry.example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range result.Attempts {
		fmt.Println(a.Provider, a.Pattern)
		fmt.Println("not asked:", a.Skipped)
	}
	// Output:
	// team-credential-provider registry.example/team
	// not asked: the request specifies only a registry, but the provider's pattern has a path: specify an image instead
}

// A long-running program switches to a new configuration without a pause.
func ExampleKeyring_Reload() {
	cfg, err := config.Load("testdata/library/credential-providers.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	keyring, err := regcred.New(cfg, regcred.Options{InProcess: map[string]plugin.Provider{
		"team-credential-provider":   plugin.ProviderFunc(askAsTeam),
		"tenant-credential-provider": plugin.ProviderFunc(askAsTenants),
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keyring.Close()
	pull := func() {
		result, err := keyring.Lookup(context.Background(), regcred.Request{Image: "registry.example/team/app"})
		if err == nil {
			fmt.Println(result.Attempts[0].Provider, result.Attempts[0].Cache)
		}
	}

	pull()
	changed, err := config.Load("testdata/library/credential-providers.yaml")
	if err == nil {
		err = keyring.Reload(changed) // changes nothing if it returns an error
	}
	fmt.Println("reloaded:", err)
	pull()

	bad := *cfg
	bad.Providers = nil
	fmt.Println("a bad one:", keyring.Reload(&bad) != nil)
	pull()
	// Output:
	// team-credential-provider miss
	// reloaded: <nil>
	// team-credential-provider hit
	// a bad one: true
	// team-credential-provider hit
}

func ExampleOptions_inProcess() {
	cfg, err := config.Load("testdata/library/credential-providers.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	keyring, err := regcred.New(cfg, regcred.Options{
		BinDir: "/usr/libexec/credential-providers",
		InProcess: map[string]plugin.Provider{
			"team-credential-provider": plugin.ProviderFunc(askAsTeam),
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keyring.Close()

	result, err := keyring.Lookup(context.Background(), regcred.Request{Image: "registry.example/other/app"})
	if err == nil {
		fmt.Println(len(result.Credentials), "credentials: no pattern matches")
	}
	// Output: 0 credentials: no pattern matches
}

func ExamplePattern() {
	pattern, err := match.Parse("*.eu.registry.example/team")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, image := range []string{
		"a.eu.registry.example/team/app",
		"a.eu.registry.example/team-b/app", // paths are matched as plain prefix
		"a.us.registry.example/team/app",
		"eu.registry.example/team/app", // * matches one label
	} {
		fmt.Println(image, pattern.Match(image))
	}
	// Output:
	// a.eu.registry.example/team/app true
	// a.eu.registry.example/team-b/app true
	// a.us.registry.example/team/app false
	// eu.registry.example/team/app false
}

func ExampleExplain() {
	cfg, err := config.Load("testdata/library/credential-providers.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range regcred.Explain(cfg, regcred.Request{Image: "registry.example/other/app:v1"}).Providers {
		fmt.Printf("%s: matched %t: %s: %s\n", p.Name, p.Matched, p.Pattern, p.Reason)
	}
	// Output:
	// team-credential-provider: matched false: registry.example/team: path: "/other/app" does not begin with "/team"
	// tenant-credential-provider: matched false: tenants.example: label 1: "registry" does not match "tenants"
}
