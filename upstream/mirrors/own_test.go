// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package mirrors

import (
	"fmt"
	"os"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/regcred/regcred/internal/containerd"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/route"
)

// TestContainerdOwnCredentials verifies which hosts get containerd's own credentials: only if the
// kubelet sends none, and only under the name and port that containerd contacts.
func TestContainerdOwnCredentials(t *testing.T) {
	isolatedTests.SkipUnlessAvailable(t)
	h := startHosts(t)
	for version, program := range buildPrograms() {
		login := func(host, user string) string {
			return sectionHeader(version, "registry", "configs", fmt.Sprintf("%q", host), "auth") + "username = '" + user + "'\npassword = 'x'\n"
		}
		d := startContainerd(t, program, baseConfig(version, sectionHeader(version, "registry")+"config_path = 'DIR/certs.d'\n"+
			login("m1.example", "own1")+login("registry-1.docker.io", "ownHub")+login("origin.example:5443", "ownPort")+
			// No request uses these keys.
			login("docker.io", "never1")+login("https://origin.example", "never2")+login("*", "never3")+login("m3.example:5443", "never4")), h.ca)
		for image, tt := range map[string]struct {
			files configFiles
			own   bool // a host gets containerd's own credential
		}{
			"origin.example/team/app":      {hostsTOML("[host.'https://m2.example']\n[host.'https://m1.example/v2/cache']\noverride_path = true\n[host.'https://m3.example']\n"), true},
			"origin.example:5443/team/app": {configFiles{}, true},
			"origin.example/a/b":           {configFiles{}, false},
			"docker.io/library/app":        {configFiles{}, true},
			"m1.example/app":               {configFiles{"certs.d/_default/hosts.toml": "[host.'https://m4.example']\n"}, true},
			"m2.example/app": {configFiles{"certs.d/m2.example/hosts.toml": "[host.'https://m1.example']\n[host.'https://m1.example'.header]\nAuthorization = 'Basic aGVhZGVyOng='\n" +
				"[host.'https://m3.example'.header]\nAuthorization = 'Basic aGVhZGVyOng='\n"}, true},
		} {
			must.Do(t, os.RemoveAll(d.filePath("certs.d")))
			must.Do(t, os.Mkdir(d.filePath("certs.d"), 0o755))
			for name, text := range tt.files {
				writeFile(t, d.filePath(name), text)
			}
			for _, sends := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%v", version, image, sends), func(t *testing.T) {
					var auth *runtimeapi.AuthConfig
					if sends {
						auth = &runtimeapi.AuthConfig{Username: kubeletUser, Password: "secret"}
					}
					way := must.Get(containerd.Read("", d.filePath("config.toml"), d.version))(t).Route(must.Get(route.Parse(image + ":t"))(t))
					if way.UsesOwnCredential() != tt.own {
						t.Errorf("own credentials: %q, want %v", way.OwnCredentials(), tt.own)
					}
					for i := range way.Hops {
						way.Hops[i].Credential = way.Hops[i].CredentialIf(sends)
					}
					h.takeRequests()
					if err := d.pullWith(t, image+":t", auth); err == nil {
						t.Fatal("the image does not exist, and was pulled")
					}
					want, _ := predictedRequests(way)
					checkRequests(t, image, want, recordedRequests(h.takeRequests(), func(s loggedRequest) bool { return s.kind == "manifests" }))
				})
			}
		}
	}
}
