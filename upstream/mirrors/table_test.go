// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package mirrors

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/containerd"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/route"
)

// configFiles maps paths below a daemon's directory, which contains certs.d, to their content.
type configFiles map[string]string

// hostsTOML returns a hosts.toml for origin.example with this text.
func hostsTOML(text string) configFiles { return configFiles{"certs.d/origin.example/hosts.toml": text} }

// hostsTOMLCases lists hand-written hosts.toml files. Each covers a rule that containerd's documentation
// omits or describes differently.
var hostsTOMLCases = []struct {
	name  string
	image string // "" means origin.example/team/app
	files configFiles
}{
	{"nothing", "", configFiles{}},
	{"the hub", "docker.io/library/app", configFiles{}},
	{"a mirror, and the origin by itself", "", hostsTOML("[host.'https://m1.example']\n")},
	{"in the order of the file", "", hostsTOML("[host.'https://m3.example']\n[host.'https://m1.example']\n[host.'https://m2.example']\n")},
	{"an order that is taken up again", "", hostsTOML("[host.'https://m1.example']\n[host.'https://m2.example']\n[host.'https://m1.example'.header]\nx-a = 'b'\n")},
	{"a table of tables alone", "", hostsTOML("[host.'https://m2.example'.header]\nx-a = 'b'\n[host.'https://m1.example']\n")},
	{"inline", "", hostsTOML("server = 'https://m4.example'\nhost = {'https://m1.example' = {}}\n")},
	{"inline, below a table", "", hostsTOML("[host]\n'https://m1.example' = {}\n[host.'https://m2.example']\n")},
	{"dotted", "", hostsTOML("host.'https://m1.example'.skip_verify = true\n")},
	{"server alone", "", hostsTOML("server = 'https://m1.example'\n")},
	{"server, and an empty table", "", hostsTOML("server = 'https://m1.example'\n[host]\n")},
	{"server is the mirror", "", hostsTOML("server = 'https://m1.example'\n[host.'https://m1.example']\n")},
	{"server is the origin", "", hostsTOML("server = 'https://origin.example'\n[host.'https://m1.example']\n")},
	{"server of no host", "", hostsTOML("server = 'https:///'\n[host.'https://m1.example']\n")},
	{"no scheme", "", hostsTOML("server = 'm2.example/pre'\n[host.'m1.example']\n")},
	{"paths", "", hostsTOML("[host.'https://m1.example/pre']\n[host.'https://m2.example/v2/pre']\n[host.'https://m3.example/pre/v2']\n[host.'https://m4.example/']\n")},
	{"paths as they are", "", hostsTOML("[host.'https://m1.example/pre']\noverride_path = true\n[host.'https://m2.example/v2/pre']\noverride_path = true\n" +
		"[host.'https://m3.example']\noverride_path = true\n[host.'https://m4.example/a//b/../c/']\noverride_path = true\n")},
	{"override_path at the root is the server's", "", hostsTOML("server = 'https://m2.example/pre'\noverride_path = true\n[host.'https://m1.example/pre']\n")},
	{"capabilities", "", hostsTOML("[host.'https://m1.example']\ncapabilities = ['pull']\n[host.'https://m2.example']\ncapabilities = ['resolve']\n" +
		"[host.'https://m3.example']\ncapabilities = ['push']\n[host.'https://m4.example']\ncapabilities = ['PULL', 'Resolve']\n")},
	{"capabilities of the server", "", hostsTOML("server = 'https://m2.example'\ncapabilities = ['pull']\n[host.'https://m1.example']\n")},
	{"capabilities of the origin do not count", "", hostsTOML("capabilities = ['push']\n[host.'https://m1.example']\n")},
	{"no capabilities are all", "", hostsTOML("[host.'https://m1.example']\ncapabilities = []\n")},
	{"an unknown capability", "", hostsTOML("server = 'https://m2.example'\n[host.'https://m1.example']\ncapabilities = ['fetch']\n")},
	{"a capability of later", "", hostsTOML("[host.'https://m1.example']\ncapabilities = ['pull', 'resolve', 'referrers']\n")},
	{"broken", "", hostsTOML("server = 'https://m2.example'\n[host.'https://m1.example'\n")},
	{"a switch as a text", "", hostsTOML("[host.'https://m1.example']\nskip_verify = 'true'\n")},
	{"a dial_timeout that is none", "", hostsTOML("[host.'https://m1.example']\ndial_timeout = 'soon'\n")},
	{"an empty file", "", hostsTOML("")},
	{"a key that nobody knows", "", hostsTOML("endpoint = 'https://m2.example'\n[host.'https://m1.example']\nserver = 'https://m3.example'\n")},
	{"plain http", "", hostsTOML("server = 'http://m2.example'\n[host.'http://m1.example:5000']\n")},
	{"plain http with TLS", "", hostsTOML("[host.'http://m1.example:5000']\nskip_verify = true\n[host.'http://m2.example:5443']\nskip_verify = true\n[host.'http://m3.example']\nskip_verify = false\n")},
	{"a header", "", hostsTOML("[host.'https://m1.example'.header]\nAuthorization = 'Basic aGVhZGVyOng='\n")},
	{"a header of the root", "", hostsTOML("[host.'https://m1.example']\n[header]\nAuthorization = ['Basic aGVhZGVyOng=']\n")},
	{"a ca that is not there", "", hostsTOML("[host.'https://m1.example']\nca = 'none.pem'\n")},
	{"a client that is not there", "", hostsTOML("[host.'https://m1.example']\nclient = [['a', 'b']]\n")},
	{"a directory alone", "", configFiles{"certs.d/origin.example/x": "", "certs.d/_default/hosts.toml": "server = 'https://m1.example'\n[host]\n"}},
	{"a default", "", configFiles{"certs.d/_default/hosts.toml": "[host.'https://m1.example']\n"}},
	{"a port", "origin.example:5443/team/app", configFiles{
		"certs.d/origin.example/hosts.toml": "[host.'https://m1.example']\n", "certs.d/_default/hosts.toml": "[host.'https://m2.example']\n",
	}},
	{"a port, as of old", "origin.example:5443/team/app", configFiles{"certs.d/origin.example:5443/hosts.toml": "[host.'https://m1.example']\n"}},
	{"a port, both ways", "origin.example:5443/team/app", configFiles{
		"certs.d/origin.example:5443/hosts.toml": "[host.'https://m1.example']\n", "certs.d/origin.example_5443_/hosts.toml": "[host.'https://m2.example']\n",
	}},
	{"the hub under another name", "docker.io/library/app", configFiles{"certs.d/registry-1.docker.io/hosts.toml": "[host.'https://m1.example']\n"}},
	{"the hub's mirror", "docker.io/library/app", configFiles{"certs.d/docker.io/hosts.toml": "[host.'https://m1.example/v2/hub']\noverride_path = true\n"}},
	{"loopback", "localhost:5000/team/app", configFiles{"certs.d/localhost_5000_/hosts.toml": "[host.'http://m1.example:5000']\n"}},
	{"loopback by number", "127.0.0.1:5000/team/app", configFiles{}},
	{"loopback with TLS", "127.0.0.1:5443/team/app", configFiles{}},
	{"a file for a directory", "", configFiles{"certs.d/origin.example": ""}},
	{"a directory for the file", "", configFiles{"certs.d/origin.example/hosts.toml/x": ""}},
	// TOML parsers treat these files differently, and containerd 1.6 uses another parser than
	// containerd 2.
	{"a BOM", "", hostsTOML("\ufeff[host.'https://m1.example']\n")},
	{"Windows line ends", "", hostsTOML("server = 'https://m2.example'\r\n[host.'https://m1.example']\r\ncapabilities = ['pull', 'resolve']\r\n")},
	{"old Macs' line ends", "", hostsTOML("server = 'https://m2.example'\r[host.'https://m1.example']\r")},
	{"a key twice", "", hostsTOML("[host.'https://m1.example']\nskip_verify = true\nskip_verify = true\n")},
	{"a server twice", "", hostsTOML("server = 'https://m1.example'\nserver = 'https://m2.example'\n[host]\n")},
	{"a table twice", "", hostsTOML("[host.'https://m1.example']\n[host.'https://m1.example']\n")},
	{"a table twice, apart", "", hostsTOML("[host.'https://m1.example']\n[host.'https://m2.example']\n[host.'https://m1.example']\n")},
	{"dotted keys", "", hostsTOML("host.'https://m1.example'.capabilities = ['pull', 'resolve']\nhost.'https://m2.example'.override_path = false\n")},
	{"dotted keys in a table", "", hostsTOML("[host]\n'https://m1.example'.capabilities = ['pull', 'resolve']\n")},
	{"a key in a table", "", hostsTOML("[host]\n'https://m1.example' = {capabilities = ['pull', 'resolve']}\n")},
	{"inline tables", "", hostsTOML("host = {'https://m1.example' = {override_path = false}}\n")},
	{"an inline header", "", hostsTOML("[host.'https://m1.example']\nheader = {x-a = ['b']}\n")},
	{"an array of tables", "", hostsTOML("[[host.'https://m1.example']]\n")},
	{"an array of hosts", "", hostsTOML("[[host]]\nserver = 'https://m1.example'\n")},
	{"a key in upper case", "", hostsTOML("Server = 'https://m2.example'\n[host.'https://m1.example']\nCapabilities = ['push']\n")},
	{"the table in upper case", "", hostsTOML("[Host.'https://m1.example']\n")},
	{"a key without quotes", "", hostsTOML("[host.https]\n[host.m1.example]\n")},
	{"a space in a header of a table", "", hostsTOML("[ host . 'https://m1.example' ]\n")},
	{"a comment after", "", hostsTOML("[host.'https://m1.example'] # and so on\ncapabilities = [ # two\n 'pull', 'resolve', # end\n]\n")},
	{"a list of two types", "", hostsTOML("[host.'https://m1.example']\ncapabilities = ['pull', 1]\n")},
	{"a list in a list", "", hostsTOML("[host.'https://m1.example']\nclient = [['a', 'b'], 'c']\n")},
	{"a text for a list", "", hostsTOML("[host.'https://m1.example']\ncapabilities = 'pull'\n")},
	{"a number for the server", "", hostsTOML("server = 5\n[host.'https://m1.example']\n")},
	{"a number for a host", "", hostsTOML("[host]\n'https://m1.example' = 1\n")},
	{"a text for the hosts", "", hostsTOML("host = 'https://m1.example'\n")},
	{"no UTF-8", "", hostsTOML("# \xff\n[host.'https://m1.example']\n")},
	{"a NUL", "", hostsTOML("# \x00\n[host.'https://m1.example']\n")},
	{"no line end", "", hostsTOML("[host.'https://m1.example']")},
	{"white space alone", "", hostsTOML("\n \n")},
	{"a comment alone", "", hostsTOML("# nothing\n")},
	{"a hexadecimal number", "", hostsTOML("x = 0xff\ny = 1_000\nz = 1979-05-27T07:32:00Z\nw = inf\n[host.'https://m1.example']\n")},
	{"a time without a date", "", hostsTOML("x = 07:32:00\n[host.'https://m1.example']\n")},
	{"a text of lines", "", hostsTOML("server = \"\"\"\nhttps://m2.example\"\"\"\n[host.'https://m1.example']\n")},
	{"a host in upper case", "", hostsTOML("server = 'https://ORIGIN.example'\n[host.'HTTPS://m1.example']\n")},
	{"no scheme", "", hostsTOML("server = 'm2.example'\n[host.'m1.example/pre']\n")},
	{"a slash before a scheme", "", hostsTOML("[host.'//m1.example']\n")},
	{"two URLs in one", "", hostsTOML("server = 'https://docker.i://m2.example'\n[host.'https://m1.example']\n")},
	{"a user in a URL", "", hostsTOML("server = 'https://u:p@m2.example'\n[host.'https://u:p@m1.example']\n")},
	{"a query in a URL", "", hostsTOML("[host.'https://m1.example?ns=x']\n[host.'https://m2.example/pre#a']\n")},
	{"a space in a URL", "", hostsTOML("[host.' https://m1.example']\n[host.'https://m2.example ']\n")},
	{"a percent in a URL", "", hostsTOML("[host.'https://m1.example/a%2Fb']\n")},
	{"a port that is none", "", hostsTOML("[host.'https://m1.example:x']\n")},
	{"an empty host", "", hostsTOML("[host.'']\n[host.'https://m1.example']\n")},
	{"nine of ten", "", hostsTOML("[host.'https://m1.example']\n[host.'https://m1.example/pre']\n[host.'https://origin.example']\n")},
}

