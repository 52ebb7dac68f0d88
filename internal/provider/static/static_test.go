// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package static_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/provider/static"
	"github.com/regcred/regcred/plugin"
)

func writeFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func getCredentials(t testing.TB, opts static.Options, image string) (*plugin.Response, error) {
	t.Helper()
	p, err := static.New(opts)
	if err != nil {
		return nil, err
	}
	return p.GetCredentials(t.Context(), &plugin.Request{Image: image})
}

// TestHosts verifies that the password is returned only for the listed registries.
func TestHosts(t *testing.T) {
	tests := []struct {
		image string
		hosts []string
		key   string // "" means that the registry is not listed
	}{
		{"r.example/team/app", []string{"r.example"}, "r.example"},
		{"r.example:5000/app", []string{"s.example", "r.example:5000"}, "r.example:5000"},
		{"a.r.example/app", []string{"*.r.example"}, "a.r.example"},
		{"a-1.r.example/app", []string{"a-*.r.example"}, "a-1.r.example"},
		{"localhost/app", []string{"localhost"}, "localhost"},
		{"[::1]:5000/app", []string{"[::1]:5000"}, "[::1]:5000"},
		{"docker.io/library/nginx", []string{"docker.io"}, "docker.io"},
		{"r.example:5000/app", []string{"r.example"}, ""},
		{"r.example/app", []string{"r.example:5000"}, ""},
		{"r.example.evil.com/app", []string{"r.example"}, ""},
		{"evilr.example/app", []string{"r.example"}, ""},
		{"evil.com/r.example/app", []string{"r.example"}, ""},
		{"a.b.r.example/app", []string{"*.r.example"}, ""},
		{"R.example/app", []string{"r.example"}, "R.example"},
	}
	for _, tt := range tests {
		opts := static.Options{Username: "u", PasswordFile: "/nonexistent", Hosts: tt.hosts, CacheDuration: time.Hour}
		if tt.key == "" { // the missing file does not matter, because it is not read
			checkOtherHost(t, opts, tt.image)
			continue
		}
		opts.PasswordFile = writeFile(t, canary.PasswordSecret)
		resp, err := getCredentials(t, opts, tt.image)
		if err != nil {
			t.Errorf("%s, %q: %v", tt.image, tt.hosts, err)
			continue
		}
		if resp.CacheKeyType != plugin.CacheRegistry || *resp.CacheDuration != time.Hour {
			t.Errorf("%s: cache %s for %v", tt.image, resp.CacheKeyType, *resp.CacheDuration)
		}
		want := plugin.AuthConfig{Username: "u", Password: plugin.NewSecret(canary.PasswordSecret)}
		if len(resp.Auth) != 1 || !resp.Auth[tt.key].Equal(want) {
			t.Errorf("%s, %q: %d credentials, or others than wanted", tt.image, tt.hosts, len(resp.Auth))
		}
	}
}

// checkOtherHost checks that a host that is not configured leads to an error with a fix, or to an empty
// response if OtherHosts is "empty".
func checkOtherHost(t *testing.T, opts static.Options, image string) {
	t.Helper()
	host, _, _ := strings.Cut(image, "/")
	_, err := getCredentials(t, opts, image)
	want := fmt.Sprintf("image host %q is not matched by any --host, so it gets no credential; remove it from matchImages, add --host=%s, or set --other-hosts=empty", host, host)
	if fmt.Sprint(err) != want {
		t.Errorf("%s: error %v, want %s", image, err, want)
	}
	opts.OtherHosts = "empty"
	if resp, err := getCredentials(t, opts, image); err != nil || len(resp.Auth) > 0 || *resp.CacheDuration != 0 {
		t.Errorf("%s: error %v, or a response that is not empty, or kept", image, err)
	}
}

