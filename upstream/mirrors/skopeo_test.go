// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package mirrors

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/registriesconf"
	"github.com/regcred/regcred/internal/route"
)

// homeRegistriesConfPath and the following constants are paths below the user's home directory.
const (
	homeRegistriesConfPath = ".config/containers/registries.conf"
	homeDropInPath = ".config/containers/registries.conf.d/"
	homeAuthPath = ".docker/config.json"
)

// dockerConfig returns a docker config file with passwords for hosts.
func dockerConfig(servers ...string) string {
	var auths []string
	for _, s := range servers {
		auths = append(auths, fmt.Sprintf("%q: {\"auth\": \"b3duOng=\"}", s)) // own:x
	}
	return "{\"auths\": {" + strings.Join(auths, ", ") + "}}"
}

// mirrorsConf returns the user's registries.conf with this text.
func mirrorsConf(text string) configFiles { return configFiles{homeRegistriesConfPath: text} }

// registryTable returns a [[registry]] table with the lines of more.
func registryTable(prefix, more string) string {
	return fmt.Sprintf("[[registry]]\nprefix = %q\nlocation = %q\n%s", prefix, strings.TrimPrefix(prefix, "*."), more)
}

func mirrorTable(location, more string) string {
	return fmt.Sprintf("[[registry.mirror]]\nlocation = %q\n%s", location, more)
}