// sectionHeader returns the header of a table in the CRI plugin's configuration, for a containerd
// version.
func sectionHeader(version string, keys ...string) string {
	plugin := "plugins.'io.containerd.grpc.v1.cri'"
	if version == "2" {
		plugin = "plugins.'io.containerd.cri.v1.images'"
	}
	return "[" + strings.Join(append([]string{plugin}, keys...), ".") + "]\n"
}

// baseConfig returns the configuration of a containerd that runs no containers. It ends with the
// text registry.
func baseConfig(version, registry string) string {
	if version == "2" {
		return "version = 3\ndisabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.internal.v1.tracing']\n" +
			"[plugins.'io.containerd.cri.v1.runtime']\ndisable_cgroup = true\nrestrict_oom_score_adj = true\n" +
			"[[plugins.'io.containerd.transfer.v1.local'.unpack_config]]\nplatform = 'linux/" + runtime.GOARCH + "'\nsnapshotter = 'native'\n" +
			sectionHeader(version) + "snapshotter = 'native'\n" + registry
	}
	return "version = 2\n" + sectionHeader(version) + "disable_cgroup = true\nrestrict_oom_score_adj = true\nsandbox_image = 'none.example/pause:1'\n" +
		sectionHeader(version, "containerd") + "snapshotter = 'native'\n" + registry
}

