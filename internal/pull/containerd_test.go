// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/containerd"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcri"
	"github.com/regcred/regcred/internal/testregistry"
)

// These tests pull into a real containerd.

func dialContainerd(t *testing.T, opts RuntimeOptions, environ ...string) (*Runtime, *testcri.Containerd) {
	t.Helper()
	c := testcri.StartContainerd(t, environ...)
	r := must.Get(DialRuntime(t.Context(), c.Socket, opts))(t)
	t.Cleanup(func() { r.Close() })
	if r.Name != "containerd" || r.Version == "" {
		t.Errorf("it calls itself %q, version %q", r.Name, r.Version)
	}
	return r, c
}

// servedUsers returns the users whose requests for a manifest got the given status.
// Consecutive requests of a user are listed once.
func servedUsers(reg *testregistry.Server, status int) []string {
	var list []string
	for _, req := range reg.Requests() {
		if strings.Contains(req.Path, "/manifests/") && req.Status == status && (len(list) == 0 || list[len(list)-1] != req.User) {
			list = append(list, req.User)
		}
	}
	return list
}

func TestContainerdLogin(t *testing.T) {
	var refused []string
	r, _ := dialContainerd(t, RuntimeOptions{OnRejected: func(c regcred.Credential) { refused = append(refused, c.Provider) }})
	for name, auth := range map[string]testregistry.Auth{"Basic": testregistry.AuthBasic, "Bearer": testregistry.AuthBearer} {
		t.Run(name, func(t *testing.T) {
			reg, image, _ := startRegistryWith(t, testregistry.Options{Auth: auth, Rules: []testregistry.Rule{{User: "ci", Pull: true}}}, testregistry.Image{Seed: int64(auth)})
			refused = nil
			for _, tt := range []struct {
				creds  []regcred.Credential
				status []int
			}{
				{nil, []int{401}},
				{[]regcred.Credential{wrongCredential}, []int{401}},
				{[]regcred.Credential{devCredential}, []int{403}},
				{[]regcred.Credential{wrongCredential, devCredential}, []int{401, 403}},
			} {
				_, err := r.Pull(t.Context(), image, PullIfNotPresent, fixedLookup(tt.creds...))
				var failed *Error
				if !errors.As(err, &failed) {
					t.Fatalf("got %v, want an *Error", err)
				}
				var got []int
				for _, try := range failed.Tries {
					got = append(got, try.Status)
				}
				if diff := cmp.Diff(tt.status, got); diff != "" {
					t.Errorf("statuses (-want +got):\n%s%v", diff, err)
				}
			}
			if diff := cmp.Diff([]string{"bad", "bad"}, refused); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}

			reg.ResetLog()
			res, err := r.Pull(t.Context(), image, PullIfNotPresent, fixedLookup(wrongCredential, devCredential, goodCredential))
			if err != nil {
				t.Fatal(err)
			}
			if res.Credential.Provider != "good" || len(res.Failed) != 2 || !strings.HasPrefix(res.ImageRef, "sha256:") || res.Size == 0 {
				t.Errorf("got %+v, want a pull with the third credential", res)
			}
			if diff := cmp.Diff([]string{"ci"}, servedUsers(reg, http.StatusOK)); diff != "" {
				t.Errorf("served (-want +got):\n%s", diff)
			}
			_, err = r.Pull(t.Context(), strings.Replace(image, ":v1", ":none", 1), PullAlways, fixedLookup(goodCredential))
			var failed *Error
			if !errors.As(err, &failed) || failed.Tries[0].Status != http.StatusNotFound {
				t.Errorf("a tag that is not there: got %v", err)
			}
		})
	}
}