// registriesConfCases lists hand-written registries.conf files.
var registriesConfCases = []struct {
	name, image string // "" means origin.example/team/app
	files       configFiles
}{
	{"nothing", "", configFiles{}},
	{"the hub", "docker.io/library/app", configFiles{}},
	{"a mirror", "", mirrorsConf(registryTable("origin.example", mirrorTable("m1.example", "")))},
	{"mirrors", "", mirrorsConf(registryTable("origin.example", mirrorTable("m2.example/pre", "")+mirrorTable("m1.example:5443", "")))},
	{"a mirror with a login", "", configFiles{homeRegistriesConfPath: registryTable("origin.example", mirrorTable("m1.example", "")), homeAuthPath: dockerConfig("m1.example", "origin.example")}},
	{"a login for a path", "", configFiles{homeRegistriesConfPath: registryTable("origin.example", mirrorTable("m1.example/cache", "")+mirrorTable("m2.example", "")), homeAuthPath: dockerConfig("m1.example/cache", "m2.example/other")}},
	{"the longest prefix", "", mirrorsConf(registryTable("origin.example", mirrorTable("m1.example", "")) + registryTable("origin.example/team", mirrorTable("m2.example", "")) + registryTable("origin.example/te", mirrorTable("m3.example", "")))},
	{"a prefix with a port", "origin.example:5443/app", mirrorsConf(registryTable("origin.example", mirrorTable("m1.example", "")))},
	{"a whole image", "", mirrorsConf(registryTable("origin.example/team/app", mirrorTable("m1.example/other", "")))},
	{"with a tag", "", mirrorsConf(registryTable("origin.example/team/app:latest", mirrorTable("m1.example/other", "")))},
	{"any host below", "sub.wild.example/app", mirrorsConf("[[registry]]\nprefix = '*.wild.example'\n" + mirrorTable("m1.example", ""))},
	{"any host below, elsewhere", "sub.wild.example/app", mirrorsConf("[[registry]]\nprefix = '*.wild.example'\nlocation = 'm2.example/w'\n")},
	{"another location", "", mirrorsConf("[[registry]]\nprefix = 'origin.example/team'\nlocation = 'm1.example/x/y'\n")},
	{"another location with a login", "", configFiles{homeRegistriesConfPath: "[[registry]]\nprefix = 'origin.example'\nlocation = 'm1.example'\n", homeAuthPath: dockerConfig("https://m1.example/v1/")}},
	{"by digest only", "", mirrorsConf(registryTable("origin.example", "mirror-by-digest-only = true\n"+mirrorTable("m1.example", "")))},
	{"by digest or tag", "", mirrorsConf(registryTable("origin.example", mirrorTable("m1.example", "pull-from-mirror = 'digest-only'\n")+mirrorTable("m2.example", "pull-from-mirror = 'tag-only'\n")+mirrorTable("m3.example", "pull-from-mirror = 'all'\n")))},
	{"both", "", mirrorsConf(registryTable("origin.example", "mirror-by-digest-only = true\n"+mirrorTable("m1.example", "pull-from-mirror = 'digest-only'\n")))},
	{"blocked", "", mirrorsConf(registryTable("origin.example", "blocked = true\n"+mirrorTable("m1.example", "")))},
	{"blocked with nothing else", "", mirrorsConf(registryTable("origin.example", "blocked = true\n"))},
	{"blocked, at another location", "", mirrorsConf("[[registry]]\nprefix = 'origin.example'\nlocation = 'm1.example'\nblocked = true\n")},
	{"a mirror that is blocked", "", mirrorsConf(registryTable("origin.example", mirrorTable("m1.example", "")) + registryTable("m1.example", "blocked = true\n"))},
	{"insecure", "", mirrorsConf(registryTable("origin.example", mirrorTable("m1.example:5000", "insecure = true\n")+mirrorTable("m2.example:5000", "")))},
	{"a scheme", "", mirrorsConf(registryTable("origin.example", mirrorTable("https://m1.example", "")))},
	{"no location", "", mirrorsConf("[[registry]]\nprefix = 'origin.example'\n")},
	{"a slash at the end", "", mirrorsConf(registryTable("origin.example/", mirrorTable("m1.example", "")))},
	{"a mirror that makes no image", "", mirrorsConf(registryTable("origin.example", mirrorTable("m1.example/UPPER", "")))},
	{"twice", "", mirrorsConf(registryTable("origin.example", mirrorTable("m1.example", "")) + registryTable("origin.example", mirrorTable("m2.example", "")))},
	{"twice, differently", "", mirrorsConf(registryTable("origin.example", "") + "[[registry]]\nprefix = 'm1.example'\nlocation = 'origin.example'\ninsecure = true\n")},
	{"a drop-in", "", configFiles{homeRegistriesConfPath: registryTable("origin.example", mirrorTable("m1.example", "")), homeDropInPath + "a.conf": registryTable("origin.example", mirrorTable("m2.example", "")), homeDropInPath + "b.toml": registryTable("origin.example", mirrorTable("m3.example", ""))}},
	{"drop-ins alone", "", configFiles{homeDropInPath + "b.conf": registryTable("origin.example", mirrorTable("m1.example", "")), homeDropInPath + "a.conf": registryTable("origin.example", mirrorTable("m2.example", ""))}},
	{"version 1", "", mirrorsConf("[registries.search]\nregistries = ['origin.example']\n[registries.insecure]\nregistries = ['m1.example']\n")},
	{"version 1 blocks", "", mirrorsConf("[registries.block]\nregistries = ['origin.example']\n")},
	{"version 1 as a drop-in", "", configFiles{homeDropInPath + "a.conf": "[registries.search]\nregistries = ['origin.example']\n"}},
	{"both versions", "", mirrorsConf("[registries.search]\nregistries = ['origin.example']\n" + registryTable("m1.example", ""))},
	{"broken", "", mirrorsConf("[[registry]\n")},
	{"a wrong type", "", mirrorsConf("[[registry]]\nlocation = 1\n")},
	// TOML parsers treat these files differently, and c/image uses another parser than regcred.
	{"a BOM", "", mirrorsConf("\ufeff" + registryTable("origin.example", mirrorTable("m1.example", "")))},
	{"a BOM in a drop-in", "", configFiles{homeDropInPath + "a.conf": "\ufeff" + registryTable("origin.example", mirrorTable("m1.example", ""))}},
	{"Windows line ends", "", mirrorsConf(strings.ReplaceAll(registryTable("origin.example", mirrorTable("m1.example", "")), "\n", "\r\n"))},
	{"old Macs' line ends", "", mirrorsConf(strings.ReplaceAll(registryTable("origin.example", mirrorTable("m1.example", "")), "\n", "\r"))},
	{"no UTF-8", "", mirrorsConf("# \xff\n" + registryTable("origin.example", mirrorTable("m1.example", "")))},
	{"a NUL", "", mirrorsConf("# \x00\n" + registryTable("origin.example", mirrorTable("m1.example", "")))},
	{"a control character", "", mirrorsConf("# \x01\n" + registryTable("origin.example", mirrorTable("m1.example", "")))},
	{"a key twice", "", mirrorsConf("[[registry]]\nlocation = 'origin.example'\nlocation = 'origin.example'\n" + mirrorTable("m1.example", ""))},
	{"a key in upper case", "", mirrorsConf("[[registry]]\nLocation = 'origin.example'\n" + mirrorTable("m1.example", ""))},
	{"a table in upper case", "", mirrorsConf("[[Registry]]\nlocation = 'origin.example'\n[[Registry.Mirror]]\nlocation = 'm1.example'\n")},
	{"a table for an array", "", mirrorsConf("[registry]\nlocation = 'origin.example'\n")},
	{"a mirror for an array", "", mirrorsConf("[[registry]]\nlocation = 'origin.example'\n[registry.mirror]\nlocation = 'm1.example'\n")},
	{"inline", "", mirrorsConf("registry = [{location = 'origin.example', mirror = [{location = 'm1.example'}]}]\n")},
	{"a key that nobody knows", "", mirrorsConf(registryTable("origin.example", "x = 1\n"+mirrorTable("m1.example", "y = 1\n")))},
	{"a switch as a text", "", mirrorsConf(registryTable("origin.example", "insecure = 'true'\n"))},
	{"a host in upper case", "", mirrorsConf(registryTable("ORIGIN.example", mirrorTable("M1.example", "")))},
	{"a mirror in upper case", "", mirrorsConf(registryTable("origin.example", mirrorTable("M1.example", "")))},
	{"a password in a location", "", mirrorsConf(registryTable("origin.example", mirrorTable("u:p@m1.example", "")))},
	{"a space in a location", "", mirrorsConf(registryTable("origin.example", mirrorTable(" m1.example", "")))},
	{"white space alone", "", mirrorsConf(" \n\n")},
	{"an empty file", "", mirrorsConf("")},
	{"a broken drop-in", "", configFiles{homeRegistriesConfPath: registryTable("origin.example", mirrorTable("m1.example", "")), homeDropInPath + "a.conf": "[["}},
	{"a text of lines", "", mirrorsConf("[[registry]]\nlocation = \"\"\"\norigin.example\"\"\"\n" + mirrorTable("m1.example", ""))},
	{"a port alone", "", mirrorsConf(registryTable("origin.example:443", mirrorTable("m1.example", "")))},
	{"any host below, and a port", "sub.wild.example/app", mirrorsConf("[[registry]]\nprefix = '*.wild.example:443'\nlocation = 'm2.example'\n")},
	{"the hub's mirror", "docker.io/library/app", mirrorsConf(registryTable("docker.io", mirrorTable("m1.example/hub", "")))},
	{"the hub's mirror by a short path", "docker.io/library/app", mirrorsConf(registryTable("docker.io/app", mirrorTable("m1.example/hub", "")))},
	{"to the hub", "", mirrorsConf("[[registry]]\nprefix = 'origin.example/team'\nlocation = 'docker.io/library'\n")},
	{"to the hub without library", "", mirrorsConf("[[registry]]\nprefix = 'origin.example/team'\nlocation = 'docker.io'\n")},
}