func TestFiles(t *testing.T) {
	tests := []struct {
		name, user, password string // user and password are the contents of the files
		want                 plugin.AuthConfig
	}{
		{"plain", "u", canary.PasswordSecret, plugin.AuthConfig{Username: "u", Password: plugin.NewSecret(canary.PasswordSecret)}},
		{"line ends", "u\n", canary.PasswordSecret + "\n", plugin.AuthConfig{Username: "u", Password: plugin.NewSecret(canary.PasswordSecret)}},
		{"of Windows", "u\r\n", canary.PasswordSecret + "\r\n", plugin.AuthConfig{Username: "u", Password: plugin.NewSecret(canary.PasswordSecret)}},
		{"one line end alone", "u", canary.PasswordSecret + "\n\n", plugin.AuthConfig{Username: "u", Password: plugin.NewSecret(canary.PasswordSecret + "\n")}},
		{"blanks", " u ", " " + canary.PasswordSecret + "\t", plugin.AuthConfig{Username: " u ", Password: plugin.NewSecret(" " + canary.PasswordSecret + "\t")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			password := writeFile(t, tt.password)
			for name, opts := range map[string]static.Options{
				"files":      {UsernameFile: writeFile(t, tt.user), PasswordFile: password},
				"credential": {UsernameFile: writeFile(t, tt.user), PasswordCredential: filepath.Base(password), CredentialsDir: filepath.Dir(password)},
			} {
				opts.Hosts = []string{"r.example"}
				resp, err := getCredentials(t, opts, "r.example/app")
				if err != nil || !resp.Auth["r.example"].Equal(tt.want) || *resp.CacheDuration != 0 {
					t.Errorf("%s: error %v, or another credential than wanted", name, err)
				}
			}
		})
	}
}

// TestReplacedFilesAreRead verifies that replaced files are used for the next request.
func TestReplacedFilesAreRead(t *testing.T) {
	user, password := writeFile(t, "before"), writeFile(t, canary.PasswordSecret)
	p := must.Get(static.New(static.Options{UsernameFile: user, PasswordFile: password, Hosts: []string{"r.example"}}))(t)
	for _, want := range []string{"before", "after"} {
		resp, err := p.GetCredentials(t.Context(), &plugin.Request{Image: "r.example/app"})
		if err != nil || resp.Auth["r.example"].Username != want {
			t.Errorf("user %q, error %v; want %q", resp.Auth["r.example"].Username, err, want)
		}
		must.Do(t, os.WriteFile(user, []byte("after"), 0o600))
	}
}

// failureCase is a configuration and image that lead to an error.
type failureCase struct {
	name  string
	opts  static.Options
	image string
	want  string
}

