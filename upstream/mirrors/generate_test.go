// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package mirrors

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var (
	randomSeed        = flag.Uint64("seed", 14, "of the configurations that are made at random")
	randomCases = flag.Int("many", 60, "how many of them there are for each runtime")
)

// configGenerator generates random configurations.
type configGenerator struct{ *rand.Rand }

func (d configGenerator) chooseOne(of ...string) string { return of[d.IntN(len(of))] }

// oneIn returns true with probability 1/n.
func (d configGenerator) oneIn(n int) bool { return d.IntN(n) == 0 }

// randomAddress generates a host in a form that hosts.toml allows.
func (d configGenerator) randomAddress() string {
	host := d.chooseOne("m1.example", "m2.example", "m3.example", "m4.example", "origin.example", "registry-1.docker.io")
	scheme := d.chooseOne("https://", "https://", "https://", "", "http://")
	port := ""
	if d.oneIn(3) {
		port = ":" + d.chooseOne(tlsPorts...)
		if scheme == "http://" {
			port = ":" + d.chooseOne(plainPorts...)
		}
	}
	return scheme + host + port + d.chooseOne("", "", "", "/", "/v2", "/v2/", "/pre", "/v2/pre", "/pre/v2", "/a/../b//c")
}

// randomSettings generates settings for a table in hosts.toml.
func (d configGenerator) randomSettings() (text string) {
	if d.oneIn(3) {
		text += fmt.Sprintf("capabilities = [%s]\n", d.chooseOne("'pull', 'resolve'", "'pull'", "'resolve'", "'push', 'pull'", "'PULL', 'RESOLVE'", "", "'referrers', 'pull', 'resolve'", "'none'"))
	}
	if d.oneIn(3) {
		text += "override_path = " + d.chooseOne("true", "true", "false", "1") + "\n"
	}
	if d.oneIn(6) {
		text += "skip_verify = " + d.chooseOne("true", "false") + "\n"
	}
	if d.oneIn(12) {
		text += "dial_timeout = " + d.chooseOne("'5s'", "'5'") + "\n"
	}
	if d.oneIn(12) {
		text += "ca = " + d.chooseOne("'none.pem'", "[]", "[['a']]") + "\n"
	}
	return text
}

// randomHostsTOML generates a complete hosts.toml.
func (d configGenerator) randomHostsTOML() string {
	var b strings.Builder
	if d.oneIn(2) {
		fmt.Fprintf(&b, "server = %q\n", d.randomAddress())
	}
	b.WriteString(d.randomSettings())
	for range d.IntN(4) {
		address := d.randomAddress()
		if strings.Contains(b.String(), fmt.Sprintf("%q", address)) {
			continue // a duplicate table is invalid TOML
		}
		fmt.Fprintf(&b, "[host.%q]\n%s", address, d.randomSettings())
	}
	if d.oneIn(4) {
		// No other table has this host: once containerd 1 knows a host's authentication
		// method, it sends no configured header to that host.
		fmt.Fprintf(&b, "[host.'https://m5.example'.header]\n%s = 'Basic aGVhZGVyOng='\n", d.chooseOne("Authorization", "X-Other"))
	}
	if d.oneIn(8) {
		b.WriteString("[host]\n")
	}
	return b.String()
}

// randomCertSettings generates files below certs.d, and an image for which containerd may read them.
func (d configGenerator) randomCertSettings() (configFiles, string) {
	host := d.chooseOne("origin.example", "origin.example:5443", "docker.io", "localhost:5000", "127.0.0.1:5443", "origin.example:443")
	f := configFiles{}
	for _, dir := range []string{host, strings.Replace(host, ":", "_", 1) + "_", strings.Split(host, ":")[0], "_default", "other.example"} {
		if d.oneIn(2) {
			f["certs.d/"+dir+"/"+d.chooseOne("hosts.toml", "hosts.toml", "hosts.toml", "readme")] = d.randomHostsTOML()
		}
	}
	return f, host + "/" + d.chooseOne("app", "team/app", "a/b/c")
}

// TestContainerdAtRandom is like [TestContainerd], with random configurations.
func TestContainerdAtRandom(t *testing.T) {
	isolatedTests.SkipUnlessAvailable(t)
	h := startHosts(t)
	for version, program := range buildPrograms() {
		d := startContainerd(t, program, baseConfig(version, sectionHeader(version, "registry")+"config_path = 'DIR/certs.d'\n"), h.ca)
		random := configGenerator{rand.New(rand.NewPCG(*randomSeed, 0))}
		for i := range *randomCases {
			f, image := random.randomCertSettings()
			if strings.HasPrefix(image, "docker.io/app") {
				image = "docker.io/library/app"
			}
			t.Run(fmt.Sprintf("%s/%d/%d", version, *randomSeed, i), func(t *testing.T) {
				d.compareConfiguration(t, h, f, image)
				if t.Failed() {
					for _, name := range slices.Sorted(maps.Keys(f)) {
						t.Logf("%s:\n%s", name, f[name])
					}
				}
			})
		}
	}
}