// TestSkopeo verifies that regcred reports the route that skopeo takes for a registries.conf. CRI-O
// uses the same library and takes the same route.
func TestSkopeo(t *testing.T) {
	isolatedTests.SkipUnlessAvailable(t)
	h := startHosts(t)
	for _, tt := range registriesConfCases {
		t.Run(tt.name, func(t *testing.T) { compareConf(t, h, tt.files, tt.image) })
	}
}

func compareConf(t *testing.T, h *registryHosts, configuration configFiles, repository string) {
	t.Helper()
	home := t.TempDir()
	for name, text := range configuration {
		writeFile(t, filepath.Join(home, name), text)
	}
	if repository == "" {
		repository = "origin.example/team/app"
	}
	c := must.Get(registriesconf.Read(registriesconf.Options{Runtime: registriesconf.Podman, Home: home}))(t)
	digest := h.pushImage(t, "latest")
	for _, image := range []string{repository + ":latest", repository + "@" + digest} {
		ref := must.Get(route.Parse(image))(t)
		said := c.Route(ref)
		h.takeRequests()
		out := inspectWithSkopeo(t, h, home, image)
		_, all := predictedRequests(said)
		checkRequests(t, image+" ("+said.FailureReason+")", all, recordedRequests(h.takeRequests(), func(s loggedRequest) bool { return s.kind == "manifests" }))
		if t.Failed() {
			t.Logf("skopeo: %s", out)
		}
	}
}

