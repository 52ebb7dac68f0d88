// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

// TestDisclosure verifies that the controller's role and policies prevent every way in which it could
// read another Secret or become a service account.
func TestDisclosure(t *testing.T) {
	s := newScene(t)
	s.addNamespace(t, "team")
	s.AddServiceAccount(t, "team", "app", nil)
	s.AddServiceAccount(t, "team", "admin", nil)
	db := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Data: map[string][]byte{"password": []byte(canary.PasswordSecret)}}
	must.Get(s.Client.CoreV1().Secrets("team").Create(t.Context(), db, metav1.CreateOptions{}))(t)
	c := s.controllerClient(t)
	must.Do(t, s.applySecret(t.Context(), c, "team", secretName+"-app", metav1.PatchOptions{}))
	own := must.Get(s.secret(t.Context(), "team", secretName+"-app"))(t)

	secrets := func(namespace string) func(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*corev1.Secret, error) {
		return c.CoreV1().Secrets(namespace).Patch
	}
	jsonPatch := func(name, patch string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := secrets("team")(ctx, name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
			return err
		}
	}
	list := func(o metav1.ListOptions) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := c.CoreV1().Secrets("").List(ctx, o)
			return err
		}
	}
	create := func(namespace, name, typ, label string) func(context.Context) error {
		return func(ctx context.Context) error {
			body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","type":%q,"metadata":{"name":%q,"annotations":{"kubernetes.io/service-account.name":"admin"},"labels":{"app.kubernetes.io/managed-by":%q}},"data":{".dockerconfigjson":"e30="}}`, typ, name, label)
			_, err := secrets(namespace)(ctx, name, types.ApplyPatchType, []byte(body), metav1.PatchOptions{FieldManager: "x"})
			return err
		}
	}
	token := func(namespace, account string, change func(*authenticationv1.TokenRequestSpec)) func(context.Context) error {
		return func(ctx context.Context) error { return requestToken(ctx, c, namespace, account, own, change) }
	}
	dockerConfig, managed := string(corev1.SecretTypeDockerConfigJson), "regcred-controller"
	for _, tt := range []struct {
		name string
		do   func(context.Context) error
		code int // 403: RBAC, 422: policy
		text string
	}{
		{"copy to type", jsonPatch("db", `[{"op":"copy","from":"/data/password","path":"/type"}]`), 403, ""},
		{"copy to uid", jsonPatch("db", `[{"op":"copy","from":"/data/password","path":"/metadata/uid"}]`), 403, ""},
		{"copy to name", jsonPatch("db", `[{"op":"copy","from":"/data/password","path":"/metadata/name"}]`), 403, ""},
		{"copy to immutable", jsonPatch("db", `[{"op":"copy","from":"/data/password","path":"/immutable"}]`), 403, ""},
		{"guess", jsonPatch("db", `[{"op":"test","path":"/data/password","value":"x"}]`), 403, ""},
		{"get", func(ctx context.Context) error {
			_, err := c.CoreV1().Secrets("team").Get(ctx, "db", metav1.GetOptions{})
			return err
		}, 403, ""},
		{"list", list(metav1.ListOptions{}), 403, ""},
		{"list by label", list(metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=regcred-controller"}), 403, ""},
		{"list another name", list(metav1.ListOptions{FieldSelector: "metadata.name=db"}), 403, ""},
		{"watch", func(ctx context.Context) error {
			_, err := c.CoreV1().Secrets("team").Watch(ctx, metav1.ListOptions{})
			return err
		}, 403, ""},
		{"delete", func(ctx context.Context) error {
			return c.CoreV1().Secrets("team").Delete(ctx, secretName+"-app", metav1.DeleteOptions{})
		}, 403, ""},
		{"create another name", create("team", "other", dockerConfig, managed), 403, ""},
		{"create by POST", func(ctx context.Context) error {
			_, err := c.CoreV1().Secrets("team").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName}}, metav1.CreateOptions{})
			return err
		}, 403, ""},
		{"token of a Secret", create("team", secretName, "kubernetes.io/service-account-token", managed), 422, "wrong type or label"},
		{"without the label", create("team", secretName, dockerConfig, "x"), 422, "wrong type or label"},
		{"namespace not selected", create("not-selected", secretName, dockerConfig, managed), 422, "the namespace is not selected"},
		{"another key", jsonPatch(secretName+"-app", `[{"op":"add","path":"/data/x","value":"eA=="}]`), 422, "only the key .dockerconfigjson may change"},
		{"remove the label", jsonPatch(secretName+"-app", `[{"op":"remove","path":"/metadata/labels"}]`), 422, "wrong type or label"},

		{"another account", token("team", "admin", nil), 403, ""},
		{"no audience", token("team", "app", func(r *authenticationv1.TokenRequestSpec) { r.Audiences = nil }), 422, "audience not configured"},
		{"API server's audience", token("team", "app", func(r *authenticationv1.TokenRequestSpec) { r.Audiences = []string{s.Issuer} }), 422, "audience not configured"},
		{"two audiences", token("team", "app", func(r *authenticationv1.TokenRequestSpec) { r.Audiences = append(r.Audiences, s.Issuer) }), 422, "audience not configured"},
		{"no bound object", token("team", "app", func(r *authenticationv1.TokenRequestSpec) { r.BoundObjectRef = nil }), 422, "must be bound"},
		{"another bound Secret", token("team", "app", func(r *authenticationv1.TokenRequestSpec) { r.BoundObjectRef.Name, r.BoundObjectRef.UID = "db", "" }), 422, "must be bound"},
		{"more than an hour", token("team", "app", func(r *authenticationv1.TokenRequestSpec) { *r.ExpirationSeconds = 3601 }), 422, "at most an hour"},
		{"the allowed token", token("team", "app", nil), 0, ""},
		{"pods", func(ctx context.Context) error {
			_, err := c.CoreV1().Pods("team").List(ctx, metav1.ListOptions{})
			return err
		}, 403, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.do(t.Context())
			code := 0
			if status, ok := err.(apierrors.APIStatus); ok {
				code = int(status.Status().Code)
			} else if err != nil {
				t.Fatal(err)
			}
			if code != tt.code || !strings.Contains(fmt.Sprint(err), tt.text) {
				t.Errorf("%d: %v; want %d %s", code, err, tt.code, tt.text)
			}
			canary.AssertAbsent(t, "the response", fmt.Sprint(err))
		})
	}
}

