// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package dockerconfig_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/provider/dockerconfig"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// TestMain runs the test binary as a credential helper if it was started under a helper's name.
func TestMain(m *testing.M) {
	name, ok := strings.CutPrefix(filepath.Base(os.Args[0]), "docker-credential-")
	if !ok {
		os.Exit(m.Run())
	}
	switch name {
	case "good":
		fmt.Println(`{"Username":"of-helper","Secret":"` + canary.PasswordSecret + `"}`)
	case "identity":
		fmt.Println(`{"Username":"<token>","Secret":"` + canary.TokenSecret + `"}`)
	case "none":
		fmt.Println("credentials not found in native keychain")
		os.Exit(1)
	case "failing":
		fmt.Println("the key ring is locked, " + canary.PasswordSecret)
		os.Exit(1)
	}
}

// writeConfig writes a config.json and returns its path.
func writeConfig(t testing.TB, data string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	must.Do(t, os.WriteFile(path, []byte(data), 0o600))
	return path
}

// writeConfigAndHelpers writes a config.json and creates credential helpers. It returns the path of the file and
// the helpers' directory.
func writeConfigAndHelpers(t *testing.T, data string) (path, helpers string) {
	t.Helper()
	t.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise the race detector sleeps for a second at exit
	path = writeConfig(t, data)
	dir := filepath.Dir(path)
	self := must.Get(os.Executable())(t)
	for _, name := range []string{"good", "identity", "none", "failing"} {
		must.Do(t, os.Symlink(self, filepath.Join(dir, "docker-credential-"+name)))
	}
	return path, dir
}

func authEntry(user string) string {
	return `{"auth":"` + base64.StdEncoding.EncodeToString([]byte(user+":"+canary.PasswordSecret)) + `"}`
}

func getCredentials(t testing.TB, opts dockerconfig.Options, image string) (*plugin.Response, error) {
	t.Helper()
	p, err := dockerconfig.New(opts)
	if err != nil {
		return nil, err
	}
	return p.GetCredentials(t.Context(), &plugin.Request{Image: image})
}