func TestContainerdPolicy(t *testing.T) {
	r, _ := dialContainerd(t, RuntimeOptions{})
	reg, image, _ := startRegistry(t, testregistry.AuthBasic)
	if _, err := r.Pull(t.Context(), image, PullNever, fixedLookup(goodCredential)); !errors.Is(err, errNotPresent) {
		t.Errorf("Never, absent: got %v", err)
	}
	for _, tt := range []struct {
		policy  Policy
		present bool
	}{
		{PullIfNotPresent, false}, {PullIfNotPresent, true}, {PullNever, true}, {PullAlways, false},
	} {
		reg.ResetLog()
		res, err := r.Pull(t.Context(), image, tt.policy, fixedLookup(goodCredential))
		if err != nil {
			t.Fatalf("%s: %v", tt.policy, err)
		}
		if res.Present != tt.present || (len(reg.Requests()) == 0) != tt.present || res.Size == 0 {
			t.Errorf("%s: present %t after %d requests, %d bytes; want %t", tt.policy, res.Present, len(reg.Requests()), res.Size, tt.present)
		}
	}
}

// TestContainerdPauseImage pulls the pause image that containerd reports.
func TestContainerdPauseImage(t *testing.T) {
	r, c := dialContainerd(t, RuntimeOptions{})
	_, want, _ := startRegistry(t, testregistry.AuthBasic)
	c.Stop()
	c.SetSandboxImage(want)
	c.Start()
	got, from, err := r.PauseImage(t.Context())
	if err != nil || got != want {
		t.Fatalf("got %q, %v; want %q", got, err, want)
	}
	res := must.Get(r.Pull(t.Context(), got, PullIfNotPresent, fixedLookup(goodCredential)))(t)
	again := must.Get(r.Pull(t.Context(), got, PullNever, fixedLookup()))(t)
	// Debian 12 has containerd 1.6.20. Pinned images were added in 1.6.22 and 1.7.2.
	if pins := !strings.HasPrefix(r.Version, "1.6.20"); res.Pinned != pins || again.Pinned != pins {
		t.Errorf("containerd %s: pinned is %t after the pull, %t later; want %t", r.Version, res.Pinned, again.Pinned, pins)
	}
	// containerd.PauseImage, which containerd 2 needs, must return the same image.
	if got, file, err := containerd.PauseImage(t.Context(), c.Socket); err != nil || got != want || file != c.ConfigPath() {
		t.Errorf("its configuration: got %q in %q, %v; want %q in %q", got, file, err, want, c.ConfigPath())
	}
	t.Logf("containerd %s: from %s", r.Version, from)
}

// TestContainerdPins verifies that containerd sends the credential only to the image's
// registry, and not to a mirror.
func TestContainerdPins(t *testing.T) {
	var refused int
	r, c := dialContainerd(t, RuntimeOptions{OnRejected: func(regcred.Credential) { refused++ }})
	for name, auth := range map[string]testregistry.Auth{"Basic": testregistry.AuthBasic, "Bearer": testregistry.AuthBearer} {
		t.Run(name, func(t *testing.T) {
			mirror, image, _ := startRegistry(t, auth)
			for _, host := range []string{"registry.invalid", "docker.io"} {
				c.AddMirror(host, mirror.URL())
				mirror.ResetLog()
				elsewhere := strings.Replace(image, mirror.Addr(), host, 1)
				_, err := r.Pull(t.Context(), elsewhere, PullAlways, fixedLookup(goodCredential))
				if err == nil {
					t.Errorf("%s was pulled from a mirror that demands a login", elsewhere)
				}
				if len(mirror.Requests()) == 0 {
					t.Fatal("the mirror got no request")
				}
				if got := lastUser(mirror); got != "" {
					t.Errorf("%s: the mirror got the credential of user %q", host, got)
				}
				// Without a server address, as in a kubelet's pull, containerd sends the
				// credential to the mirror.
				auth := &runtimeapi.AuthConfig{Username: goodCredential.Username, Password: goodCredential.Password.Reveal()}
				_, err = r.images.PullImage(t.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: elsewhere}, Auth: auth})
				if got := lastUser(mirror); err != nil || got != goodCredential.Username {
					t.Errorf("%s: a credential that is not pinned: the mirror got the credential of user %q, %v", host, got, err)
				}
			}
		})
	}
	if refused != 0 {
		t.Errorf("%d credentials count as refused, but none was sent", refused)
	}
}

// lastUser returns the last user who sent a credential.
func lastUser(reg *testregistry.Server) (user string) {
	for _, req := range reg.Requests() {
		if req.User != "" {
			user = req.User
		}
	}
	return user
}

