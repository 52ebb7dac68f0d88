// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package spelling

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"name", "name", 0}, {"", "name", 4}, {"name", "nam", 1}, {"name", "mane", 2}, {"team", "taem", 1}, {"localhost", "localhsot", 1}, {"ab", "ba", 1}, {"abc", "ca", 3}, {"args", "arguments", 5}, {strings.Repeat("x", 65), "x", 64},
	} {
		if got := Distance(tt.a, tt.b); got != tt.want || Distance(tt.b, tt.a) != got {
			t.Errorf("%q, %q: got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestDescribe(t *testing.T) {
	for _, tt := range [][3]string{
		{"exmaple", "example", "two letters are swapped"}, {"exampl", "example", "a letter is missing"},
		{"exxample", "example", "there is an extra letter"}, {"exomple", "example", "one letter differs"},
		{"example", "example", ""}, {"exmapel", "example", ""},
	} {
		if got := Describe(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%q, %q: got %q, want %q", tt[0], tt[1], got, tt[2])
		}
	}
}

func TestSimilarKey(t *testing.T) {
	for _, tt := range []struct {
		key  string
		want string
		have []string
	}{
		{"secrets.example.io/addr", "secrets.example.io/address", []string{"secrets.example.io/credentials", "secrets.example.io/address"}},
		{"secrets.example.io/address", "secrets.example.io/addr", []string{"secrets.example.io/addr"}},
		{"eks.amazonaws.com/role-arn", "eks.amazonaws.com/roleArn", []string{"eks.amazonaws.com/roleArn", "kubectl.kubernetes.io/last-applied-configuration"}},
		{"azure.workload.identity/client-id", "azure.workload.identity/cleint-id", []string{"azure.workload.identity/cleint-id", "azure.workload.identity/tenant-id"}},
		{"iam.gke.io/gcp-service-account", "iam.gke.io/gcp-service-acount", []string{"iam.gke.io/gcp-service-acount"}},
		{"registry.example/role", "registry.exmaple/role", []string{"registry.exmaple/role"}},
		{"role", "roles", []string{"roles"}},
		{"registry.example/role", "", []string{"role", "other.example/role", "registry.example/team", "registry.example/role"}},
		{"azure.workload.identity/client-id", "", []string{"azure.workload.identity/tenant-id"}},
		{"a/b", "", nil},
	} {
		if got := SimilarKey(tt.key, tt.have); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.key, got, tt.want)
		}
	}
}