func TestGetCredentials(t *testing.T) {
	const (
		all   = plugin.CacheRegistry
		one   = plugin.CacheImage
		token = `{"identitytoken":"` + canary.TokenSecret + `"}`
	)
	tests := []struct {
		name, file, image string
		want              map[string]string // user name of each key
		scope             plugin.CacheKeyType
	}{
		{"host", `{"auths":{"r.io":` + authEntry("u") + `,"s.io":` + authEntry("v") + `}}`, "r.io/team/app", map[string]string{"r.io": "u"}, all},
		{"URL", `{"auths":{"https://r.io:5000/v2/":` + authEntry("u") + `}}`, "r.io:5000/app", map[string]string{"r.io:5000": "u"}, all},
		{"hub", `{"auths":{"https://index.docker.io/v1/":` + authEntry("u") + `}}`, "docker.io/library/nginx", map[string]string{"docker.io": "u"}, all},
		{"not there", `{"auths":{"r.io":` + authEntry("u") + `}}`, "s.io/app", nil, all},
		{"paths", `{"auths":{"r.io":` + authEntry("u") + `,"r.io/team":` + authEntry("v") + `}}`, "r.io/team/app", map[string]string{"r.io/team": "v", "r.io": "u"}, one},
		{"another path", `{"auths":{"r.io":` + authEntry("u") + `,"r.io/team":` + authEntry("v") + `}}`, "r.io/team-b/app", map[string]string{"r.io": "u"}, one},
		{"paths alone", `{"auths":{"r.io/team":` + authEntry("v") + `}}`, "r.io/app", nil, one},
		{"paths of another registry", `{"auths":{"r.io":` + authEntry("u") + `,"s.io/team":` + authEntry("v") + `}}`, "r.io/app", map[string]string{"r.io": "u"}, all},
		{"namespace v2", `{"auths":{"r.io/v2/team":` + authEntry("v") + `}}`, "r.io/v2/team/app", map[string]string{"r.io": "v"}, one},
		{"pattern", `{"auths":{"*.r.io":` + authEntry("u") + `}}`, "a.r.io/app", map[string]string{"*.r.io": "u"}, all},
		{"open pattern", `{"auths":{"*.github.io":` + authEntry("v") + `,"a.github.io":` + authEntry("u") + `}}`, "a.github.io/app", map[string]string{"a.github.io": "u"}, all},
		{"pattern in a domain", `{"auths":{"*.r.github.io":` + authEntry("u") + `}}`, "a.r.github.io/app", map[string]string{"*.r.github.io": "u"}, all},
		{"two keys for a host", `{"auths":{"https://r.io":` + authEntry("v") + `,"r.io":` + authEntry("u") + `}}`, "r.io/app", map[string]string{"r.io": "u"}, all},
		{"legacy", `{"r.io":` + authEntry("u") + `}`, "r.io/app", map[string]string{"r.io": "u"}, all},
		{"token beside a login", `{"auths":{"r.io/team":` + token + `,"r.io":` + authEntry("u") + `}}`, "r.io/team/app", map[string]string{"r.io": "u"}, one},
		{"login and token in one", `{"auths":{"r.io":{"username":"u","password":"` + canary.PasswordSecret + `","identitytoken":"` + canary.TokenSecret + `"}}}`, "r.io/app", map[string]string{"r.io": "u"}, all},
		{"helper", `{"credHelpers":{"r.io":"good"},"auths":{"r.io":` + authEntry("u") + `,"r.io/team":` + authEntry("v") + `}}`, "r.io/team/app", map[string]string{"r.io": "of-helper"}, all},
		{"store", `{"credsStore":"good"}`, "docker.io/library/nginx", map[string]string{"docker.io": "of-helper"}, all},
		{"helper has none", `{"credsStore":"none","auths":{"r.io":` + authEntry("u") + `}}`, "r.io/app", nil, all},
		{"by hand", `{"auths":{"r.io:5000/team/app":` + authEntry("v") + `}}`, "https://r.io:5000/team/app:1@sha256:0", map[string]string{"r.io:5000/team/app": "v"}, one},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path, dir := writeConfigAndHelpers(t, tt.file)
			resp := must.Get(getCredentials(t, dockerconfig.Options{Path: path, HelperDir: dir, CacheDuration: time.Hour}, tt.image))(t)
			var got map[string]string
			for key, auth := range resp.Auth {
				if got == nil {
					got = map[string]string{}
				}
				got[key] = auth.Username
				if auth.Password.Reveal() != canary.PasswordSecret {
					t.Errorf("key %q: another password than the file has", key)
				}
				checkMatches(t, key, strings.TrimPrefix(tt.image, "https://"))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			duration := time.Hour
			if len(tt.want) == 0 {
				duration = time.Minute
			}
			if resp.CacheKeyType != tt.scope || *resp.CacheDuration != duration {
				t.Errorf("cache %s for %v, want %s for %v", resp.CacheKeyType, *resp.CacheDuration, tt.scope, duration)
			}
		})
	}
}

// checkMatches checks that the key matches the image. The kubelet ignores keys that do not match.
func checkMatches(t *testing.T, key, image string) {
	t.Helper()
	p, err := match.Parse(key)
	if err != nil || !p.Match(image) {
		t.Errorf("key %q does not match %q (%v)", key, image, err)
	}
	_, path, _ := strings.Cut(key, "/")
	if strings.HasPrefix(path, "v1/") || strings.HasPrefix(path, "v2/") {
		t.Errorf("key %q: a kubelet removes the beginning of its path", key)
	}
}

// failureCases lists configurations that lead to an error for the registry r.io.
var failureCases = []struct{ name, file, want string }{
	{"no credential in the helper's words", `{"credHelpers":{"r.io":"failing"}}`, `docker-credential-failing get "r.io": exit status 1; the helper's output is hidden because it might contain secrets: to see it, run the helper manually as the same user and in the same environment`},
	{"no helper", `{"credsStore":"absent"}`, `docker-credential-absent get "r.io": start "DIR/docker-credential-absent": no such file or directory`},
	{"helper with a path", `{"credsStore":"../good"}`, `docker-credential-(hidden name) get "r.io": invalid helper name: omit the docker-credential- prefix and use only letters, digits, dots, hyphens and underscores`},
	{"helper's identity token", `{"credsStore":"identity"}`, `docker-credential-identity has an identity token for "r.io", which the kubelet cannot use; log in with a user name and a password or access token`},
	{"identity token", `{"auths":{"https://r.io":{"auth":"dTo=","identitytoken":"` + canary.TokenSecret + `"}}}`, `read "FILE": auths["https://r.io"] has an identity token, which the kubelet cannot use; log in with a user name and a password or access token`},
	{"registry token", `{"auths":{"r.io":{"registrytoken":"` + canary.TokenSecret + `"}}}`, `read "FILE": auths["r.io"] has a registry token, which the kubelet cannot use; log in with a user name and a password or access token`},
	{"not JSON", canary.PasswordSecret, `read "FILE": line 1, column 1: not JSON from here on`},
	{"bad auth", `{"auths":{"s.io":{"auth":"` + canary.PasswordSecret + `"}}}`, `read "FILE": line 1, column 26: auths["s.io"].auth: it is not base64: use the output of printf %s user:password | base64 -w0`},
	{"wrong type", `{"auths":"` + canary.PasswordSecret + `"}`, `read "FILE": line 1, column 10: auths: a string where an object is expected`},
}

