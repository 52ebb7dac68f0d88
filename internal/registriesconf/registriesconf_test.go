// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registriesconf_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/registriesconf"
	"github.com/regcred/regcred/internal/route"
)

// mainConfigPath is the path of CRI-O's registries.conf.
const mainConfigPath = "/etc/containers/registries.conf"

// readAsCRIO writes files below a root directory and reads the configuration as CRI-O does.
func readAsCRIO(t *testing.T, files map[string]string) *registriesconf.Config {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return must.Get(registriesconf.Read(registriesconf.Options{Runtime: registriesconf.CRIO, Root: root}))(t)
}

func parseImage(t *testing.T, image string) route.Image {
	t.Helper()
	return must.Get(route.Parse(image))(t)
}

const mirroredConfig = "[[registry]]\nlocation = 'quay.io'\n[[registry.mirror]]\nlocation = 'm.example/q'\n"

// TestRoute verifies the routes that cannot be verified with a real CRI-O. upstream/mirrors
// verifies the other routes.
func TestRoute(t *testing.T) {
	const short = "unqualified-search-registries = ['a.example', 'docker.io']\n[aliases]\nnginx = 'b.example/web/nginx'\n"
	const auth = `{"auths": {"m.example/q": {"auth": "` + canary.PasswordSecret + `"}}}`
	for name, tt := range map[string]struct {
		files map[string]string
		image string
		want  string
	}{
		"no file":                {nil, "quay.io/a", "CRI-O tries quay.io itself; a host that requires authentication gets the credential for quay.io/a"},
		"a mirror":               {map[string]string{mainConfigPath: mirroredConfig}, "quay.io/a", "CRI-O tries m.example (for q/a), then quay.io itself; quay.io itself gets the credential for quay.io/a; m.example (for q/a) gets no credential"},
		"a login of CRI-O's own": {map[string]string{mainConfigPath: mirroredConfig, "/etc/crio/crio.conf": "[crio.image]\nglobal_auth_file = '/x'\n", "/etc/crio/crio.conf.d/9.conf": "[crio.image]\nglobal_auth_file = '/auth.json'\n", "/auth.json": auth}, "quay.io/a", "m.example (for q/a) gets a credential from the runtime's own files"},
		"a short name":           {map[string]string{mainConfigPath: short}, "app:1", "CRI-O tries a.example (for app), then docker.io itself (registry-1.docker.io); a host that requires authentication gets the credential for docker.io/library/app"},
		"an alias":               {map[string]string{mainConfigPath: short}, "nginx:1", "CRI-O tries b.example (for web/nginx); a host that requires authentication gets the credential for docker.io/library/nginx"},
		"a short name of nobody": {map[string]string{mainConfigPath: mirroredConfig}, "app", "CRI-O cannot pull docker.io/library/app: \"app\" is a short name, but unqualified-search-registries is empty"},
		"not short":              {map[string]string{mainConfigPath: short}, "docker.io/library/nginx", "CRI-O tries docker.io itself (registry-1.docker.io); a host"},
		"a home":                 {map[string]string{mainConfigPath: mirroredConfig, "/root/.config/containers/registries.conf": ""}, "quay.io/a", "CRI-O tries quay.io itself; a host"},
		"blocked":                {map[string]string{mainConfigPath: "[[registry]]\nlocation = 'quay.io'\nblocked = true\n"}, "quay.io/a", "every host for this image is blocked"},
		"an IPv6 mirror":         {map[string]string{mainConfigPath: "[[registry]]\nlocation = 'quay.io'\n[[registry.mirror]]\nlocation = '[::1]:5000'\n"}, "quay.io/a", mainConfigPath + ":3: with the location \"[::1]:5000\", the image would be \"[::1]:5000/a:latest\", which is not a valid reference"},
		"a location with _":      {map[string]string{mainConfigPath: "[[registry]]\nprefix = 'quay.io'\nlocation = 'a_b.example'\n"}, "quay.io/a", "which is not a valid reference"},
		"an IPv6 image":          {nil, "[::1]:5000/a", "CRI-O cannot pull [::1]:5000/a: CRI-O does not accept the host \"[::1]:5000\" in an image name"},
		"prefixes of one length": {map[string]string{mainConfigPath: "[[registry]]\nprefix = 'a.sub.example'\nlocation = 'b.example'\n[[registry]]\nprefix = '*.sub.example'\nlocation = 'c.example'\n"}, "a.sub.example/x", "CRI-O tries c.example; "},
		"the longer prefix":      {map[string]string{mainConfigPath: "[[registry]]\nprefix = 'ab.sub.example'\nlocation = 'b.example'\n[[registry]]\nprefix = '*.sub.example'\nlocation = 'c.example'\n"}, "ab.sub.example/x", "CRI-O tries b.example; "},
		"an alias removed":       {map[string]string{mainConfigPath: short, mainConfigPath + ".d/1.conf": "[aliases]\nnginx = ''\n"}, "nginx:1", "CRI-O tries a.example (for nginx), then docker.io itself"},
		"aliases of wrong type":  {map[string]string{mainConfigPath: "aliases = 'x'\nunqualified-search-registries = ['a.example']\n"}, "app", "CRI-O tries a.example (for app)"},
		"a load error":           {map[string]string{mainConfigPath: "\n[[registry]]\nlocation = 'https://quay.io'\n"}, "docker.io/a/b", mainConfigPath + ":3: location has a scheme"},
	} {
		t.Run(name, func(t *testing.T) {
			got := readAsCRIO(t, tt.files).Route(parseImage(t, tt.image)).String()
			canary.AssertAbsent(t, "a route", got)
			if !strings.Contains(got, tt.want) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestCheck verifies the findings for mistakes in the files.
func TestCheck(t *testing.T) {
	const two = "/etc/containers/registries.conf.d/2.conf"
	for name, tt := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"as it should be":   {map[string]string{mainConfigPath: mirroredConfig}, nil},
		"no TOML":           {map[string]string{mainConfigPath: "[[registry]]\n["}, []string{"error registries-conf " + mainConfigPath + ":2"}},
		"a scheme":          {map[string]string{mainConfigPath: mirroredConfig + "[[registry.mirror]]\nlocation = 'http://m.example'\n"}, []string{"error registries-conf " + mainConfigPath + ":6"}},
		"no place":          {map[string]string{mainConfigPath: "[[registry]]\nblocked = true\n"}, []string{"error registries-conf " + mainConfigPath + ":1"}},
		"no location":       {map[string]string{mainConfigPath: "[[registry]]\nprefix = 'quay.io'\n"}, []string{"error registries-conf " + mainConfigPath + ":2"}},
		"a wide prefix":     {map[string]string{mainConfigPath: "[[registry]]\nprefix = '*.quay.io/x'\n"}, []string{"error registries-conf " + mainConfigPath + ":2"}},
		"an unknown word":   {map[string]string{mainConfigPath: mirroredConfig + "pull-from-mirror = 'never'\n"}, []string{"error registries-conf " + mainConfigPath + ":5"}},
		"a short-name mode": {map[string]string{mainConfigPath: mirroredConfig, two: "\nshort-name-mode = 'enforced'\n"}, []string{"error registries-conf " + two + ":2"}},
		"the usual mode":    {map[string]string{mainConfigPath: "short-name-mode = 'enforcing'\ncredential-helpers = ['pass']\nadditional-layer-store-auth-helper = 'x'\n" + mirroredConfig + "namespace-proxy = 'x'\n"}, nil},
		"a mode's type":     {map[string]string{mainConfigPath: "short-name-mode = true\n"}, []string{"error registries-conf " + mainConfigPath + ":1"}},
		"helpers' type":     {map[string]string{mainConfigPath: "credential-helpers = [1]\n"}, []string{"error registries-conf " + mainConfigPath + ":1"}},
		"a helper's type":   {map[string]string{mainConfigPath: "additional-layer-store-auth-helper = []\n"}, []string{"error registries-conf " + mainConfigPath + ":1"}},
		"a proxy's type":    {map[string]string{mainConfigPath: mirroredConfig + "namespace-proxy = 1\n"}, []string{"error registries-conf " + mainConfigPath + ":5"}},
		"an IPv6 search":    {map[string]string{mainConfigPath: "unqualified-search-registries = ['[::1]:5000']\n"}, []string{"error registries-conf " + mainConfigPath + ":1"}},
		"good aliases":      {map[string]string{mainConfigPath: "[aliases]\nnginx = 'docker.io/nginx'\n\"team/app\" = 'r:5000/a'\n\"a.b\" = 'localhost/a'\nc = ''\n"}, nil},
		"an alias's type":   {map[string]string{mainConfigPath: "[aliases]\nnginx = 1\n"}, []string{"error registries-conf " + mainConfigPath + ":2"}},
		"an alias's tag":    {map[string]string{mainConfigPath: "[aliases]\nnginx = 'r.example/a:1'\n"}, []string{"error registries-conf " + mainConfigPath + ":2"}},
		"an alias's host":   {map[string]string{mainConfigPath: "[aliases]\nnginx = 'team/a'\n"}, []string{"error registries-conf " + mainConfigPath + ":2"}},
		"an alias's name":   {map[string]string{mainConfigPath: "[aliases]\n\"r.example/nginx\" = 'r.example/a'\n"}, []string{"error registries-conf " + mainConfigPath + ":2"}},
		"the old format":    {map[string]string{mainConfigPath: "\n[registries.search]\nregistries = ['quay.io']\n"}, []string{"warning registries-conf " + mainConfigPath + ":2"}},
		"a drop-in of old":  {map[string]string{two: "[registries.search]\nregistries = ['quay.io']\n"}, []string{"error registries-conf " + two + ":1"}},
		"twice":             {map[string]string{mainConfigPath: mirroredConfig + mirroredConfig}, []string{"warning mirror-passed-over " + mainConfigPath + ":5"}},
		"replaced":          {map[string]string{mainConfigPath: mirroredConfig, two: "[[registry]]\nlocation = 'quay.io'\n"}, []string{"info mirror-passed-over " + mainConfigPath + ":1"}},
		"a tag":             {map[string]string{mainConfigPath: "[[registry]]\nlocation = 'quay.io/a:1'\n"}, []string{"warning mirror-prefix " + mainConfigPath + ":1"}},
		"a port":            {map[string]string{mainConfigPath: "[[registry]]\nlocation = 'quay.io:1/a'\n"}, nil},
		"the API's path":    {map[string]string{mainConfigPath: "[[registry]]\nlocation = 'quay.io'\n[[registry.mirror]]\nlocation = 'm.example/v2/q'\n"}, []string{"warning mirror-path " + mainConfigPath + ":3"}},
		"a table":           {map[string]string{mainConfigPath: "\n[registry]\nlocation = 'quay.io'\n"}, []string{"error registries-conf " + mainConfigPath + ":2"}},
		"a mirror's table":  {map[string]string{mainConfigPath: "[[registry]]\nlocation = 'quay.io'\n[registry.mirror]\nlocation = 'm.example'\n"}, []string{"error registries-conf " + mainConfigPath + ":3"}},
		"a slash":           {map[string]string{mainConfigPath: "[[registry]]\nlocation = 'quay.io'\n[[registry.mirror]]\nlocation = 'm.example/'\n"}, []string{"warning mirror-path " + mainConfigPath + ":3"}},
		"Docker Hub's name": {map[string]string{mainConfigPath: "[[registry]]\nlocation = 'registry-1.docker.io'\n"}, []string{"warning mirror-prefix " + mainConfigPath + ":1"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			found := readAsCRIO(t, tt.files).Check()
			for _, f := range found {
				got = append(got, fmt.Sprintf("%s %s %s:%d", f.Severity, f.Rule, f.File, f.Line))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s\n%v", diff, found)
			}
		})
	}
}

// TestMirrorWithoutCredentials verifies the finding for a mirror that gets no credentials, because
// it is on another host.
func TestMirrorWithoutCredentials(t *testing.T) {
	const login = `{"auths": {"m.example": {"auth": "eDp5"}}}`
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a mirror":                   {map[string]string{mainConfigPath: mirroredConfig}, "info " + mainConfigPath + ":3"},
		"a mirror with a login":      {map[string]string{mainConfigPath: mirroredConfig, "/root/.config/containers/auth.json": login}, ""},
		"another place":              {map[string]string{mainConfigPath: "[[registry]]\nprefix = 'quay.io'\nlocation = 'm.example'\n"}, "warning " + mainConfigPath + ":1"},
		"another place with a login": {map[string]string{mainConfigPath: "[[registry]]\nprefix = 'quay.io'\nlocation = 'm.example'\n", "/root/.config/containers/auth.json": login}, ""},
		"the host itself":            {map[string]string{mainConfigPath: "[[registry]]\nlocation = 'quay.io'\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, f := range readAsCRIO(t, tt.files).Route(parseImage(t, "quay.io/a/b:1")).Findings {
				got += fmt.Sprintf("%s %s:%d", f.Severity, f.File, f.Line)
				if f.Rule != "mirror-no-login" || !strings.Contains(f.Fix, "add one for m.example to /root/.config/containers/auth.json") {
					t.Errorf("got %+v", f)
				}
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestPasswords verifies that no message contains a password from an address.
func TestPasswords(t *testing.T) {
	const address = "ci:" + canary.PasswordSecret + "@m.example"
	for _, text := range []string{
		"[[registry]]\nlocation = '" + address + "'\n[[registry.mirror]]\nlocation = '" + address + "/v2'\n",
		"[[registry]]\nlocation = 'quay.io'\n[[registry.mirror]]\nlocation = '" + address + "/v2/'\n",
		"[[registry]]\nprefix = 'quay.io'\nlocation = '" + address + "'\n",
		"[[registry]]\nprefix = '" + address + "'\n",
		"[[registry]]\nlocation = 'quay.io'\n[[registry.mirror]]\nlocation = 'https://" + address + "'\n",
		"unqualified-search-registries = ['" + address + "/x']\n",
		strings.Repeat("[[registry]]\nlocation = '"+address+"'\n", 2),
		"[[registry]]\nlocation = '" + address + "'\n[[registry]]\nlocation = '" + address + "'\nblocked = true\n",
	} {
		c := readAsCRIO(t, map[string]string{mainConfigPath: text})
		canary.AssertAbsent(t, text, fmt.Sprint(c.Check(), c.Hosts()))
		w := c.Route(parseImage(t, "quay.io/a/b:1"))
		data := must.Get(json.Marshal(w))(t)
		canary.AssertAbsent(t, text, w.String()+string(data))
	}
}

// FuzzRoute verifies that no content of the files causes a panic, and that a route has hosts unless
// the pull fails.
func FuzzRoute(f *testing.F) {
	f.Add(mirroredConfig, "[aliases]\nx = 'y.example/z'\n", `{"auths": {"m.example": {}}}`)
	f.Add("[registries.block]\nregistries = ['quay.io']\n", "[[registry]]\nprefix = '*.io'\n[[registry.mirror]]\nlocation = 'a'\n", "{}")
	f.Add("[[registry]]\nprefix='*.'\n", "unqualified-search-registries = ['', 'a/b']\n", "[]")
	root := f.TempDir()
	for _, dir := range []string{"etc/containers/registries.conf.d", "root/.docker"} {
		must.Do(f, os.MkdirAll(filepath.Join(root, dir), 0o700))
	}
	f.Fuzz(func(t *testing.T, main, dropIn, auth string) {
		for name, text := range map[string]string{mainConfigPath: main, "etc/containers/registries.conf.d/a.conf": dropIn, "root/.docker/config.json": auth} {
			must.Do(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
		}
		c, err := registriesconf.Read(registriesconf.Options{Runtime: registriesconf.CRIO, Root: root})
		if err != nil {
			return
		}
		for _, image := range []string{"x", "quay.io:5000/a@sha256:" + strings.Repeat("0", 64)} {
			if w := c.Route(parseImage(t, image)); w.FailureReason == "" && len(w.Hops) == 0 {
				t.Errorf("%s: %+v", image, w)
			}
		}
		c.Check()
		c.Hosts()
	})
}