func failureCases(t *testing.T) []failureCase {
	dir, empty, password := t.TempDir(), writeFile(t, "\n"), writeFile(t, canary.PasswordSecret)
	swapped, missing := writeFile(t, "x:"+canary.PasswordSecret), filepath.Join(dir, "missing")
	exposed, host := writeFile(t, canary.PasswordSecret), []string{"r.example"}
	must.Do(t, os.Chmod(exposed, 0o644))
	named := func(hosts ...string) static.Options {
		return static.Options{Username: "u", PasswordFile: password, Hosts: hosts}
	}
	const image = "r.example/app"
	return []failureCase{
		{"no user name", static.Options{PasswordFile: password, Hosts: host}, image, "set either --username or --username-file"},
		{"two user names", static.Options{Username: "u", UsernameFile: password, PasswordFile: password, Hosts: host}, image, "set either --username or --username-file"},
		{"user name of two lines", static.Options{Username: "a\nb", PasswordFile: password, Hosts: host}, image, "--username: the user name contains a control character; write the user name on one line"},
		{"user name with a colon", static.Options{Username: "a:b", PasswordFile: password, Hosts: host}, image, "--username: the user name contains a colon, which HTTP Basic authentication does not allow"},
		{"files swapped", static.Options{UsernameFile: swapped, PasswordFile: password, Hosts: host}, image, `registry "r.example": read "` + swapped + `": the user name contains a colon, which HTTP Basic authentication does not allow`},
		{"no password", static.Options{Username: "u", Hosts: host}, image, "set either --password-file or --password-credential"},
		{"two passwords", static.Options{Username: "u", PasswordFile: password, PasswordCredential: "p", CredentialsDir: dir, Hosts: host}, image, "set either --password-file or --password-credential"},
		{"credential with a path", static.Options{Username: "u", PasswordCredential: "../p", CredentialsDir: dir, Hosts: host}, image, `--password-credential "../p" is not the name of a systemd credential; use --password-file for a path`},
		{"parent", static.Options{Username: "u", PasswordCredential: "..", CredentialsDir: dir, Hosts: host}, image, `--password-credential ".." is not the name of a systemd credential; use --password-file for a path`},
		{"no credentials", static.Options{Username: "u", PasswordCredential: "p", Hosts: host}, image, "--password-credential: CREDENTIALS_DIRECTORY is not set; add LoadCredential= or LoadCredentialEncrypted= to the kubelet's unit, and restart it"},
		{"public suffix", named("*.co.uk"), image, `--host "*.co.uk": anyone can register a name under the public suffix "co.uk" (publicsuffix.org), so the * would send the password to third-party hosts; spell out the domain`},
		{"private suffix, port", named("r-*.GitHub.io:443"), image, `--host "r-*.GitHub.io:443": anyone can register a name under the public suffix "github.io" (publicsuffix.org), so the * would send the password to third-party hosts; spell out the domain`},
		{"cloud", named("r.example", "*.compute.amazonaws.com"), image, `--host "*.compute.amazonaws.com": anyone can register a name under the public suffix "*.compute.amazonaws.com" (publicsuffix.org), so the * would send the password to third-party hosts; spell out the domain`},
		{"password in a host", named("https://u:" + canary.PasswordSecret + "@r.example"), image, `--host "https://…@r.example": must have the form host[:port]; remove the scheme and path`},
		{"user in a host", named("u:" + canary.PasswordSecret + "@r.example"), image, `--host "…@r.example": must have the form host[:port]; remove the scheme and path`},
		{"no host", named(), image, "--host is required for each registry that may receive the password, for example --host registry.example:5000"},
		{"negative", static.Options{Username: "u", PasswordFile: password, Hosts: host, CacheDuration: -1}, image, "--cache-duration -1ns must not be negative; to disable caching, use 0s"},
		{"host with a scheme", named("https://r.example"), image, `--host "https://r.example": must have the form host[:port]; remove the scheme and path`},
		{"host with a path", named("r.example/team"), image, `--host "r.example/team": must have the form host[:port]; remove the scheme and path`},
		{"host with a port that is none", named("r.example:x"), image, `--host "r.example:x": must have the form host[:port]; remove the scheme and path`},
		{"address without a port", named("[::1]"), image, `--host "[::1]": an address in brackets needs a port; use [address]:port`},
		{"empty host", named(""), image, `--host "": must have the form host[:port]; remove the scheme and path`},
		{"every host", named("*"), image, `--host "*": a * in one of the last two labels would send the password to third-party hosts; spell out the domain`},
		{"every domain", named("*.example"), image, `--host "*.example": a * in one of the last two labels would send the password to third-party hosts; spell out the domain`},
		{"every address", named("10.0.0.*:5000"), image, `--host "10.0.0.*:5000": a * in one of the last two labels would send the password to third-party hosts; spell out the domain`},

		{"missing", static.Options{Username: "u", PasswordFile: missing, Hosts: host}, image, `registry "r.example": read "` + missing + `": no such file or directory; create the file or fix the flag`},
		{"missing user name", static.Options{UsernameFile: missing, PasswordFile: password, Hosts: host}, image, `registry "r.example": read "` + missing + `": no such file or directory; create the file or fix the flag`},
		{"directory", static.Options{Username: "u", PasswordFile: dir, Hosts: host}, image, `registry "r.example": read "` + dir + `": is a directory, not a regular file`},
		{"of everybody", static.Options{Username: "u", PasswordFile: exposed, Hosts: host}, image, `registry "r.example": read "` + exposed + `": other users can read or change it; run chmod 600 ` + exposed + ``},
		{"empty", static.Options{Username: "u", PasswordFile: empty, Hosts: host}, image, `registry "r.example": read "` + empty + `": file is empty; write the password to the file`},
		{"empty user name", static.Options{UsernameFile: empty, PasswordFile: password, Hosts: host}, image, `registry "r.example": read "` + empty + `": file is empty; write the user name to the file`},
		{"no image", named("r.example"), "", `image "" does not begin with a registry host`},
	}
}

func TestFailures(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the texts of the system differ")
	}
	for _, tt := range failureCases(t) {
		t.Run(tt.name, func(t *testing.T) {
			_, err := getCredentials(t, tt.opts, tt.image)
			if fmt.Sprint(err) != tt.want {
				t.Errorf("error %v, want %s", err, tt.want)
			}
			canary.AssertAbsent(t, "error", fmt.Sprint(err))
		})
	}
}

// TestDocsFailures verifies that the documentation lists exactly these errors.
func TestDocsFailures(t *testing.T) {
	doc := must.Get(os.ReadFile("../../../docs/plugins/static.md"))(t)
	_, table, _ := strings.Cut(string(doc), "\n## Failure messages\n")
	var rows []*regexp.Regexp
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(table, -1) {
		rows = append(rows, regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(m[1]), "…", ".*")))
	}
	said := []string{`read "x": permission denied`, `read "x": larger than 1048576 bytes; check that this is the right file`,
		`image host "x" is not matched by any --host, so it gets no credential; remove it from matchImages, add --host=x`,
		"read files: replaced repeatedly while being read; replace them together and less often"}
	for _, f := range failureCases(t) {
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
