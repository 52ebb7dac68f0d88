// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"strings"
	"testing"
)

func TestObjectName(t *testing.T) {
	for _, tt := range []struct {
		in string
		ok bool
	}{{"team/app", true}, {"", false}, {"app", false}, {"/app", false}, {"team/", false}, {"a/b/c", false}} {
		var n objectNameFlag
		err := n.Set(tt.in)
		if (err == nil) != tt.ok || tt.ok && n.String() != tt.in || !tt.ok && n.isSet() {
			t.Errorf("%q: got %q, %v", tt.in, n.String(), err)
		}
	}
}

// TestPodFlags checks that changedPodFlags returns every flag that adds a pod's credentials.
func TestPodFlags(t *testing.T) {
	l := &lookupFlags{
		pullSecrets: []string{"a", "b"}, identityFlags: identityFlags{tokenFile: "t"}, noNodeConfig: true,
		pod: objectNameFlag{"a", "b"}, serviceAccount: objectNameFlag{"a", "b"}, kubeFlags: kubeFlags{kubeconfig: "k"},
	}
	want := "--pod --service-account --pull-secret --service-account-token-file"
	if got := strings.Join(l.changedPodFlags(), " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := (&lookupFlags{noNodeConfig: true}).changedPodFlags(); got != nil {
		t.Errorf("without flags of a pod: got %q", got)
	}
}

// TestErrorNamesKubeFlag checks that an error names the flag that is set.
func TestErrorNamesKubeFlag(t *testing.T) {
	k := &kubeFlags{kubeconfig: "k", context: "c", caFile: "f"}
	if got := strings.Join(k.changedFlags(), " "); got != "--kubeconfig --context --ca-file" {
		t.Errorf("got %s", got)
	}
}

// TestLookupArguments checks that the command in a hint repeats the same lookup.
func TestLookupArguments(t *testing.T) {
	l := &lookupFlags{
		noNodeConfig:  true,
		pullSecrets:   []string{"a.yaml", "b c.yaml"},
		identityFlags: identityFlags{tokenFile: "my token", annotationPairs: []string{"example.com/role=$(id)"}},
		pod:           objectNameFlag{"team", "app"},
		kubeFlags:     kubeFlags{kubeconfig: "k conf", context: "c", caFile: "ca.pem"},
	}
	const want = `--pod team/app --kubeconfig 'k conf' --context c --ca-file ca.pem --no-node-config --service-account-token-file 'my token' --pull-secret a.yaml --pull-secret 'b c.yaml' --annotation 'example.com/role=$(id)'`
	if got := strings.Join(l.subjectArgs(), " "); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	l = &lookupFlags{serviceAccount: objectNameFlag{"team", "app"}, kubeFlags: kubeFlags{context: "c"}}
	if got := strings.Join(l.subjectArgs(), " "); got != "--service-account team/app --context c" {
		t.Errorf("got %s", got)
	}
}
