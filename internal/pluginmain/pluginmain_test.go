// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pluginmain

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"unicode"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/plugin"
)

// TestArguments verifies that New is called, and that an unused argument is rejected.
func TestArguments(t *testing.T) {
	const reached = "prog: reached\n"
	for name, tt := range map[string]struct {
		takes, args, want string
	}{
		"none":                    {"", "", reached},
		"of the field":            {"", "get-credentials --switch -v=3", reached},
		"switch with a value":     {"", "--switch false", "prog: unexpected argument \"false\"; to turn off a boolean flag, use --name=false; --help lists the flags\n"},
		"behind --":               {"", "-- --switch", "prog: unexpected argument \"--switch\"; to turn off a boolean flag, use --name=false; --help lists the flags\n"},
		"a program that has some": {"FILE", "a b", reached},
		"klog":                    {"", "--logtostderr --vmodule=x=2 --vmodule x=2 --stderrthreshold 2 --v 3 -v 3 --v=3", reached},
		"unknown flag":            {"", "--none", "prog: unknown flag: --none; --help lists the flags\n"},
		"verbosity":               {"", "--v=high", "prog: invalid argument \"[redacted]\" for \"-v, --v\" flag: strconv.ParseInt: parsing \"[redacted]\": invalid syntax; --help lists the flags\n"},
	} {
		t.Run(name, func(t *testing.T) {
			flags := NewFlagSet()
			flags.Bool("switch", false, "a switch")
			AddIgnoredKlogFlags(flags)
			p := Program{Name: "prog", Args: tt.takes, Flags: flags, New: func(Input) (plugin.Provider, error) { return nil, errors.New("reached") }}
			var stdout, stderr strings.Builder
			code := p.Run(context.Background(), strings.Fields(tt.args), strings.NewReader(""), &stdout, &stderr, func(string) string { return "" })
			if code != 1 || stdout.String() != "" || stderr.String() != tt.want {
				t.Errorf("exit %d, stdout %q, stderr %q, want %q", code, stdout.String(), stderr.String(), tt.want)
			}
		})
	}
}

// TestErrorsAreHarmless verifies that an error is one line, without terminal control
// sequences and without arguments, which may be secrets.
func TestErrorsAreHarmless(t *testing.T) {
	for name, args := range map[string][]string{
		"argument":         {canary.ArgSecret},
		"value":            {"--v=" + canary.ArgSecret},
		"value behind":     {"--v", canary.ArgSecret},
		"shorthand":        {"-v" + canary.ArgSecret},
		"unknown":          {"--none=" + canary.ArgSecret},
		"unknown, short":   {"-x" + canary.ArgSecret},
		"syntax":           {"---" + "=" + canary.ArgSecret},
		"control sequence": {"a\x1b[2J\n\u202eb\u009b"},
		"from New":         nil,
	} {
		p := Program{Name: "prog", Flags: NewFlagSet(), New: func(Input) (plugin.Provider, error) { return nil, errors.New("a\x1b[2J\nb\u009b\u202e\xff") }}
		var out strings.Builder
		if code := p.Run(context.Background(), args, strings.NewReader(""), &out, &out, func(string) string { return "" }); code != 1 {
			t.Errorf("%s: exit %d", name, code)
		}
		got := out.String()
		canary.AssertAbsent(t, name, got)
		if line, rest, _ := strings.Cut(got, "\n"); rest != "" || len(line) < 10 || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: got %q, want one printable line", name, got)
		}
	}
}

