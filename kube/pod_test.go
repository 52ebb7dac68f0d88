// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube_test

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testkube"
	"github.com/regcred/regcred/kube"
)

func TestPod(t *testing.T) {
	api := startServer(t, testkube.Options{})
	uid := api.AddPod(testkube.Pod{
		Namespace: "ci", Name: "web", ServiceAccount: "builder", Node: "node-1",
		PullSecrets: []string{"two", "", "one"},
		InitImages:  []string{"reg.example/init:1", "reg.example/app:1"},
		Images:      []string{"reg.example/app:1", "reg.example/side:1"},
	})
	got := must.Get(newClient(t, api, nodeName, kube.Options{}).Pod(t.Context(), "ci", "web"))(t)
	want := &kube.Pod{
		Pod:         regcred.Pod{Namespace: "ci", Name: "web", UID: uid, ServiceAccount: "builder"},
		Node:        "node-1",
		PullSecrets: []string{"two", "one"},
		Images:      []string{"reg.example/init:1", "reg.example/app:1", "reg.example/side:1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestPullSecrets verifies that PullSecrets returns the readable secrets in order and unchanged,
// and the errors of the other secrets.
func TestPullSecrets(t *testing.T) {
	api := startServer(t, testkube.Options{})
	login := []byte(`{"auths":{"reg.example":{"username":"ci","password":"` + canary.PasswordSecret + `"}}}`)
	secrets := []regcred.PullSecret{
		{Namespace: "ci", Name: "z", Type: "kubernetes.io/dockerconfigjson", Data: map[string][]byte{".dockerconfigjson": login}},
		{Namespace: "ci", Name: "opaque", Type: "Opaque", Data: map[string][]byte{"x": []byte(canary.PasswordSecret)}},
		{Namespace: "ci", Name: "a", Type: "kubernetes.io/dockercfg", Data: map[string][]byte{".dockercfg": []byte("not JSON")}},
		{Namespace: "ci", Name: "huge", Type: "kubernetes.io/dockerconfigjson", Data: map[string][]byte{".dockerconfigjson": make([]byte, 1<<20)}},
		{Namespace: "ci", Name: "empty", Type: "kubernetes.io/dockerconfigjson"},
	}
	var names []string
	for i, s := range secrets {
		secrets[i].UID = api.AddSecret(testkube.Secret{Namespace: s.Namespace, Name: s.Name, Type: s.Type, Data: s.Data})
		names = append(names, s.Name)
	}
	c := newClient(t, api, testkube.Admin, kube.Options{})
	got, err := c.PullSecrets(t.Context(), "ci", append([]string{"missing"}, names...))
	// Without this comparer, cmp would take seconds for the large secret, because it compares byte
	// by byte.
	if diff := cmp.Diff(secrets, got, cmp.Comparer(bytes.Equal)); diff != "" {
		t.Errorf("(-want +got)\n%s", strings.ReplaceAll(diff, canary.Marker, "..."))
	}
	wantError(t, err, `get secrets ci/missing: `, `404 Not Found: secrets "missing" not found`)
	if got, err := c.PullSecrets(t.Context(), "ci", nil); got != nil || err != nil {
		t.Errorf("no names: got %v, error %v", got, err)
	}
}

// TestPullSecretSpoiled verifies that an error about a malformed secret does not contain the
// secret's content.
func TestPullSecretSpoiled(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte(canary.PasswordSecret))
	for _, tt := range []struct {
		name  string
		fault testkube.Fault
		says  string
	}{
		{"bad base64", testkube.Fault{Kind: testkube.FaultReplaceText, Old: encoded, New: encoded[:9] + "!" + canary.PasswordSecret}, "the response is not a Secret"},
		{"too long", testkube.Fault{Kind: testkube.FaultHugeBody, Bytes: 5 << 20}, "the response is longer than 4194304 bytes"},
		{"cut off", testkube.Fault{Kind: testkube.FaultTruncate, Times: 2}, "the connection was closed before the response was complete"},
		{"a name instead", testkube.Fault{Kind: testkube.FaultReplaceText, Old: `"Secret"`, New: `"` + canary.PasswordSecret + `"`}, "the response is not a Secret"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			api := startServer(t, testkube.Options{})
			api.AddSecret(testkube.Secret{Namespace: "ci", Name: "one", Data: map[string][]byte{"x": []byte(canary.PasswordSecret)}})
			api.Inject(tt.fault)
			got, err := newClient(t, api, testkube.Admin, kube.Options{}).PullSecrets(t.Context(), "ci", []string{"one"})
			if len(got) > 0 {
				t.Error("there is a secret")
			}
			joined, ok := err.(interface{ Unwrap() []error })
			if !ok || len(joined.Unwrap()) != 1 {
				t.Fatalf("got the error %v, want one error, joined", err)
			}
			wantError(t, joined.Unwrap()[0], tt.says)
		})
	}
}

func TestReviews(t *testing.T) {
	api := startServer(t, testkube.Options{})
	addAccountAndPod(api)
	api.Grant(nodeName, testkube.AudienceVerb, "reg.example")
	for _, tt := range []struct {
		name   string
		user   string
		access kube.Access
		want   bool
		reason string
	}{
		{"admin", testkube.Admin, kube.Access{Verb: "list", Resource: "secrets"}, true, ""},
		{"dev", "dev", kube.Access{Verb: "get", Resource: "pods", Namespace: "ci"}, false, ""},
		{"node, service account of a pod", nodeName, kube.Access{Verb: "get", Resource: "serviceaccounts", Namespace: "ci", Name: "builder"}, true, ""},
		{"node, another", nodeName, kube.Access{Verb: "get", Resource: "pods", Namespace: "ci", Name: "other"}, false, "no relationship found between node 'node-1' and this object"},
		{"node, token", nodeName, kube.Access{Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: "ci", Name: "builder"}, true, ""},
		{"node, list", nodeName, kube.Access{Verb: "list", Resource: "serviceaccounts"}, false, "can only create tokens for individual service accounts"},
		{"node, audience", nodeName, kube.Access{Verb: testkube.AudienceVerb, Resource: "reg.example"}, true, ""},
		{"node, other audience", nodeName, kube.Access{Verb: testkube.AudienceVerb, Resource: "other.example"}, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, api, tt.user, kube.Options{})
			got, reason, err := c.Allowed(t.Context(), tt.access)
			if err != nil || got != tt.want || reason != tt.reason {
				t.Errorf("got %v, %q, error %v", got, reason, err)
			}
		})
	}
	got, err := newClient(t, api, nodeName, kube.Options{}).WhoAmI(t.Context())
	want := kube.User{Username: nodeName, Groups: []string{"system:nodes", "system:authenticated"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v (-want +got)\n%s", err, diff)
	}
}
