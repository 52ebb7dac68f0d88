// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/kube"
	"github.com/regcred/regcred/upstream/node"
)

// testPermission verifies pulls of a kubelet without permission to request tokens for an audience.
// The kubelet pulls anonymously and logs the reason. After the output of regcred rbac is applied,
// it pulls with the pod's identity.
func (s *serviceAccountTest) testPermission(t *testing.T) {
	const image = "denied.example/open/app"
	pod := s.newPod(t, "denied", "puller", "denied.example", "open/app")
	t.Log(s.control.WaitEvent(t, pod, "Failed: Failed to pull image", image, "401 Unauthorized"))
	refusal := "system:node:node is not authorized to request tokens for this audience"
	if node.ServerVersion() >= "v1.37" {
		refusal = "system:node:node is not authorized to request tokens for audience " // followed by the audience
	}
	if got := providerFailure(t, s.kubelet, node.FailureFilter{Provider: "denied", Image: image, Account: "team/puller"}); !strings.Contains(got, refusal) {
		t.Errorf("the kubelet's log says of the provider %q, want %q in it", got, refusal)
	}

	f := s.ours.checkSameAsKubelet(t, s.guard, "team", "denied", image+":v1", -1)
	last := f.attempts[len(f.attempts)-1]
	var failed *kube.Error
	if last.Stage != regcred.StageToken || !errors.As(last.Err, &failed) || failed.Code != 403 {
		t.Fatalf("our attempt failed at %q: %v", last.Stage, last.Err)
	}
	const missing = `the client needs the verb "request-serviceaccounts-token-audience" on the resource "denied.example" in namespace "team"`
	for _, text := range []string{refusal, missing} {
		if !strings.Contains(failed.Error(), text) {
			t.Errorf("our error does not say %q: %v", text, failed)
		}
	}
	s.checkFix(t, image)
	s.applyRoles(t)
	s.waitHealthy(t)
	healed := s.newPod(t, "allowed", "puller", "denied.example", "open/allowed")
	s.control.WaitRunning(t, healed)
	s.ours.checkSameAsKubelet(t, s.guard, "team", "allowed", "denied.example/open/allowed:v1", 0)
	own := strings.Contains(fmt.Sprint(s.guard.takeLogins(t, "denied.example/open/allowed:v1")), "bound to pod allowed ")
	if ran := len(waitPluginsRun(t, s.kubelet, "denied.example/open/allowed:v1")) > 0; own != ran || node.FeatureCacheType.IsEnabled() && !ran {
		t.Errorf("the kubelet has run the plugin: %v; the pod's own token was used: %v", ran, own)
	}
}

// checkFix checks that explain and doctor name the command that grants the permission.
func (s *serviceAccountTest) checkFix(t *testing.T, image string) {
	t.Helper()
	const fix = "| kubectl apply -f -"
	stdout, stderr, code := s.ours.runCommand(t, "explain", "--kubeconfig", s.ours.kubeconfig, "--pod", "team/denied", image)
	if code != 1 || !containsAll(stdout, "error    denied", "fix: regcred rbac ", fix) {
		t.Errorf("regcred explain exits with %d:\n%s%s", code, stdout, stderr)
	}
	stdout, stderr, code = s.ours.runCommand(t, "doctor", "--kubeconfig", s.ours.kubeconfig, "--pod", "team/denied")
	if code != 1 || !containsAll(stdout,
		`error   permission: system:node:node is not allowed to request tokens for audience "denied.example" of team/puller`,
		`error   token: for audience "denied.example": `, `ok      token: for audience "pass.example": token granted to the pod (dry run)`,
		"fix: regcred rbac ", fix) {
		t.Errorf("regcred doctor exits with %d:\n%s%s", code, stdout, stderr)
	}
}

func containsAll(s string, texts ...string) bool {
	for _, text := range texts {
		if !strings.Contains(s, text) {
			return false
		}
	}
	return true
}

// applyRoles applies the output of "regcred rbac" like kubectl apply.
func (s *serviceAccountTest) applyRoles(t *testing.T) {
	t.Helper()
	stdout, stderr, code := s.ours.runCommand(t, "rbac")
	if code != 0 {
		t.Fatalf("regcred rbac exits with %d: %s", code, stderr)
	}
	var role rbacv1.ClusterRole
	var binding rbacv1.ClusterRoleBinding
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(stdout), 4096)
	if err := errors.Join(documents.Decode(&role), documents.Decode(&binding)); err != nil {
		t.Fatalf("regcred rbac prints no roles: %v", err)
	}
	if err := documents.Decode(new(rbacv1.ClusterRole)); err != io.EOF {
		t.Fatalf("regcred rbac prints more than a ClusterRole and its binding: %v", err)
	}
	api := s.control.Client.RbacV1()
	strict := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	must.Get(api.ClusterRoles().Create(t.Context(), &role, strict))(t)
	must.Get(api.ClusterRoleBindings().Create(t.Context(), &binding, strict))(t)
}

// waitHealthy waits until doctor reports no problem. A new role takes effect with a delay.
func (s *serviceAccountTest) waitHealthy(t *testing.T) {
	t.Helper()
	node.Eventually(t, 30*time.Second, func(context.Context) error {
		stdout, stderr, code := s.ours.runCommand(t, "doctor", "--kubeconfig", s.ours.kubeconfig, "--pod", "team/denied")
		if code != 0 {
			return fmt.Errorf("regcred doctor exits with %d:\n%s%s", code, stdout, stderr)
		}
		return nil
	})
}