func TestFailures(t *testing.T) {
	for _, tt := range failureCases {
		t.Run(tt.name, func(t *testing.T) {
			path, dir := writeConfigAndHelpers(t, tt.file)
			_, err := getCredentials(t, dockerconfig.Options{Path: path, HelperDir: dir, Optional: true}, "r.io/app")
			want := `registry "r.io": ` + strings.NewReplacer("FILE", path, "DIR", dir).Replace(tt.want)
			if fmt.Sprint(err) != want {
				t.Errorf("error %v, want %s", err, want)
			}
			canary.AssertAbsent(t, "error", fmt.Sprint(err))
		})
	}
}

func TestFailuresOfTheFile(t *testing.T) {
	path, dir := writeConfigAndHelpers(t, `{}`)
	missing, exposed := filepath.Join(dir, "missing"), writeConfig(t, `{}`)
	must.Do(t, os.Chmod(exposed, 0o604))
	open := writeConfig(t, `{"auths":{"*.co.uk:5000/team":`+authEntry("u")+`}}`)
	for _, tt := range []struct {
		name  string
		opts  dockerconfig.Options
		image string
		want  string
	}{
		{"none named", dockerconfig.Options{}, "r.io/app", "--config is required, for example --config /etc/registry/config.json"},
		{"negative", dockerconfig.Options{Path: path, CacheDuration: -time.Second}, "r.io/app", "--cache-duration -1s must not be negative; to disable caching, use 0s"},
		{"missing", dockerconfig.Options{Path: missing}, "r.io/app", `registry "r.io": read "` + missing + `": no such file or directory; fix --config, or set --optional if the file is not required`},
		{"directory", dockerconfig.Options{Path: dir, Optional: true}, "r.io/app", `registry "r.io": read "` + dir + `": is a directory, not a regular file`},
		{"of everybody", dockerconfig.Options{Path: exposed, Optional: true}, "r.io/app", `registry "r.io": read "` + exposed + `": other users can read or change it; run chmod 600 ` + exposed + ``},
		{"public suffix", dockerconfig.Options{Path: open}, "r.co.uk:5000/team/app", `registry "r.co.uk:5000": read "` + open + `": anyone can register a name under the public suffix "co.uk" (publicsuffix.org), so auths["*.co.uk:5000/team"] would send the password to third-party hosts; spell out the domain`},
		{"no host", dockerconfig.Options{Path: path}, "", `image "" does not begin with a registry host`},
	} {
		if _, err := getCredentials(t, tt.opts, tt.image); fmt.Sprint(err) != tt.want {
			t.Errorf("%s: error %v, want %s", tt.name, err, tt.want)
		}
	}
}

