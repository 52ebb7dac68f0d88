// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/node"
)

// TestLife verifies the life of Secrets: created with the namespace, filled by one exchange for all
// namespaces, refreshed in place, kept by a restart without an exchange.
func TestLife(t *testing.T) {
	s, parent := newScene(t), t
	shared := canary.PasswordSecret + "shared"
	for i := range 5 {
		s.addNamespace(t, fmt.Sprint("team-", i))
	}
	s.AddServiceAccount(t, "team-0", "app", map[string]string{"registry.example/user": "robot", "other": "x"})
	c := s.start(t)
	uids := map[string]types.UID{}
	for i := range 5 {
		namespace := fmt.Sprint("team-", i)
		secret := s.waitPassword(t, namespace, secretName, "r.example", shared)
		uids[namespace] = secret.UID
		if got := passwords(secret); got["https://index.docker.io/v1/"] != shared || got["*.example"] != shared || len(got) != 3 {
			t.Errorf("%s: keys %v", namespace, got)
		}
		if secret.Type != corev1.SecretTypeDockerConfigJson || secret.Annotations["regcred.dev/expires"] == "" || secret.Annotations["regcred.dev/providers"] != "shared" {
			t.Errorf("type %s, annotations %v", secret.Type, secret.Annotations)
		}
		canary.AssertAbsent(t, "the annotations", fmt.Sprint(secret.Annotations))
	}
	if got := s.requests(t, "shared"); len(got) != 1 {
		t.Errorf("%d exchanges for 5 namespaces, want 1", len(got))
	}

	t.Run("service account", func(t *testing.T) {
		s.waitPassword(t, "team-0", secretName+"-app", "r.example", canary.PasswordSecret+"account")
		all := s.requests(t, "account")
		if len(all) != 1 || !strings.Contains(all[0], `"registry.example/user":"robot"`) || strings.Contains(all[0], "other") {
			t.Fatalf("requests %q", all)
		}
		_, token, _ := strings.Cut(all[0], `"serviceAccountToken":"`)
		token, _, _ = strings.Cut(token, `"`)
		claims := must.Get(jwt.Parse(token))(t)
		if claims.Subject != "system:serviceaccount:team-0:app" || fmt.Sprint(claims.Audience) != "[registry.example]" {
			t.Errorf("claims %v", claims)
		}
		if _, err := s.secret(t.Context(), "team-1", secretName+"-app"); err == nil {
			t.Error("a Secret for a service account that does not exist")
		}
	})

	t.Run("regcred secrets", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), node.RegcredPath(), "secrets", "-o", "json", "--kubeconfig", s.WriteKubeconfig(t, "admin", "system:masters"))
		out, err := cmd.CombinedOutput()
		canary.AssertAbsent(t, "the output", string(out))
		if err != nil || strings.Count(string(out), `"state": "current"`) != 6 || !strings.Contains(string(out), `"key": "r.example"`) {
			t.Errorf("%v\n%s", err, out)
		}
		cmd = exec.CommandContext(t.Context(), node.RegcredPath(), "secrets", "-n", "team-0", "--kubeconfig", s.WriteKubeconfig(t, "admin", "system:masters"))
		out, err = cmd.CombinedOutput()
		t.Logf("%v\n%s", err, out)
	})

	t.Run("new namespace", func(t *testing.T) {
		start := time.Now()
		s.addNamespace(t, "late")
		s.waitPassword(t, "late", secretName, "r.example", shared)
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("filled after %v", d)
		}
		if got := s.requests(t, "shared"); len(got) != 1 {
			t.Errorf("%d exchanges, want 1", len(got))
		}
	})

	t.Run("restart without a burst", func(t *testing.T) {
		c.stop(t) // now the proxy has recorded all of its writes
		before := len(s.proxy.find("PATCH", "/secrets/"+secretName))
		c = s.start(parent)
		s.addNamespace(t, "later") // shows that the new controller works
		s.waitPassword(t, "later", secretName, "r.example", shared)
		time.Sleep(time.Second)
		if got := len(s.proxy.find("PATCH", "/secrets/"+secretName)) - before; got != 2 {
			t.Errorf("%d writes after a restart, want 2 for the new namespace: %v", got, s.proxy.find("PATCH", "/secrets/"+secretName)[before:])
		}
		if got := s.requests(t, "shared"); len(got) != 2 {
			t.Errorf("%d exchanges, want 1 more for the new namespace", len(got))
		}
	})

	t.Run("edited by a user", func(t *testing.T) {
		patch := []byte(`{"stringData":{".dockerconfigjson":"{\"auths\":{}}","extra":"x"}}`)
		must.Get(s.Client.CoreV1().Secrets("team-1").Patch(t.Context(), secretName, types.MergePatchType, patch, metav1.PatchOptions{}))(t)
		secret := s.waitPassword(t, "team-1", secretName, "r.example", shared)
		if string(secret.Data["extra"]) != "x" || secret.UID != uids["team-1"] {
			t.Errorf("extra key %q, UID changed %v", secret.Data["extra"], secret.UID != uids["team-1"])
		}
	})

	t.Run("changed provider, refreshed in place", func(t *testing.T) {
		s.respond(t, "shared", canary.PasswordSecret+"second", 10*time.Second)
		s.write(t, "providers.yaml", strings.Replace(providers(""), "defaultCacheDuration: 1h", "defaultCacheDuration: 1h\n  args: [--changed]", 1))
		for namespace, uid := range uids {
			if secret := s.waitPassword(t, namespace, secretName, "r.example", canary.PasswordSecret+"second"); secret.UID != uid {
				t.Errorf("%s: another UID", namespace)
			}
		}
		exchanges := len(s.requests(t, "shared"))
		s.respond(t, "shared", canary.PasswordSecret+"third", time.Hour)
		for namespace, uid := range uids {
			if secret := s.waitPassword(t, namespace, secretName, "r.example", canary.PasswordSecret+"third"); secret.UID != uid {
				t.Errorf("%s: another UID", namespace)
			}
		}
		if got := len(s.requests(t, "shared")) - exchanges; got > 2 {
			t.Errorf("%d exchanges for one or two refreshes", got)
		}
	})

	t.Run("a bad configuration changes nothing", func(t *testing.T) {
		s.write(t, "providers.yaml", "providers: nonsense")
		time.Sleep(1500 * time.Millisecond)
		s.addNamespace(t, "still")
		s.waitPassword(t, "still", secretName, "r.example", canary.PasswordSecret+"third")
	})

	t.Run("provider removed", func(t *testing.T) {
		_, rest, _ := strings.Cut(providers(""), "- name: account")
		s.write(t, "providers.yaml", "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: account"+rest)
		s.waitEvent(t, "team-2", "Namespace/team-2 RegistryRemoved", "no longer configured")
		if secret := must.Get(s.secret(t.Context(), "team-2", secretName))(t); len(passwords(secret)) == 0 {
			t.Error("emptied before the end of the grace period")
		}
		secret := s.waitPassword(t, "team-2", secretName, "r.example", "")
		if string(secret.Data[corev1.DockerConfigJsonKey]) != `{"auths":{}}` || secret.UID != uids["team-2"] {
			t.Errorf("content %d bytes, UID %s", len(secret.Data[corev1.DockerConfigJsonKey]), secret.UID)
		}
	})

	t.Run("metadata only", func(t *testing.T) {
		for _, x := range s.proxy.find("PATCH", "/secrets/"+secretName) {
			canary.AssertAbsent(t, "the response to a PATCH", x.response)
		}
		for _, x := range s.proxy.find("GET", "/secrets") {
			if !strings.Contains(x.accept, "as=PartialObjectMetadata") && !strings.Contains(x.path, "/namespaces/") {
				t.Errorf("all Secrets read with their content: %s?%s", x.path, x.query)
			}
		}
	})
}
