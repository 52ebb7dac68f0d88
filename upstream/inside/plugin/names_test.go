// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin_test

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// beside are exported names that only one of the packages has, and why.
var beside = map[string]string{
	"type Plugin":        "the kubelet's tests replace an exec by it, and nobody else makes use of it",
	"func LookupErr":     "for the file that is changed",
	"func WithLookupErr": "for the file that is changed",
}

// TestNames: the rest of the kubelet finds in this package what it finds in its
// own. That it is of the same types, the build of a kubelet shows.
func TestNames(t *testing.T) {
	want, got := declared(t, "k8s.io/kubernetes/pkg/credentialprovider/plugin"), declared(t, ".")
	if len(want) != 4 {
		t.Errorf("the kubelet's package declares %q, want 4 names beside those that are listed", want)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-kubelet +regcred\n%s", diff)
	}
}

var exported = regexp.MustCompile(`(?m)^(func|type|const|var) [A-Z]\w*`)

// declared are the exported names of a package, but for those that are listed.
func declared(t *testing.T, pkg string) []string {
	out, err := exec.Command("go", "doc", "-short", pkg).Output()
	if err != nil {
		t.Fatal(err)
	}
	names := slices.DeleteFunc(exported.FindAllString(string(out), -1), func(name string) bool { return beside[name] != "" })
	slices.Sort(names)
	return names
}

// TestImports: this package becomes one of Kubernetes, which finds no internal
// package of this repository, and none of upstream/.
func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(out)) {
		if strings.Contains(path, "regcred/internal") || strings.Contains(path, "regcred/upstream") {
			t.Errorf("it imports %s", path)
		}
	}
}