// TestMissingFile verifies that a missing optional file leads to an empty response and no warning.
func TestMissingFile(t *testing.T) {
	var log bytes.Buffer
	opts := dockerconfig.Options{
		Path: filepath.Join(t.TempDir(), "missing"), Optional: true, CacheDuration: 10 * time.Second,
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	resp, err := getCredentials(t, opts, "r.io/app")
	if err != nil || len(resp.Auth) > 0 || resp.CacheKeyType != plugin.CacheRegistry || *resp.CacheDuration != 10*time.Second {
		t.Errorf("error %v, or another response than an empty one for the registry, for 10s", err)
	}
	if log.Len() > 0 {
		t.Errorf("a warning: %s", log.String())
	}
}

// TestReplacedFileIsRead verifies that a replaced file is used for the next request.
func TestReplacedFileIsRead(t *testing.T) {
	path := writeConfig(t, `{"auths":{"r.io":`+authEntry("before")+`}}`)
	p := must.Get(dockerconfig.New(dockerconfig.Options{Path: path}))(t)
	for _, user := range []string{"before", "after"} {
		resp, err := p.GetCredentials(t.Context(), &plugin.Request{Image: "r.io/app"})
		if err != nil || resp.Auth["r.io"].Username != user || *resp.CacheDuration != 0 {
			t.Errorf("user %q, error %v; want %q", resp.Auth["r.io"].Username, err, user)
		}
		must.Do(t, os.WriteFile(path, []byte(`{"auths":{"r.io":`+authEntry("after")+`}}`), 0o600))
	}
}

// TestLog verifies what is logged, and that the log contains no secrets.
func TestLog(t *testing.T) {
	var log bytes.Buffer
	path, dir := writeConfigAndHelpers(t, `{"credHelpers":{"s.io":"good"},"auths":{"r.io":`+authEntry("u")+`,"r.io/app":{"identitytoken":"`+canary.TokenSecret+`"}}}`)
	opts := dockerconfig.Options{Path: path, HelperDir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for _, image := range []string{"r.io/app", "s.io/app", "t.io/app"} {
		if _, err := getCredentials(t, opts, image); err != nil {
			t.Error(err)
		}
	}
	canary.AssertAbsent(t, "log", log.String())
	for _, want := range []string{`entry=r.io key=r.io`, `entry=r.io/app holds="an identity token"`, `helper=good server=s.io found=true`, `the docker config has no entry or credential helper for the registry, so the response is empty" registry=t.io`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s", want)
		}
	}
}

// TestDocsFailures verifies that the documentation lists exactly these errors.
func TestDocsFailures(t *testing.T) {
	doc := must.Get(os.ReadFile("../../../docs/plugins/dockerconfig.md"))(t)
	_, table, _ := strings.Cut(string(doc), "\n## Failure messages\n")
	var rows []*regexp.Regexp
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(table, -1) {
		rows = append(rows, regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(m[1]), "…", ".*")))
	}
	said := []string{
		"--config is required, for example --config /etc/registry/config.json", "--cache-duration -1s must not be negative", `read "x": no such file or directory; fix --config, or set --optional if the file is not required`,
		`read "x": other users can read or change it; run chmod 600 x`, "skipped an entry that the kubelet cannot use",
		"the docker config has no entry or credential helper for the registry, so the response is empty",
		`read "x": is a directory, not a regular file`, `read "x": permission denied`, `image "" does not begin with a registry host`,
		`read "x": larger than 1048576 bytes; check that this is the right file`, `no response within 45s`, `not found in PATH "/bin"`,
		"read files: replaced repeatedly while being read; replace them together and less often", `read "x": anyone can register a name under the public suffix "io"`, `the response is empty`, `invalid credential helper response: not JSON`, `standard output is longer than 1048576 bytes`,
	}
	for _, f := range failureCases {
		said = append(said, f.want)
	}
	for _, text := range said {
		if !slices.ContainsFunc(rows, func(row *regexp.Regexp) bool { return row.MatchString(text) }) {
			t.Errorf("the document has no row for %s", text)
		}
	}
	for _, row := range rows {
		if !slices.ContainsFunc(said, row.MatchString) {
			t.Errorf("nothing fails with %s", row)
		}
	}
}

// FuzzKeys verifies that every key of a response matches the image.
func FuzzKeys(f *testing.F) {
	for _, key := range []string{"r.io", "https://r.io/v1/", "*.io/team", "r.io:5000/team/app", "index.docker.io/v1/", "r.io/v2/app", "r.io:", "[::1]:5000"} {
		f.Add(key)
	}
	images := []string{"r.io/team/app", "r.io:5000/team/app", "docker.io/library/nginx", "r.io/v2/app", "r.io/v1/v2/app", "localhost/app", "[::1]:5000/app", "a.b.r.io/app"}
	f.Fuzz(func(t *testing.T, key string) {
		quoted := must.Get(json.Marshal(key))(t)
		path := writeConfig(t, `{"auths":{`+string(quoted)+`:`+authEntry("u")+`}}`)
		for _, image := range images {
			resp, err := getCredentials(t, dockerconfig.Options{Path: path}, image)
			if err != nil && strings.Contains(err.Error(), "public suffix") {
				continue
			}
			must.Do(t, err)
			for key := range resp.Auth {
				checkMatches(t, key, image)
			}
		}
	})
}
