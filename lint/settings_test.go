// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// TestSettings verifies the findings for values that were written for a shell or a template, or
// that an editor changed. Each value is tested as an argument and as an environment variable.
func TestSettings(t *testing.T) {
	const c = canary.ArgSecret
	for name, tt := range map[string]struct {
		text string
		want string // rule
	}{
		"PATH":               {"/opt/" + c + ":$PATH", "unexpanded-variable"},
		"PATH first":         {"$PATH:/opt/" + c, "unexpanded-variable"},
		"HOME":               {"$HOME/" + c, "unexpanded-variable"},
		"alone":              {"$TOKEN", "unexpanded-variable"},
		"braces":             {c + "${X}", "unexpanded-variable"},
		"with a default":     {"${REGION:-" + c + "}", "unexpanded-variable"},
		"Kubernetes":         {"$(NODE_NAME)", "unexpanded-variable"},
		"Windows":            {`%ProgramData%\` + c, "unexpanded-variable"},
		"PowerShell":         {"$env:USERPROFILE/" + c, "unexpanded-variable"},
		"a password":         {c + "$ABC", ""},
		"a hash":             {"$2y$10$" + c, ""},
		"percent":            {"%E4%BD%A0%" + c, ""},
		"a date":             {"%Y%m%d", ""},
		"backticks":          {"`cat " + c + "`", "unexpanded-command"},
		"substitution":       {"$(cat /etc/" + c + ")", "unexpanded-command"},
		"one backtick":       {"`" + c, ""},
		"home":               {"~/" + c, "unexpanded-home"},
		"home alone":         {"~", "unexpanded-home"},
		"home of another":    {"~app/" + c, "unexpanded-home"},
		"home in a list":     {"/opt:~/" + c, "unexpanded-home"},
		"tilde inside":       {c + "~1", ""},
		"Helm":               {"{{ .Values.region }}", "placeholder"},
		"angles":             {"<your region>", "placeholder"},
		"change me":          {"CHANGEME", "placeholder"},
		"XML":                {"<a>" + c + "</a>", ""},
		"quotes":             {`"` + c + `"`, "literal-quotes"},
		"single quotes":      {"'" + c + "'", "literal-quotes"},
		"curly quotes":       {"“" + c + "”", "literal-quotes"},
		"two in quotes":      {`"a" "` + c + `"`, ""},
		"one quote":          {`"` + c, ""},
		"blank at the end":   {c + " ", "outer-blanks"},
		"blank at the begin": {"\t" + c, "outer-blanks"},
		"line end":           {c + "\n", "outer-blanks"},
		"carriage return":    {c + "\r", "outer-blanks"},
		"no-break space":     {c + "\u00a0", "outer-blanks"},
		"nothing special":    {c, ""},
		"a list":             {"a=1,b=" + c, ""},
		"JSON":               {`{"a":"` + c + `"}`, ""},
		"a URL":              {"https://sts.example/~x?a=$1&b=%20" + c, ""},
		"Windows path":       {`C:\ProgramData\` + c, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := lintProvider("example-plugin", "registry.example.com")
			p.Args = []plugin.Secret{plugin.NewSecret("get-credentials"), plugin.NewSecret(tt.text), plugin.NewSecret("-c"), plugin.NewSecret(tt.text)}
			p.Env = []config.EnvVar{{Name: "SOME", Value: plugin.NewSecret(tt.text)}}
			var want []string
			if tt.want != "" {
				want = []string{tt.want + " args[1]", tt.want + " env[0].value"}
			}
			var got []string
			for _, f := range Check(&config.Config{Providers: []config.Provider{p}}) {
				got = append(got, caseName(f)+" "+strings.TrimPrefix(f.Path, "providers[0]."))
				canary.AssertAbsent(t, "finding", f.String()+f.Fix)
				if f.Fix == "" {
					t.Errorf("%s has no cure", caseName(f))
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNamedVariable(t *testing.T) {
	p := lintProvider("example-plugin", "registry.example.com")
	p.Env = []config.EnvVar{{Name: "OWN", Value: plugin.NewSecret("x")}}
	p.Args = []plugin.Secret{plugin.NewSecret("$HOME/x"), plugin.NewSecret("$(OWN)"), plugin.NewSecret("$HUNTER2"), plugin.NewSecret("%programdata%")}
	var got []string
	for _, f := range Check(&config.Config{Providers: []config.Provider{p}}) {
		got = append(got, f.Message)
	}
	want := []string{"no shell expands the variable HOME in this argument", "no shell expands the variable OWN in this argument",
		"no shell expands the variable in this argument", "no shell expands the variable programdata in this argument"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestArguments(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want []string
	}{
		"flag and value in one":  {[]string{"--region us-west-2"}, []string{"joined-args args[0]"}},
		"with a tab":             {[]string{"--region\tus-west-2"}, []string{"joined-args args[0]"}},
		"a value with blanks":    {[]string{"--message=two words", "--message", "two words", "two words"}, nil},
		"two flags":              {[]string{"get --v=3"}, []string{"joined-args args[0]"}},
		"a script":               {[]string{"-c", "cat --x"}, nil},
		"a switch and its value": {[]string{"--debug", "true"}, []string{"split-flag args[1]"}},
		"a switch":               {[]string{"--debug=true", "--other", "yes", "true"}, nil},
		"an empty one":           {[]string{"get", "", " "}, []string{"empty-argument args[1]", "empty-argument args[2]"}},
		"an empty value":         {[]string{"--profile", ""}, nil},
	} {
		p := lintProvider("example-plugin", "registry.example.com")
		for _, a := range tt.args {
			p.Args = append(p.Args, plugin.NewSecret(a))
		}
		var got []string
		for _, f := range Check(&config.Config{Providers: []config.Provider{p}}) {
			got = append(got, caseName(f)+" "+strings.TrimPrefix(f.Path, "providers[0]."))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestVariables(t *testing.T) {
	for name, tt := range map[string]struct {
		name, value string
		want        []string
	}{
		"empty":              {"AWS_PROFILE", "", []string{"empty-variable env[0]"}},
		"no proxy":           {"https_proxy", "", nil},
		"blank in the name":  {"PATH ", "/bin", []string{"env-name env[0].name"}},
		"export":             {"export A", "x", []string{"env-name env[0].name"}},
		"dollar":             {"$HOME", "/root", []string{"env-name env[0].name"}},
		"quoted":             {`"A"`, "x", []string{"env-name env[0].name"}},
		"PATH":               {"PATH", "/opt/bin", []string{"replaced-path env[0].value"}},
		"whole PATH":         {"PATH", "/opt/bin:/usr/bin", nil},
		"PATH of Windows":    {"PATH", `C:\x`, nil},
		"a profile":          {"AWS_PROFILE", "dev", []string{"no-home env[0]"}},
		"gcloud":             {"CLOUDSDK_ACTIVE_CONFIG_NAME", "dev", []string{"no-home env[0]"}},
		"ProgramFiles (x86)": {"ProgramFiles(x86)", "x", nil},
	} {
		p := lintProvider("example-plugin", "registry.example.com")
		p.Env = []config.EnvVar{{Name: tt.name, Value: plugin.NewSecret(tt.value)}}
		var got []string
		for _, f := range Check(&config.Config{Providers: []config.Provider{p}}) {
			got = append(got, caseName(f)+" "+strings.TrimPrefix(f.Path, "providers[0]."))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestMissingPath(t *testing.T) {
	dir := t.TempDir()
	here, gone, far := filepath.Join(dir, "here"), filepath.Join(dir, canary.ArgSecret), filepath.Join(dir, canary.ArgSecret, canary.ArgSecret)
	must.Do(t, os.WriteFile(here, []byte("x"), 0o600))
	p := lintProvider("here", "registry.example.com")
	for _, a := range []string{here, gone, "--config=" + far, "--config", gone, "--log-file=" + gone, "--api-path=" + gone, "--host=" + gone, "--config=" + here, "get", "--ca-file=file://" + gone} {
		p.Args = append(p.Args, plugin.NewSecret(a))
	}
	empty := filepath.Join(dir, "azure.json")
	must.Do(t, os.WriteFile(empty, nil, 0o600))
	p.Args = append(p.Args, plugin.NewSecret(empty), plugin.NewSecret(filepath.Join(dir, canary.ArgSecret, "token")))
	p.Env = []config.EnvVar{{Name: "AWS_CONFIG_FILE", Value: plugin.NewSecret(gone)}, {Name: "HOME", Value: plugin.NewSecret(dir)}, {Name: "SOME", Value: plugin.NewSecret(gone)}}
	var got []string
	for _, f := range BinDir(&config.Config{Providers: []config.Provider{p}}, dir) {
		if caseName(f) == "missing-path" || caseName(f) == "empty-file" {
			got = append(got, strings.TrimPrefix(f.Path, "providers[0].")+": "+f.Message)
			canary.AssertAbsent(t, "finding", f.String()+f.Fix)
		}
	}
	const is, near = " is a path that does not exist on this machine (its directory ", "exists)"
	want := []string{"args[1]: this argument" + is + near, "args[2]: this argument" + is + "is also missing)", "args[4]: this argument" + is + near,
		"args[10]: this argument" + is + near,
		"args[12]: this argument is a path that does not exist on this machine (its directory is also missing; it ends in token)", `env[0].value: the value of "AWS_CONFIG_FILE"` + is + near,
		"args[11]: this argument points to an empty file on this machine (it ends in azure.json)"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestMissingPathQuiet verifies that missing optional files are not reported.
func TestMissingPathQuiet(t *testing.T) {
	dir := t.TempDir()
	p := lintProvider("here", "registry.example.com")
	for _, a := range []string{
		"/dev/stdin", "/proc/1/root/none", "/sys/none", "/run/none.sock", "--socket=" + dir + "/none", "--unix-file=" + dir + "/none", "--pid-file=" + dir + "/none",
		"--cache-dir=" + dir + "/none", "--dir=" + dir + "/none", "--mount-path=/auth/jwt", "--token-path=/v1/token", "--lock-file=" + dir + "/none",
		"--record-file=" + dir + "/none", "--cert-dirs=" + dir + "/none:" + dir + "/neither", "/v2/", "/team/app", "/", "/regexp", `C:\none\azure.json`, "@/none.json",
	} {
		p.Args = append(p.Args, plugin.NewSecret(a))
	}
	for name, value := range map[string]string{
		"HOME": dir + "/none", "XDG_CONFIG_HOME": dir + "/none", "TMPDIR": dir + "/none", "SSL_CERT_DIR": dir + "/none:" + dir, "AWS_CONFIG_FILE": "/dev/null",
		"VAULT_PATH": "/secret/x", "AWS_SECRET_ACCESS_KEY": "/ab+cd/ef",
	} {
		p.Env = append(p.Env, config.EnvVar{Name: name, Value: plugin.NewSecret(value)})
	}
	for _, f := range BinDir(&config.Config{Providers: []config.Provider{p}}, dir) {
		if caseName(f) == "missing-path" || caseName(f) == "empty-file" {
			t.Errorf("%s: %s", f.Path, f.Message)
		}
	}
	for _, flag := range []string{"--tls-private-key", "--kubeconfig", "--ca-bundle"} {
		p.Args = []plugin.Secret{plugin.NewSecret(flag + "=" + dir + "/none.pem")}
		if fs := BinDir(&config.Config{Providers: []config.Provider{p}}, dir); !slices.ContainsFunc(fs, func(f finding.Finding) bool { return caseName(f) == "missing-path" }) {
			t.Errorf("%s: nothing is reported", flag)
		}
	}
}
