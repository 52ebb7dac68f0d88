// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package location

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKeys(t *testing.T) {
	for name, tt := range map[string]struct {
		raw  []string
		want []string // "RAW → NORMALIZED"
	}{
		"none":                   {nil, nil},
		"as it is":               {[]string{"r.io:5000/team"}, []string{"r.io:5000/team → r.io:5000/team"}},
		"https":                  {[]string{"https://r.io"}, []string{"https://r.io → r.io"}},
		"http":                   {[]string{"http://r.io:80/a"}, []string{"http://r.io:80/a → r.io:80/a"}},
		"one scheme":             {[]string{"http://https://r.io"}, []string{"http://https://r.io → https://r.io"}},
		"schemes in lower case":  {[]string{"HTTPS://r.io"}, []string{"HTTPS://r.io → HTTPS://r.io"}},
		"v1":                     {[]string{"https://index.docker.io/v1/"}, []string{"https://index.docker.io/v1/ → index.docker.io"}},
		"v2":                     {[]string{"r.io/v2/team"}, []string{"r.io/v2/team → r.io/team"}},
		"v1 without a slash":     {[]string{"r.io/v1"}, []string{"r.io/v1 → r.io/v1"}},
		"v1 once":                {[]string{"r.io/v1/v2/a"}, []string{"r.io/v1/v2/a → r.io/v2/a"}},
		"v10":                    {[]string{"r.io/v10/a"}, []string{"r.io/v10/a → r.io/v10/a"}},
		"a slash":                {[]string{"r.io/"}, []string{"r.io/ → r.io"}},
		"slashes":                {[]string{"r.io//"}, []string{"r.io// → r.io//"}},
		"user, query, fragment":  {[]string{"https://u:p@r.io/a?q#f"}, []string{"https://u:p@r.io/a?q#f → r.io/a"}},
		"decoded once, to text":  {[]string{"r.io/%2561"}, []string{"r.io/%2561 → r.io/%61"}},
		"v1 after decoding":      {[]string{"r.io/%76%31/a"}, []string{"r.io/%76%31/a → r.io/a"}},
		"case":                   {[]string{"R.io"}, []string{"R.io → R.io"}},
		"do not parse":           {[]string{"r.io:x", "r.io/%zz", "r io", "r.io/\n", "ok.io", "[::1", "r.io#%zz"}, []string{"ok.io → ok.io"}},
		"parse once, not twice":  {[]string{"r.io/%25", "r.io/%0a", "r.io/%3f"}, []string{"r.io/%3f → r.io/?"}},
		"longer first":           {[]string{"r.io", "r.io/team/a", "r.io/team"}, []string{"r.io/team/a → r.io/team/a", "r.io/team → r.io/team", "r.io → r.io"}},
		"globs last":             {[]string{"*.io", "r.io", "*", "a*.io"}, []string{"r.io → r.io", "a*.io → a*.io", "*.io → *.io", "* → *"}},
		"ports by text":          {[]string{"r.io:80", "r.io:443", "r.io/a"}, []string{"r.io:80 → r.io:80", "r.io:443 → r.io:443", "r.io/a → r.io/a"}},
		"of the normalised text": {[]string{"https://a.io", "b.io", "http://c.io/v1/"}, []string{"http://c.io/v1/ → c.io", "b.io → b.io", "https://a.io → a.io"}},
		"become one":             {[]string{"r.io/", "r.io", "https://r.io/v2/", "r.io"}, []string{"https://r.io/v2/ → r.io", "r.io → r.io", "r.io → r.io", "r.io/ → r.io"}},
		"the empty key":          {[]string{""}, []string{" → "}},
	} {
		given := slices.Clone(tt.raw)
		var got []string
		for _, k := range ParseKeys(tt.raw) {
			got = append(got, k.Raw+" → "+k.String())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if !slices.Equal(given, tt.raw) {
			t.Errorf("%s: the argument was changed: %q", name, tt.raw)
		}
	}
}

func TestSelect(t *testing.T) {
	for name, tt := range map[string]struct {
		repository string
		keys       string // keys and want are separated by spaces
		want       string
	}{
		"none":                 {"r.io/a", "", ""},
		"another registry":     {"r.io/a", "s.io index.docker.io", ""},
		"as they were given":   {"r.io/a", "https://r.io/v1/", "https://r.io/v1/"},
		"in order":             {"r.io/team/a", "*.io r.io/team r.io r.io/other *", "r.io/team r.io *.io"},
		"a prefix of the text": {"r.io/team-b/a", "r.io/team r.io/team/", "r.io/team"},
		"become one":           {"r.io/a", "r.io/ r.io http://r.io", "http://r.io r.io r.io/"},
		"decoded twice":        {"r.io/a", "r.io/%61 r.io/%2561 r.io/%252561", "r.io/%61 r.io/%2561"},
		"do not parse":         {"r.io/a", "r.io:x r.io r.io/%25", "r.io"},
		"port":                 {"r.io:80/a", "r.io r.io:80 r.io:443", "r.io:80"},
		"no repository":        {"r.io:x/a", "r.io *", ""},
		"IPv6 with a port":     {"[::1]:80/a", "[::1] [::1]:80", "[::1]:80"},
		"IPv6 without a port":  {"[::1]/a", "[::1] *", "*"},

		"hub":                            {"docker.io/library/nginx", "https://index.docker.io/v1/ r.io", "https://index.docker.io/v1/"},
		"hub, twice":                     {"docker.io/library/nginx", "index.docker.io https://index.docker.io/v1/", "https://index.docker.io/v1/ index.docker.io"},
		"hub, only if nothing matches":   {"docker.io/library/nginx", "index.docker.io docker.io", "docker.io"},
		"hub, only without a path":       {"docker.io/library/nginx", "index.docker.io/library index.docker.io:443", ""},
		"hub, not its third name":        {"docker.io/library/nginx", "registry-1.docker.io", ""},
		"hub, old name":                  {"index.docker.io/library/nginx", "index.docker.io", "index.docker.io"},
		"hub, bare":                      {"docker.io", "index.docker.io", "index.docker.io"},
		"hub, bare, key has a path":      {"docker.io", "docker.io/library index.docker.io", "index.docker.io"},
		"a host without dot and port":    {"localhost/a", "index.docker.io", "index.docker.io"},
		"localhost has a key of its own": {"localhost/a", "index.docker.io localhost", "localhost"},
		"a host with a port":             {"localhost:80/a", "index.docker.io", ""},
		"a bare host without dot":        {"localhost", "index.docker.io", ""},
	} {
		got := strings.Join(Select(strings.Fields(tt.keys), tt.repository), " ")
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func TestUsesHubKey(t *testing.T) {
	for repository, want := range map[string]bool{
		"docker.io/library/nginx": true, "docker.io": true, "index.docker.io/a": true, "index.docker.io": true,
		"localhost/a": true, "a/b": true, "a_b/c": true,
		"localhost": false, "nginx": false, "localhost:80/a": false, "r.io/a": false, "registry-1.docker.io/a": false,
		"docker.io:443/a": false, "Docker.io/a": false, "": false, "/a": false,
	} {
		if got := UsesHubKey(repository); got != want {
			t.Errorf("%q: got %v, want %v", repository, got, want)
		}
	}
}

// naiveSelects uses net/url to determine whether the kubelet uses a key for a repository
// (BasicDockerKeyring in pkg/credentialprovider/keyring.go).
func naiveSelects(key, repository string) bool {
	if !strings.HasPrefix(key, "https://") && !strings.HasPrefix(key, "http://") {
		key = "https://" + key
	}
	u, err := url.Parse(key)
	if err != nil {
		return false
	}
	path := u.Path
	if strings.HasPrefix(path, "/v2/") || strings.HasPrefix(path, "/v1/") {
		path = path[3:]
	}
	if path == "/" {
		path = ""
	}
	if naiveMatch(u.Host+path, repository) {
		return true
	}
	host, _, _ := strings.Cut(repository, "/")
	onHub := host == "docker.io" || host == "index.docker.io" || host != "" && !strings.ContainsAny(host, ".:")
	return onHub && u.Host+path == "index.docker.io"
}

func FuzzSelect(f *testing.F) {
	for i, s := range locationSeeds {
		f.Add(s, s)
		f.Add("https://"+s, s)
		f.Add(s+"/v1/", locationSeeds[(i+7)%len(locationSeeds)])
	}
	f.Add("https://index.docker.io/v1/", "docker.io/library/nginx")
	f.Add("index.docker.io", "localhost/a")
	f.Add("r.io/%2561", "r.io/a")
	f.Fuzz(func(t *testing.T, key, repository string) {
		if !strings.Contains(repository, "/") {
			return // a bare registry, which the kubelet never looks up
		}
		if _, err := naiveLocation(repository); err != nil {
			return // the kubelet would use Docker Hub's key, but it cannot pull such an image
		}
		want := naiveSelects(key, repository)
		if got := slices.Equal(Select([]string{key}, repository), []string{key}); got != want {
			t.Errorf("Select(%q, %q): got %v, want %v", key, repository, got, want)
		}
	})
}
