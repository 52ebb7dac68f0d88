// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"strconv"
	"testing"

	"github.com/regcred/regcred/config"
)

func TestExplainNearestPattern(t *testing.T) {
	c := &config.Config{Providers: []config.Provider{
		{Name: "far", MatchImages: []string{"*.dkr.ecr.*.amazonaws.com"}},
		{Name: "near", MatchImages: []string{"quay.io", "registry.example:5000", "*.example"}},
		{Name: "path", MatchImages: []string{"*.*", "registry.example/team/b", "registry.other/team/a"}},
		{Name: "bad", MatchImages: []string{"a:b:c"}},
	}}
	want := []string{
		`"*.dkr.ecr.*.amazonaws.com": host: "*.dkr.ecr.*.amazonaws.com" has 6 labels, but "registry.example" has 2 labels (a * matches one label)`,
		`"*.example": `,
		`"*.*": `,
		`"a:b:c": not a valid pattern: the text after the first colon in the host is not a port`,
	}
	x := Explain(c, Request{Image: "registry.example/team/app:v1"})
	for i, p := range x.Providers {
		if got := strconv.Quote(p.Pattern) + ": " + p.Reason; got != want[i] {
			t.Errorf("%s: got\n\t%s\nwant\n\t%s", p.Name, got, want[i])
		}
	}
	c.Providers[1].MatchImages = []string{"quay.io", "registry.example:5000", "registry.exemple"}
	c.Providers[2].MatchImages = []string{"registry.other/team/a", "registry.example/team/b"}
	x = Explain(c, Request{Image: "registry.example/team/app:v1"})
	for i, want := range map[int]string{1: "registry.example:5000", 2: "registry.example/team/b"} {
		if got := x.Providers[i].Pattern; got != want {
			t.Errorf("nearest pattern of %q is %q, want %q", x.Providers[i].Name, got, want)
		}
	}
	if x.Nearest != 2 || x.Providers[2].Instead != "registry.example/team/app" {
		t.Errorf("the nearest of all providers is %d, want 2: %+v", x.Nearest, x.Providers[2])
	}
	for image, want := range map[string]int{"ghcr.io/org/app": -1, "111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn/app": 0, "registry.example:5000/app": -1} {
		if got := Explain(c, Request{Image: image}).Nearest; got != want {
			t.Errorf("%s: the nearest provider is %d, want %d", image, got, want)
		}
	}
	if x := Explain(c, Request{Image: "Not/Valid"}); x.Error == "" || len(x.Providers) != 0 {
		t.Errorf("an invalid image is explained: %+v", x)
	}
}