// TestContainerd verifies that regcred reports the route that containerd takes for a hosts.toml.
func TestContainerd(t *testing.T) {
	isolatedTests.SkipUnlessAvailable(t)
	h := startHosts(t)
	for version, program := range buildPrograms() {
		d := startContainerd(t, program, baseConfig(version, sectionHeader(version, "registry")+"config_path = 'DIR/certs.d'\n"), h.ca)
		for _, tt := range hostsTOMLCases {
			t.Run(version+"/"+tt.name, func(t *testing.T) { d.compareConfiguration(t, h, tt.files, tt.image) })
		}
	}
}

// compareConfiguration pulls an image by tag and by digest, and compares the requests with the reported route.
// At first no host has the image. Then only the last host has it.
func (d *containerdDaemon) compareConfiguration(t *testing.T, h *registryHosts, configuration configFiles, repository string) {
	t.Helper()
	must.Do(t, os.RemoveAll(d.filePath("certs.d")))
	for name, text := range configuration {
		writeFile(t, d.filePath(name), text)
	}
	if repository == "" {
		repository = "origin.example/team/app"
	}
	r := must.Get(containerd.Read("", d.filePath("config.toml"), d.version))(t)
	tag := "t" + sha256Digest([]byte(t.Name()))[7:19]
	h.pushImage(t, tag)
	digest := h.pushImage(t, "d"+tag) // another image, because the runtime may keep the first manifest
	for _, image := range []string{repository + ":" + tag, repository + "@" + digest} {
		ref := must.Get(route.Parse(image))(t)
		d.compareRoute(t, h, r.Route(ref), image)
	}
}