// inspectWithSkopeo runs skopeo for an image that no host has, and returns its output.
func inspectWithSkopeo(t *testing.T, h *registryHosts, home, image string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "skopeo", "inspect", "--raw", "--creds", kubeletUser+":secret", "docker://"+image)
	cmd.Env = append(os.Environ(), "HOME="+home, "SSL_CERT_FILE="+h.ca, "SSL_CERT_DIR=/nowhere", "no_proxy=*", "NO_PROXY=*", "XDG_RUNTIME_DIR=", "XDG_CONFIG_HOME=")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("%s was not read from any host", image)
	}
	return string(out)
}

// randomLocation generates a host in a form that registries.conf allows.
func (d configGenerator) randomLocation() string {
	return d.chooseOne("m1.example", "m2.example", "m3.example", "m4.example:5443", "m1.example:5000", "origin.example", "docker.io") + d.chooseOne("", "", "/", "/pre", "/library", "/a/b")
}

// randomRegistriesConf generates a complete registries.conf.
func (d configGenerator) randomRegistriesConf() string {
	var b strings.Builder
	for range 1 + d.IntN(3) {
		b.WriteString("[[registry]]\n")
		if !d.oneIn(4) {
			fmt.Fprintf(&b, "prefix = %q\n", d.chooseOne("origin.example", "origin.example/team", "origin.example:5443", "docker.io", "docker.io/library", "*.example", "*.wild.example", "m1.example", "origin.example/team/app"))
		}
		if !d.oneIn(8) {
			fmt.Fprintf(&b, "location = %q\n", d.randomLocation())
		}
		for _, flag := range []string{"blocked = true", "insecure = true", "mirror-by-digest-only = true"} {
			if d.oneIn(8) {
				b.WriteString(flag + "\n")
			}
		}
		for range d.IntN(3) {
			// Without TrimSuffix every pull would fail, because skopeo 1.9 keeps the slash.
			b.WriteString(mirrorTable(strings.TrimSuffix(d.randomLocation(), "/"), d.chooseOne("", "", "", "insecure = true\n", "pull-from-mirror = 'tag-only'\n", "pull-from-mirror = 'digest-only'\n")))
		}
	}
	return b.String()
}

// TestSkopeoAtRandom is like [TestSkopeo], with random configurations.
func TestSkopeoAtRandom(t *testing.T) {
	isolatedTests.SkipUnlessAvailable(t)
	h := startHosts(t)
	random := configGenerator{rand.New(rand.NewPCG(*randomSeed, 1))}
	for i := range *randomCases {
		f := mirrorsConf(random.randomRegistriesConf())
		if random.oneIn(3) {
			f[homeDropInPath+"x.conf"] = random.randomRegistriesConf()
		}
		if random.oneIn(2) {
			f[homeAuthPath] = dockerConfig(random.chooseOne("m1.example", "m1.example/pre", "origin.example", "https://index.docker.io/v1/", "m1.example:5000"), "m2.example/a/b")
		}
		image := random.chooseOne("origin.example/team/app", "origin.example:5443/team/app", "docker.io/library/app", "sub.wild.example/app", "m1.example/pre/app")
		t.Run(fmt.Sprintf("%d/%d", *randomSeed, i), func(t *testing.T) {
			compareConf(t, h, f, image)
			if t.Failed() {
				for _, name := range slices.Sorted(maps.Keys(f)) {
					t.Logf("%s:\n%s", name, f[name])
				}
			}
		})
	}
}