// TestContainerdDockerHub pulls from a fake Docker Hub. containerd's requests to Docker Hub
// go through a proxy to the test server.
func TestContainerdDockerHub(t *testing.T) {
	reg, _, _ := startRegistryWith(t, testregistry.Options{Auth: testregistry.AuthBasic}, testregistry.Image{})
	must.Get(reg.Push("library/nginx", "latest", testregistry.Image{}))(t)
	hub := httptest.NewUnstartedServer(reg)
	hub.Config.ErrorLog = log.New(io.Discard, "", 0) // containerd retries with verification of the certificate
	hub.StartTLS()
	t.Cleanup(hub.Close)
	var asked atomic.Pointer[string]
	proxy := httptest.NewServer(newTunnel(hub.Listener.Addr().String(), &asked))
	t.Cleanup(proxy.Close)
	r, c := dialContainerd(t, RuntimeOptions{}, "HTTPS_PROXY="+proxy.URL, "HTTP_PROXY="+proxy.URL, "NO_PROXY=")
	c.AddMirror("docker.io", "https://registry-1.docker.io") // Docker Hub itself, to set its certificate

	if _, err := r.Pull(t.Context(), "nginx", PullIfNotPresent, fixedLookup()); err == nil {
		t.Error("pulled without a credential")
	}
	if _, err := r.Pull(t.Context(), "nginx", PullIfNotPresent, fixedLookup(goodCredential)); err != nil {
		t.Error(err)
	}
	if host := asked.Load(); host == nil || *host != "registry-1.docker.io:443" {
		t.Fatalf("containerd asked %v", host)
	}
	for _, name := range []string{"nginx", "nginx:latest", "docker.io/library/nginx", "index.docker.io/library/nginx:latest"} {
		if res, err := r.Pull(t.Context(), name, PullNever, fixedLookup()); err != nil || !res.Present {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// newTunnel returns a proxy that connects every client to one address.
func newTunnel(addr string, asked *atomic.Pointer[string]) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
			return
		}
		asked.Store(&r.Host)
		server, err := net.Dial("tcp", addr)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer server.Close()
		client, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer client.Close()
		io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
		go io.Copy(server, client)
		io.Copy(client, server)
	}
}

// TestContainerdRestart verifies that a pull is repeated if containerd is restarted while it
// downloads a layer.
func TestContainerdRestart(t *testing.T) {
	for name, end := range map[string]func(*testcri.Containerd){"stopped": (*testcri.Containerd).Stop, "killed": (*testcri.Containerd).Kill} {
		t.Run(name, func(t *testing.T) {
			r, c := dialContainerd(t, RuntimeOptions{})
			reg, image, _ := startRegistry(t, testregistry.AuthBasic)
			must.Get(r.Pull(t.Context(), image, PullAlways, fixedLookup(goodCredential)))(t)
			must.Get(reg.Push("team/app", "v2", testregistry.Image{Seed: 1}))(t)
			slow := reg.Inject(testregistry.Fault{Kind: testregistry.FaultSlow, Endpoint: testregistry.EndpointBlobs, Delay: time.Minute, Times: testregistry.Forever})
			done := make(chan error, 1)
			go func() {
				res, err := r.Pull(t.Context(), strings.Replace(image, ":v1", ":v2", 1), PullIfNotPresent, fixedLookup(goodCredential))
				if err == nil && (res.Present || len(res.Failed) != 0) {
					err = fmt.Errorf("got %+v", res)
				}
				done <- err
			}()
			for slow.Hits() == 0 && t.Context().Err() == nil {
				time.Sleep(time.Millisecond) // the registry cannot signal this
			}
			end(c)
			slow.Remove()
			c.Start()
			if err := <-done; err != nil {
				t.Errorf("%v; want the pull, repeated", err)
			}
			if res, err := r.Pull(t.Context(), image, PullNever, fixedLookup()); err != nil || !res.Present {
				t.Errorf("an image that was pulled before is missing: %v", err)
			}
		})
	}
}