func (d *containerdDaemon) compareRoute(t *testing.T, h *registryHosts, said *route.Route, image string) {
	t.Helper()
	h.takeRequests()
	err := d.pullImage(t, image)
	log := h.takeRequests()
	if err == nil {
		t.Fatalf("%s was not pulled from any host", image)
	}
	resolve, all := predictedRequests(said)
	byTag := !strings.Contains(image, "@")
	if said.FailureReason != "" {
		checkRequests(t, image+" fails", nil, recordedRequests(log, func(loggedRequest) bool { return true }))
		return
	}
	checkRequests(t, image+" from nobody", resolve, recordedRequests(log, func(s loggedRequest) bool { return s.kind == "manifests" && s.tag == byTag }))
	if len(resolve) == 0 {
		return
	}
	last := resolve[len(resolve)-1]
	h.takeRequests(last.URL)
	err = d.pullImage(t, image)
	log = h.takeRequests()
	if err != nil {
		t.Errorf("%s from %s: %v", image, last.URL, err)
	}
	until := slices.IndexFunc(all, func(a hostRequest) bool { return a.URL == last.URL }) + 1
	want := slices.Clone(all[:until])
	for _, a := range resolve {
		want = appendUnique(want, a)
	}
	checkRequests(t, image+" from the last", sortRequests(want), sortRequests(recordedRequests(log, func(loggedRequest) bool { return true })))
}