func requestToken(ctx context.Context, c kubernetes.Interface, namespace, account string, bound *corev1.Secret, change func(*authenticationv1.TokenRequestSpec)) error {
	seconds := int64(3600)
	r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{"registry.example"}, ExpirationSeconds: &seconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: bound.Name, UID: bound.UID},
	}}
	if change != nil {
		change(&r.Spec)
	}
	_, err := c.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, r, metav1.CreateOptions{})
	return err
}

// TestPods verifies that the MutatingAdmissionPolicy adds the Secrets' names to pods of selected
// namespaces, and to no others.
func TestPods(t *testing.T) {
	s := newScene(t)
	s.addNamespace(t, "team")
	for _, account := range []string{"default", "app"} {
		s.AddServiceAccount(t, "team", account, nil)
	}
	s.AddServiceAccount(t, "team", "with", nil, "theirs")
	s.AddNamespace(t, "elsewhere")
	for _, tt := range []struct {
		name, namespace, account string
		own                      []string
		want                     string
	}{
		{"none", "team", "default", nil, "[regcred-pull]"},
		{"account with its own Secret", "team", "app", nil, "[regcred-pull regcred-pull-app]"},
		{"own", "team", "app", []string{"mine"}, "[mine regcred-pull regcred-pull-app]"},
		{"present", "team", "default", []string{"regcred-pull", "mine"}, "[regcred-pull mine]"},
		{"from the account", "team", "with", nil, "[theirs regcred-pull]"},
		{"not selected", "elsewhere", "default", nil, "[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod(tt.namespace, "x")
			pod.Spec.ServiceAccountName = tt.account
			for _, name := range tt.own {
				pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
			}
			got := must.Get(s.Client.CoreV1().Pods(tt.namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{"All"}}))(t)
			var names []string
			for _, r := range got.Spec.ImagePullSecrets {
				names = append(names, r.Name)
			}
			if fmt.Sprint(names) != tt.want {
				t.Errorf("%v, want %s", names, tt.want)
			}
		})
	}
}