// TestOutOfTree verifies that get-credentials selects the out-of-tree protocol if it is
// the first positional argument, and changes nothing else.
func TestOutOfTree(t *testing.T) {
	const (
		alone  = `{"image":"registry.example/a"}`
		todays = `{"kind":"CredentialProviderRequest","apiVersion":"` + plugin.V1 + `","image":"registry.example/a"}`

		refused = "prog: invalid CredentialProviderRequest: kind: must be CredentialProviderRequest\n"
		old     = `{"kind":"RegistryCredentialPluginResponse","apiVersion":"v1alpha1","username":"u","password":"open-sesame"}` + "\n"
		today   = `{"kind":"CredentialProviderResponse","apiVersion":"` + plugin.V1 + `","cacheKeyType":"Image","auth":{"registry.example":{"username":"u","password":"open-sesame"}}}` + "\n"
	)
	for name, tt := range map[string]struct{ takes, args, stdin, want string }{
		"the argument":                 {"", "get-credentials", alone, old},
		"flags before":                 {"", "--switch -v 0 get-credentials", alone, old},
		"flags after":                  {"", "get-credentials --switch", alone, old},
		"an argument after":            {"[get-credentials] FILE", "get-credentials --switch file", alone, old},
		"behind --":                    {"", "--switch -- get-credentials", alone, old},
		"no argument":                  {"", "--switch", alone, refused},
		"an argument before":           {"FILE", "file get-credentials", alone, refused},
		"a flag's value":               {"", "--vmodule get-credentials", alone, refused},
		"the argument, today's":        {"", "get-credentials --switch", todays, today},
		"no argument, today's":         {"", "--switch", todays, today},
		"a version behind --, today's": {"FILE", "-- --version", todays, today},
	} {
		t.Run(name, func(t *testing.T) {
			flags := NewFlagSet()
			flags.Bool("switch", false, "a switch")
			AddIgnoredKlogFlags(flags)
			p := Program{Name: "prog", Args: tt.takes, Flags: flags, New: func(Input) (plugin.Provider, error) { return provider{}, nil }}
			var out strings.Builder
			p.Run(context.Background(), strings.Fields(tt.args), strings.NewReader(tt.stdin), &out, &out, func(string) string { return "" })
			if out.String() != tt.want {
				t.Errorf("got %s, want %s", out.String(), tt.want)
			}
		})
	}
}

type provider struct{}

func (provider) GetCredentials(context.Context, *plugin.Request) (*plugin.Response, error) {
	auth := map[string]plugin.AuthConfig{"registry.example": {Username: "u", Password: plugin.NewSecret("open-sesame")}}
	return &plugin.Response{CacheKeyType: plugin.CacheImage, Auth: auth}, nil
}

func TestLogger(t *testing.T) {
	for name, tt := range map[string]struct {
		verbosity int
		log       func(*slog.Logger)
		want      string // part of the output; "" for none
	}{
		"warning": {0, func(l *slog.Logger) { l.Warn("no answer", "host", "a.example", "n", 2) },
			"plug: no answer: host=\"a.example\", n=\"2\"\n"},
		"warning without attributes": {1, func(l *slog.Logger) { l.Warn("no answer") }, "plug: no answer\n"},
		"warning on one line": {0, func(l *slog.Logger) { l.Warn("no answer", "host", "a\nb") },
			"plug: no answer: host=\"a\\nb\"\n"},
		"warning with bound attributes": {0, func(l *slog.Logger) { l.With("host", "a").WithGroup("g").Warn("no answer", "n", 2) },
			"plug: no answer: host=\"a\", n=\"2\"\n"},
		"warning at 4":     {4, func(l *slog.Logger) { l.Warn("no answer") }, "plug: no answer\n"},
		"error":            {0, func(l *slog.Logger) { l.Error("broken") }, "plug: broken\n"},
		"step at 0":        {0, func(l *slog.Logger) { l.Info("step") }, ""},
		"step at 1":        {1, func(l *slog.Logger) { l.Info("step") }, ""},
		"step at 2":        {2, func(l *slog.Logger) { l.With("host", "a").Info("step") }, "level=INFO msg=step host=a\n"},
		"step in a group":  {2, func(l *slog.Logger) { l.WithGroup("g").Info("step", "n", 2) }, "msg=step g.n=2\n"},
		"detail at 2":      {2, func(l *slog.Logger) { l.Debug("detail") }, ""},
		"detail at 4":      {4, func(l *slog.Logger) { l.Debug("detail") }, "level=DEBUG msg=detail\n"},
		"secret of a type": {0, func(l *slog.Logger) { l.Warn("no", "v", maskedFlag{}) }, "plug: no: v=\"masked\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			tt.log(newLogger(&out, "plug", tt.verbosity))
			if got := out.String(); tt.want == "" && got != "" || !strings.HasSuffix(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// maskedFlag is a log value that is printed as "masked".
type maskedFlag struct{}

func (maskedFlag) LogValue() slog.Value { return slog.StringValue("masked") }
