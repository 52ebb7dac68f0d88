// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKnownFaults(t *testing.T) {
	plain := &Config{Providers: []Provider{{Name: "a"}}}
	tokens := &Config{Providers: []Provider{{Name: "a", TokenAttributes: &TokenAttributes{}}}}
	many, few := NodeSettings{true, 32}, NodeSettings{true, 31}
	on, off := map[string]bool{gatePullRecords: true}, map[string]bool{gatePullRecords: false}
	for _, tt := range []struct {
		name string
		c    *Config
		t    Target
		n    NodeSettings
		want string // the numbers of the issues
	}{
		{"1.35, 32 pulls", nil, Target{KubeletVersion: "v1.35.4"}, many, "138935"},
		{"1.36, 32 pulls", nil, Target{KubeletVersion: "1.36.5-eks-1a2b3c4"}, many, "138935"},
		{"1.36, any patch", nil, Target{KubeletVersion: "1.36"}, many, "138935"},
		{"1.37, 32 pulls", nil, Target{KubeletVersion: "1.37.0"}, many, ""},
		{"1.36, 31 pulls", nil, Target{KubeletVersion: "1.36.0"}, few, ""},
		{"1.36, gate off", nil, Target{KubeletVersion: "1.36.0", FeatureGates: off}, many, ""},
		{"1.34, gate off by default", plain, Target{KubeletVersion: "1.34.2"}, many, ""},
		{"1.34, gate on", plain, Target{KubeletVersion: "1.34.2", FeatureGates: on}, many, "138935"},
		{"1.33, providers", plain, Target{KubeletVersion: "1.33"}, NodeSettings{}, "133079"},
		{"1.33.0, tokens", tokens, Target{KubeletVersion: "v1.33.0+k3s1"}, few, "133079 132802 131251"},
		{"1.33.2, no configuration", nil, Target{KubeletVersion: "1.33.2"}, few, "131251"},
		{"1.33.3, no configuration", nil, Target{KubeletVersion: "1.33.3"}, few, ""},
		{"1.34, tokens", tokens, Target{KubeletVersion: "1.34.0"}, few, ""},
		{"unknown", tokens, Target{}, many, ""},
		{"invalid", tokens, Target{KubeletVersion: "x"}, many, ""},
	} {
		var got []string
		for _, f := range KnownFaults(tt.c, tt.t, tt.n) {
			got = append(got, regexp.MustCompile(`kubernetes#(\d+)`).FindStringSubmatch(f.Message)[1])
			if f.Fix == "" || f.Rule != KnownFaultRule {
				t.Errorf("%s: %+v", tt.name, f)
			}
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
}
