// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/node"
)

// isWrite reports whether a request writes the Secret of a namespace.
func isWrite(r *http.Request, namespace string) bool {
	return r.Method == http.MethodPatch && r.URL.Path == "/api/v1/namespaces/"+namespace+"/secrets/"+secretName
}

// TestFaults verifies that Secrets are correct after each kind of failure, and that other namespaces
// do not notice it.
func TestFaults(t *testing.T) {
	s, parent := newScene(t), t
	shared := canary.PasswordSecret + "shared"
	c := s.start(t)

	for _, tt := range []struct {
		code   int
		reason metav1.StatusReason
		after  string
	}{
		{http.StatusConflict, metav1.StatusReasonConflict, ""},
		{http.StatusGone, metav1.StatusReasonExpired, ""},
		{http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "1"},
		{http.StatusInternalServerError, metav1.StatusReasonInternalError, ""},
		{http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "1"},
	} {
		for _, forwarded := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.code, " forwarded ", forwarded), func(t *testing.T) {
				namespace := fmt.Sprintf("fault-%d-%v", tt.code, forwarded)
				var left atomic.Int32
				left.Store(2)
				s.proxy.setFault(func(r *http.Request) *fault {
					if isWrite(r, namespace) && left.Add(-1) >= 0 {
						return &fault{status: tt.code, reason: tt.reason, retryAfter: tt.after, forward: forwarded}
					}
					return nil
				})
				defer s.proxy.setFault(nil)
				s.addNamespace(t, namespace)
				s.waitPassword(t, namespace, secretName, "r.example", shared)
				if left.Load() > 0 {
					t.Error("the fault happened less than twice")
				}
			})
		}
	}

	t.Run("422", func(t *testing.T) {
		immutable := true
		s.addNamespace(t, "immutable")
		secret := s.waitPassword(t, "immutable", secretName, "r.example", shared)
		secret.Immutable = &immutable
		must.Get(s.Client.CoreV1().Secrets("immutable").Update(t.Context(), secret, metav1.UpdateOptions{}))(t)
		s.respond(t, "shared", canary.PasswordSecret+"new", time.Hour)
		s.write(t, "providers.yaml", strings.Replace(providers(""), "defaultCacheDuration: 1h", "defaultCacheDuration: 1h\n  args: [--again]", 1))
		s.waitEvent(t, "immutable", "Namespace/immutable WriteRejected", "immutable")
		s.waitPassword(t, "fault-409-true", secretName, "r.example", canary.PasswordSecret+"new")
	})
	shared = canary.PasswordSecret + "new"

	t.Run("foreign Secret", func(t *testing.T) {
		for namespace, typ := range map[string]corev1.SecretType{"foreign": corev1.SecretTypeDockerConfigJson, "other-type": corev1.SecretTypeOpaque} {
			o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
			must.Get(s.Client.CoreV1().Namespaces().Create(t.Context(), o, metav1.CreateOptions{}))(t)
			theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName}, Type: typ, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"theirs.example":{}}}`)}}
			theirs = must.Get(s.Client.CoreV1().Secrets(namespace).Create(t.Context(), theirs, metav1.CreateOptions{}))(t)
			o.Labels = selected
			must.Get(s.Client.CoreV1().Namespaces().Update(t.Context(), o, metav1.UpdateOptions{}))(t)
			s.waitEvent(t, namespace, "Namespace/"+namespace+" ForeignSecret")
			if got := must.Get(s.secret(t.Context(), namespace, secretName))(t); got.ResourceVersion != theirs.ResourceVersion {
				t.Errorf("%s: the Secret was changed: %v", namespace, got.ManagedFields)
			}
			must.Do(t, s.Client.CoreV1().Secrets(namespace).Delete(t.Context(), secretName, metav1.DeleteOptions{}))
			s.waitPassword(t, namespace, secretName, "r.example", shared)
		}
	})

	t.Run("cloud down, restart", func(t *testing.T) {
		s.fail(t, "shared", true)
		c.stop(t)
		c = s.start(parent)
		s.addNamespace(t, "without")
		s.waitEvent(t, "without", "Namespace/without RefreshFailed", "cloud down")
		if got := passwords(must.Get(s.secret(t.Context(), "without", secretName))(t)); len(got) != 0 {
			t.Errorf("credentials %v", got)
		}
		if got := passwords(must.Get(s.secret(t.Context(), "foreign", secretName))(t))["r.example"]; got != shared {
			t.Errorf("the previous credential is %q", got)
		}
		cmd := exec.CommandContext(t.Context(), node.RegcredPath(), "secrets", "-n", "without", "-o", "json", "--kubeconfig", s.WriteKubeconfig(t, "admin", "system:masters"))
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), `"state": "incomplete"`) || !strings.Contains(string(out), "cloud down") {
			t.Errorf("regcred secrets: exit code %d\n%s", cmd.ProcessState.ExitCode(), out)
		}
		s.fail(t, "shared", false)
		s.waitPassword(t, "without", secretName, "r.example", shared)
	})

	t.Run("leader killed in a write", func(t *testing.T) {
		killed := make(chan struct{})
		var once atomic.Bool
		s.proxy.setFault(func(r *http.Request) *fault {
			if isWrite(r, "killed") && r.URL.Query().Get("fieldManager") == controllerName && once.CompareAndSwap(false, true) {
				return &fault{status: 500, forward: true, hook: func() { _ = c.cmd.Process.Kill(); close(killed) }}
			}
			return nil
		})
		defer s.proxy.setFault(nil)
		s.addNamespace(t, "killed")
		select {
		case <-killed:
		case <-time.After(30 * time.Second):
			t.Fatal("no write")
		}
		before := s.waitPassword(t, "killed", secretName, "r.example", shared)
		c = s.start(parent)
		s.addNamespace(t, "after")
		s.waitPassword(t, "after", secretName, "r.example", shared)
		if got := must.Get(s.secret(t.Context(), "killed", secretName))(t); got.ResourceVersion != before.ResourceVersion {
			t.Error("the new leader wrote a Secret that was current")
		}
	})

	t.Run("two controllers", func(t *testing.T) {
		other := s.start(t) // it waits for the lease
		s.addNamespace(t, "two")
		s.waitPassword(t, "two", secretName, "r.example", shared)
		// A changed configuration is also loaded by the controller that is not the leader.
		before := must.Get(s.secret(t.Context(), "two", secretName))(t)
		s.write(t, "providers.yaml", strings.Replace(providers(""), "matchImages: [", "matchImages: [more.example, ", 1))
		var changed *corev1.Secret
		node.Eventually(t, 20*time.Second, func(ctx context.Context) (err error) {
			if changed, err = s.secret(ctx, "two", secretName); err == nil && changed.ResourceVersion == before.ResourceVersion {
				err = errors.New("the Secret was not written for the new configuration")
			}
			return err
		})
		time.Sleep(time.Second) // the old leader may write again, for the response that it was waiting for
		changed = must.Get(s.secret(t.Context(), "two", secretName))(t)
		exchanges := len(s.requests(t, "shared"))
		c.stop(t)
		s.addNamespace(t, "taken-over")
		s.waitPassword(t, "taken-over", secretName, "r.example", shared)
		if got := len(s.requests(t, "shared")) - exchanges; got != 1 {
			t.Errorf("%d exchanges by the new leader, want 1 for the new namespace", got)
		}
		if now := must.Get(s.secret(t.Context(), "two", secretName))(t); now.ResourceVersion != changed.ResourceVersion {
			t.Error("the new leader wrote a Secret that was current")
		}
		c = other
	})

	t.Run("namespace terminating", func(t *testing.T) {
		// Without controllers, a deleted namespace stays in the phase Terminating.
		must.Do(t, s.Client.CoreV1().Namespaces().Delete(t.Context(), "two", metav1.DeleteOptions{}))
		must.Do(t, s.Client.CoreV1().Secrets("two").Delete(t.Context(), secretName, metav1.DeleteOptions{}))
		time.Sleep(2 * time.Second)
		if _, err := s.secret(t.Context(), "two", secretName); err == nil {
			t.Error("created again")
		}
		list := must.Get(s.Client.CoreV1().Events("two").List(t.Context(), metav1.ListOptions{}))(t)
		if len(list.Items) > 0 {
			t.Errorf("events %v", list.Items)
		}
	})

	t.Run("canary", func(t *testing.T) {
		for _, o := range must.Get(s.Client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{}))(t).Items {
			canary.AssertAbsent(t, "an event", o.Message)
		}
	})
}