// TestContainerdConfig is like [TestContainerd], for settings in config.toml.
func TestContainerdConfig(t *testing.T) {
	isolatedTests.SkipUnlessAvailable(t)
	h := startHosts(t)
	mirrors := func(version, host string, endpoints ...string) string {
		return sectionHeader(version, "registry", "mirrors", fmt.Sprintf("%q", host)) + "endpoint = ['" + strings.Join(endpoints, "', '") + "']\n"
	}
	for version, program := range buildPrograms() {
		for name, tt := range map[string]struct {
			registry, image string
			files           configFiles
			images          []string
		}{
			"mirrors": {registry: mirrors(version, "origin.example", "https://m1.example", "https://m2.example/pre", "m3.example/v2/x") +
				mirrors(version, "*", "https://m4.example") + mirrors(version, "origin.example:5443", "https://origin.example:5443/x", "http://m1.example"),
				images: []string{"origin.example/team/app", "docker.io/library/app", "origin.example:5443/a/b", "localhost:5000/a/b"}},
			"passwords": {registry: sectionHeader(version, "registry", "configs", "'m1.example'", "auth") + "username = 'own'\npassword = 'x'\n" + mirrors(version, "origin.example", "https://m1.example"),
				images: []string{"origin.example/team/app"}},
			"headers": {registry: sectionHeader(version, "registry") + "config_path = 'DIR/certs.d'\n" + sectionHeader(version, "registry", "headers") + "X-A = ['b']\n",
				files: hostsTOML("[host.'https://m1.example']\n"), images: []string{"origin.example/team/app"}},
			"two roots": {registry: sectionHeader(version, "registry") + "config_path = 'DIR/none:DIR/certs.d'\n",
				files: hostsTOML("[host.'https://m1.example']\n"), images: []string{"origin.example/team/app"}},
			"two roots, not by the transfer service": {registry: "discard_unpacked_layers = true\n" + sectionHeader(version, "registry") + "config_path = 'DIR/none:DIR/certs.d'\n",
				files: hostsTOML("[host.'https://m1.example']\n"), images: []string{"origin.example/team/app"}},
			"nothing": {files: hostsTOML("[host.'https://m1.example']\n"), images: []string{"origin.example/team/app", "127.0.0.1:5000/a", "localhost/a/b"}},
			"imports": {registry: sectionHeader(version, "registry") + "config_path = 'DIR/certs.d'\n", files: configFiles{
				"certs.d/origin.example/hosts.toml": "[host.'https://m1.example']\n",
			}, images: []string{"origin.example/team/app"}},
		} {
			t.Run(version+"/"+name, func(t *testing.T) {
				config := baseConfig(version, tt.registry)
				if name == "imports" {
					drop := filepath.Join(t.TempDir(), "x.toml")
					writeFile(t, drop, "version = 2\n"+sectionHeader(version, "containerd")+"snapshotter = 'native'\n")
					config = "imports = ['" + drop + "']\n" + config
				}
				d := startContainerd(t, program, config, h.ca)
				for i, image := range tt.images {
					t.Run(fmt.Sprint(i), func(t *testing.T) { d.compareConfiguration(t, h, tt.files, image) })
				}
			})
		}
	}
}
