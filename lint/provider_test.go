// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/lint/internal/rules"
	"github.com/regcred/regcred/plugin"
)

// TestLintProvider verifies the findings for single changes to a provider that has no findings.
func TestLintProvider(t *testing.T) {
	const rootFile = "store it in a file that only root can read"
	cache := func(d time.Duration) func(*config.Provider) {
		return func(p *config.Provider) { p.DefaultCacheDuration = &d }
	}
	env := func(vars ...config.EnvVar) func(*config.Provider) { return func(p *config.Provider) { p.Env = vars } }
	args := func(args ...plugin.Secret) func(*config.Provider) { return func(p *config.Provider) { p.Args = args } }
	name := func(s string) func(*config.Provider) { return func(p *config.Provider) { p.Name = s } }
	tokens := func(change func(*config.TokenAttributes)) func(*config.Provider) {
		return func(p *config.Provider) { *p = lintTokens(*p, change) }
	}
	audience := func(s string) func(*config.Provider) {
		return tokens(func(a *config.TokenAttributes) { a.ServiceAccountTokenAudience = s })
	}
	tokenProviderArgs := func(name string, args ...plugin.Secret) func(*config.Provider) {
		return func(p *config.Provider) {
			*p = lintTokens(*p, nil)
			p.Name, p.Args = name, args
		}
	}
	for title, tt := range map[string]struct {
		change func(*config.Provider)
		want   []string
	}{
		"nothing":       {func(*config.Provider) {}, nil},
		"docker helper": {name("docker-credential-ecr-login"), []string{"docker-helper-name name: use the vendor's kubelet plugin"}},
		"exe":           {name("acr-credential-provider.exe"), []string{"exe-suffix name: acr-credential-provider"}},
		"EXE":           {name("acr.EXE"), []string{"exe-suffix name: acr"}},
		"hidden":        {name(".ecr"), []string{"hidden-name name: ecr"}},
		"dot":           {name(".."), nil}, // Validate rejects the name

		"0s":               {cache(0), []string{"zero-cache defaultCacheDuration"}},
		"21.6µs":           {cache(21600), []string{`short-cache defaultCacheDuration: set a duration with a unit, such as "12h"`}},
		"1s":               {cache(time.Second), nil},
		"24h":              {cache(24 * time.Hour), nil},
		"25h":              {cache(25 * time.Hour), []string{"long-cache defaultCacheDuration: 12h"}},
		"no duration":      {func(p *config.Provider) { p.DefaultCacheDuration = nil }, nil},
		"v1beta1":          {func(p *config.Provider) { p.APIVersion = plugin.V1Beta1 }, []string{"old-plugin-version apiVersion: " + plugin.V1}},
		"v1alpha1":         {func(p *config.Provider) { p.APIVersion = plugin.V1Alpha1 }, []string{"old-plugin-version apiVersion: " + plugin.V1}},
		"args":             {args(plugin.NewSecret("get-credentials"), plugin.NewSecret("--v=3"), plugin.NewSecret("-x"), plugin.NewSecret("a b"), plugin.NewSecret("https://x.example/--y"), plugin.NewSecret("-c"), plugin.NewSecret("cat --x")), nil},
		"joined args":      {args(plugin.NewSecret("--v=3 --flag"), plugin.NewSecret("get-credentials --v=3")), []string{"joined-args args[0]: write each argument as a separate item", "joined-args args[1]: write each argument as a separate item"}},
		"secret args":      {args(plugin.NewSecret("--password="+canary.ArgSecret), plugin.NewSecret("-api-key"), plugin.NewSecret(canary.ArgSecret)), []string{"secret-in-args args[0]: " + rootFile, "secret-in-args args[1]: " + rootFile}},
		"no secret args":   {args(plugin.NewSecret("--token-file="+canary.ArgSecret), plugin.NewSecret("--token"), plugin.NewSecret("--x"), plugin.NewSecret("--use-token=true"), plugin.NewSecret("--password=/run/secret"), plugin.NewSecret("token="+canary.ArgSecret)), nil},
		"variable in args": {args(plugin.NewSecret("--x=${HOME}"), plugin.NewSecret("$(HOME)"), plugin.NewSecret("$HOME"), plugin.NewSecret("$$"), plugin.NewSecret("${")), []string{"unexpanded-variable args[0]: set the value", "unexpanded-variable args[1]: set the value", "unexpanded-variable args[2]: set the value"}},

		"env": {env(config.EnvVar{Name: "AWS_PROFILE", Value: plugin.NewSecret(canary.EnvSecret)}, config.EnvVar{Name: "HOME", Value: plugin.NewSecret("/root")}, config.EnvVar{Name: "AWS_WEB_IDENTITY_TOKEN_FILE", Value: plugin.NewSecret(canary.EnvSecret)},
			config.EnvVar{Name: "AWS_ACCESS_KEY_ID", Value: plugin.NewSecret(canary.EnvSecret)}, config.EnvVar{Name: "USE_TOKEN", Value: plugin.NewSecret("true")}, config.EnvVar{Name: "TOKEN", Value: plugin.Secret{}}, config.EnvVar{Name: "KEY", Value: plugin.NewSecret(canary.EnvSecret)}, config.EnvVar{Name: "_", Value: plugin.NewSecret(canary.EnvSecret)}), []string{"empty-variable env[5]"}},
		"env without name": {env(config.EnvVar{Name: "", Value: plugin.NewSecret(canary.EnvSecret)}), []string{"env-name env[0].name: set the name, or remove the entry"}},
		"env name with =":  {env(config.EnvVar{Name: "A=B", Value: plugin.NewSecret(canary.EnvSecret)}), []string{"env-name env[0].name: move the text after the = to value"}},
		"env with NUL":     {env(config.EnvVar{Name: "A", Value: plugin.NewSecret(canary.EnvSecret + "\x00")}), []string{`env-name env[0].name: remove the NUL (\0 in a double-quoted YAML string)`}},
		"env twice":        {env(config.EnvVar{Name: "A", Value: plugin.NewSecret("1")}, config.EnvVar{Name: "B", Value: plugin.NewSecret("2")}, config.EnvVar{Name: "A", Value: plugin.NewSecret("3")}), []string{"duplicate-env env[0]: remove the entry"}},
		"env secrets": {env(config.EnvVar{Name: "AWS_SECRET_ACCESS_KEY", Value: plugin.NewSecret(canary.EnvSecret)}, config.EnvVar{Name: "github_token", Value: plugin.NewSecret(canary.EnvSecret)}, config.EnvVar{Name: "UPSTREAM", Value: plugin.NewSecret("https://u:" + canary.EnvSecret + "@x.example")}),
			[]string{"secret-in-env env[0]: " + rootFile, "secret-in-env env[1]: " + rootFile, "secret-in-env env[2]: " + rootFile}},
		"variable in env": {env(config.EnvVar{Name: "X", Value: plugin.NewSecret(canary.EnvSecret + "${Y}")}), []string{"unexpanded-variable env[0].value: set the value"}},
		"proxy":           {env(config.EnvVar{Name: "HTTP_PROXY", Value: plugin.NewSecret("http://proxy.example:3128")}), []string{"proxied-metadata env[0]: add 169.254.169.254 to NO_PROXY"}},
		"proxy, exempt":   {env(config.EnvVar{Name: "http_proxy", Value: plugin.NewSecret("http://proxy.example:3128")}, config.EnvVar{Name: "no_proxy", Value: plugin.NewSecret("localhost,169.254.169.254")}), nil},
		"proxy for https": {env(config.EnvVar{Name: "HTTPS_PROXY", Value: plugin.NewSecret("http://proxy.example:3128")}), nil},

		"tokens":      {tokens(nil), nil},
		"passthrough": {func(p *config.Provider) { p.Name = "oidc-pass-through"; *p = lintTokens(*p, nil) }, []string{"echoed-token tokenAttributes.cacheType: Token"}},
		"echo in args": {func(p *config.Provider) {
			p.Args = []plugin.Secret{plugin.NewSecret("--mode=echo")}
			*p = lintTokens(*p, nil)
		}, []string{"echoed-token tokenAttributes.cacheType: Token"}},
		"token provider": {tokenProviderArgs("token-credential-provider", plugin.NewSecret("--registry=registry.example")), []string{"echoed-token tokenAttributes.cacheType: Token"}},
		"token provider on Windows": {tokenProviderArgs("token-credential-provider.exe", plugin.NewSecret("--registry"), plugin.NewSecret("registry.example")),
			[]string{"exe-suffix name: token-credential-provider", "echoed-token tokenAttributes.cacheType: Token"}},
		"token provider without flags": {tokenProviderArgs("token-credential-provider"), []string{"echoed-token tokenAttributes.cacheType: Token"}},
		"link to it":                   {tokenProviderArgs("zot-token-credential-provider", plugin.NewSecret("--registry=registry.example")), []string{"echoed-token tokenAttributes.cacheType: Token"}},
		"of another":                   {tokenProviderArgs("zot-token-credential-provider", plugin.NewSecret("--host=registry.example")), nil},
		"exchange by a file":           {tokenProviderArgs("token-credential-provider", plugin.NewSecret("--config=/etc/token-credential-provider/echo.yaml")), nil},
		"exchange by a file, apart":    {tokenProviderArgs("token-credential-provider", plugin.NewSecret("--config"), plugin.NewSecret("/etc/token-credential-provider/quay.yaml")), nil},
		"exchange by flags":            {tokenProviderArgs("token-credential-provider", plugin.NewSecret("--registry=registry.example"), plugin.NewSecret("--exchange-url=https://sts.example")), nil},
		"exchange by name only":        {tokenProviderArgs("token-credential-provider", plugin.NewSecret("--registry=registry.example"), plugin.NewSecret("--username=exchange-url")), []string{"echoed-token tokenAttributes.cacheType: Token"}},
		"pass-through with Token": {func(p *config.Provider) {
			tokenProviderArgs("token-credential-provider", plugin.NewSecret("--registry=registry.example"))(p)
			p.TokenAttributes.CacheType = config.CachePerToken
		}, nil},
		"not an echo": {func(p *config.Provider) { p.Name = "gecho"; *p = lintTokens(*p, nil) }, nil},
		"echo with Token": {func(p *config.Provider) {
			p.Name = "echo"
			*p = lintTokens(*p, func(a *config.TokenAttributes) { a.CacheType = config.CachePerToken })
		}, nil},
		"API audience":         {audience("https://kubernetes.default.svc.cluster.local"), []string{"api-server-audience tokenAttributes.serviceAccountTokenAudience: set an audience specific to the registry"}},
		"API audience 2":       {audience("kubernetes.default.svc"), []string{"api-server-audience tokenAttributes.serviceAccountTokenAudience: set an audience specific to the registry"}},
		"audience in a shell":  {audience("${AUD}"), []string{"unfilled tokenAttributes.serviceAccountTokenAudience: replace ${AUD} with its value"}},
		"audience in Helm":     {audience("https://{{ .Values.host }}"), []string{"unfilled tokenAttributes.serviceAccountTokenAudience: replace {{ .Values.host }} with its value"}},
		"the guide's audience": {audience("<audience for the token>"), []string{"unfilled tokenAttributes.serviceAccountTokenAudience: replace <audience for the token> with its value"}},
		"changeme audience":    {audience("CHANGEME"), []string{"unfilled tokenAttributes.serviceAccountTokenAudience: replace CHANGEME with its value"}},
		"annotation key in a shell": {tokens(func(a *config.TokenAttributes) {
			a.OptionalServiceAccountAnnotationKeys = []string{"registry.example/role", "${DOMAIN}/role"}
		}), []string{"unfilled tokenAttributes.optionalServiceAccountAnnotationKeys[1]: replace ${DOMAIN} with its value"}},
		"name in a shell":         {func(p *config.Provider) { p.Name = "${PLUGIN}" }, []string{"unfilled name: replace ${PLUGIN} with its value"}},
		"placeholders of a cloud": {cloudPlugin("ecr-credential-provider", []string{"<account>.dkr.ecr.<region>.amazonaws.com"}), []string{"unfilled matchImages[0]: replace <account> and <region> with their values"}},
		"STS audience":            {audience("sts.amazonaws.com"), nil},
		"required annotation": {tokens(func(a *config.TokenAttributes) {
			a.RequiredServiceAccountAnnotationKeys = []string{"registry.example/role"}
		}),
			[]string{"required-annotation tokenAttributes.requiredServiceAccountAnnotationKeys"}},
		"hosts of strangers": {cloudPlugin("ecr-credential-provider", []string{"public.ecr.aws", "*.*.ecr.*.amazonaws.com", "registry.example"}),
			[]string{"other-hosts matchImages[1]: list the exact hosts, or pass regcred's plugin --other-hosts=empty"}},
		"on purpose": {cloudPlugin("auth-provider-gcp", []string{"*.*.pkg.dev"}, "--other-hosts=empty"), []string{"no-such-registry matchImages[0]: *-docker.pkg.dev"}},
		"any host":   {cloudPlugin("auth-provider-gcp", []string{"*.*.pkg.dev"}, "--any-host"), []string{"no-such-registry matchImages[0]: *-docker.pkg.dev"}},
		"a mirror": {cloudPlugin("ecr-credential-provider", []string{"public.ecr.aws", "docker.io"}, "--mirror", "docker.io=111122223333.dkr.ecr.us-west-2.amazonaws.com", "--mirror=public.ecr.aws/x=111122223333.dkr.ecr.us-west-2.amazonaws.com"),
			[]string{mirrorOrigin + "args[0]: " + mirrorCure}},
		"a mirror that may be shown": {cloudPlugin("auth-provider-gcp", []string{"docker.io/team/"}, "--mirror-origin=trusted", "--mirror=docker.io=europe-docker.pkg.dev/p/r"),
			[]string{mirrorOrigin + "args[1]: " + mirrorCure}},
		"a mirror alone": {cloudPlugin("auth-provider-gcp", []string{"*.io"}, "--mirror-origin=none", "--mirror=quay.io=europe-docker.pkg.dev/p/r", "--other-hosts=empty"), []string{"open-domain matchImages[0]"}},
		"a mirror unheard of": {cloudPlugin("auth-provider-gcp", []string{"docker.io/team/", "quay.io:8443"}, "--mirror-origin=none", "--mirror=quay.io=europe-docker.pkg.dev/p/r", "--mirror=docker.io/library=europe-docker.pkg.dev/p/r"),
			[]string{"mirror-not-asked args[1]: add the mirrored registry to matchImages", "mirror-not-asked args[2]: add the mirrored registry to matchImages", "no-such-registry matchImages[1]: quay.io"}},
		"AKS without a way out": {cloudPlugin("acr-credential-provider", []string{"*.azurecr.io", "mcr.microsoft.com"}, "/etc/kubernetes/azure.json", "--registry-mirror=mcr.microsoft.com:boot.azurecr.io"), nil},
		"Azure's map":           {cloudPlugin("acr-credential-provider", []string{"*.azurecr.io", "docker.io"}, "-r", "mcr.microsoft.com/x:a.azurecr.io, docker.io:boot.azurecr.io"), []string{mirrorOrigin + "args[0]: " + mirrorCure, "mirror-not-asked args[0]: add the mirrored registry to matchImages"}},
		"another's mirror":      {cloudPlugin("my-plugin", []string{"docker.io"}, "--mirror=quay.io=x.example"), nil},
		"optional annotation": {tokens(func(a *config.TokenAttributes) {
			a.OptionalServiceAccountAnnotationKeys = []string{"registry.example/role"}
		}), nil},

		"duplicate": {func(p *config.Provider) { p.MatchImages = []string{"a.example.com", "b.example.com", "a.example.com"} },
			[]string{"duplicate-pattern matchImages[2]: remove the duplicate"}},
		"shadowed": {func(p *config.Provider) {
			p.MatchImages = []string{"a.example.com/team/", "*.example.com", "a*.example.com", "b.example.com:5000"}
		},
			[]string{"shadowed-pattern matchImages[0]: remove the pattern", "shadowed-pattern matchImages[2]: remove the pattern"}},
		"mutually": {func(p *config.Provider) { p.MatchImages = []string{"a.example.com", "a.example.com:"} },
			[]string{"shadowed-pattern matchImages[1]: remove the pattern", "empty-port matchImages[1]: a.example.com"}},
	} {
		t.Run(title, func(t *testing.T) {
			p := lintProvider("example-plugin", "registry.example.com")
			tt.change(&p)
			got := briefFindings(Check(&config.Config{Providers: []config.Provider{p}}))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLintOverlap(t *testing.T) {
	for title, tt := range map[string]struct {
		first, second []string
		want          string // with the message
	}{
		"none":        {[]string{"a.example.com", "*.a.example.com", "x.example.com:5000"}, []string{"b.example.com", "x.example.com", "*.b.example.com"}, ""},
		"other paths": {[]string{"a.example.com/x"}, []string{"a.example.com/y"}, "sibling"},
		"glob": {[]string{"b.example.com", "*.dkr.ecr.*.amazonaws.com"}, []string{"a.example.com", "111122223333.dkr.ecr.*.amazonaws.com"},
			`overlapping-providers matchImages[1] "111122223333.dkr.ecr.*.amazonaws.com" also matches 111122223333.dkr.ecr.a.amazonaws.com/app, as does "*.dkr.ecr.*.amazonaws.com" from provider "one": both plugins run, and credentials from "one" are tried first for the same auth key`},
		"path": {[]string{"a.example.com"}, []string{"*.example.com/team/"},
			`overlapping-providers matchImages[0] "*.example.com/team/" also matches a.example.com/team/app, as does "a.example.com" from provider "one": both plugins run, and credentials from "one" are tried first for the same auth key`},
		"Docker Hub": {[]string{"docker.io/app"}, []string{"docker.io"},
			`overlapping-providers matchImages[0] "docker.io" also matches docker.io/app/app, as does "docker.io/app" from provider "one": both plugins run, and credentials from "one" are tried first for the same auth key`},
		"same": {[]string{"a.example.com"}, []string{"b.example.com", "a.example.com"},
			`shared-pattern matchImages[1] provider "one" also has the pattern "a.example.com": both plugins run for its images, and credentials from "one" are tried first for the same auth key`},
		"same and another": {[]string{"a.example.com", "*.example.net"}, []string{"a.example.com", "x.example.net"},
			`overlapping-providers matchImages[1] "x.example.net" also matches x.example.net/app, as does "*.example.net" from provider "one": both plugins run, and credentials from "one" are tried first for the same auth key`},
	} {
		t.Run(title, func(t *testing.T) {
			c := &config.Config{Providers: []config.Provider{lintProvider("one", tt.first...), lintProvider("two", tt.second...)}}
			var got []string
			for _, f := range Check(c) {
				if caseName(f) != "sibling-path" {
					got = append(got, caseName(f)+" "+f.Path[len("providers[1]."):]+" "+f.Message)
				}
			}
			var want []string
			if tt.want != "" && tt.want != "sibling" {
				want = []string{tt.want}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLintOverlapIsBounded(t *testing.T) {
	different, same := &config.Config{}, &config.Config{}
	for i := range 40 {
		name := fmt.Sprint("p", i)
		different.Providers = append(different.Providers, lintProvider(name, "r"+strings.Repeat("*", i+1)+".example.com"))
		same.Providers = append(same.Providers, lintProvider(name, "shared.example.com"))
	}
	for rule, want := range map[string]int{"overlapping-providers": rules.MaxResults + 1, "shared-pattern": 39} {
		got := 0
		for _, f := range append(Check(different), Check(same)...) {
			if caseName(f) == rule {
				got++
			}
		}
		if got != want {
			t.Errorf("%d findings of %s, want %d", got, rule, want)
		}
	}
	findings := Check(different)
	last := ""
	for _, f := range findings {
		if caseName(f) == "overlapping-providers" {
			last = f.Message
		}
	}
	if want := fmt.Sprintf("%d more findings for this rule; fix the ones above first", 10*40-55-rules.MaxResults); last != want {
		t.Errorf("got %q, want %q", last, want)
	}
}

// TestLintFindingsAreBounded verifies the limits on findings per provider, per pattern and in total, and that omitted
// findings are counted.
func TestLintFindingsAreBounded(t *testing.T) {
	c := &config.Config{}
	for i := range 3 {
		p := lintProvider(fmt.Sprint("p", i))
		p.DefaultCacheDuration = new(time.Duration(1)) // cache-duration
		p.MatchImages = nil
		for k := range 70 {
			p.MatchImages = append(p.MatchImages, fmt.Sprintf("r%d-%d.example/x*", i, k)) // unmatchable-pattern
		}
		for range 150 {
			p.Args = append(p.Args, plugin.NewSecret("${A}")) // literal-value
		}
		c.Providers = append(c.Providers, p)
	}
	got := map[string]int{}
	for _, f := range Check(c) {
		got[f.Rule]++
		var more int
		if n, _ := fmt.Sscanf(f.Message, "%d more findings for this rule", &more); n == 1 {
			got[f.Rule] += more - 1
		}
	}
	want := map[string]int{"cache-duration": 3, "unmatchable-pattern": 3 * 70, "literal-value": 3 * 150}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if n := len(Check(c)); n != 3+2*(rules.MaxResults+1) {
		t.Errorf("%d findings", n)
	}
}

func BenchmarkLint(b *testing.B) {
	c := &config.Config{}
	for i := range 1000 {
		p := lintProvider(fmt.Sprint("p", i))
		for k := range 10 {
			p.MatchImages = append(p.MatchImages, fmt.Sprintf("*.r%d.p%d.example.com", k, i))
		}
		c.Providers = append(c.Providers, p)
	}
	for b.Loop() {
		if fs := Check(c); len(fs) > 0 {
			b.Fatal(fs[0])
		}
	}
}

const (
	mirrorOrigin = "mirror-origin "
	mirrorCure   = "set server in hosts.toml to the mirror, and pass --mirror-origin=none"
)

// cloudPlugin returns a function that sets a provider's name, patterns and arguments.
func cloudPlugin(name string, patterns []string, arguments ...string) func(*config.Provider) {
	return func(p *config.Provider) {
		p.Name, p.MatchImages, p.Args = name, patterns, nil
		for _, a := range arguments {
			p.Args = append(p.Args, plugin.NewSecret(a))
		}
	}
}
