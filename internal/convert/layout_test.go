// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/plugin"
)

// outOfTreeConfig is a configuration of the out-of-tree proposal. It uses both forms in the proposal's
// document: a mapping as in its example, and a list as in its types.
const outOfTreeConfig = `# Licence: ours

# our registries
kind: credentialprovider # the document's example
apiVersion: v1alpha1
providers:
# the cloud's
- name: ecr-creds
  kind: RegistryCredentialProvider # goes
  apiVersion: v1alpha1 # another one now
  # every partition
  imageMatchers:
  - "*.dkr.ecr.*.amazonaws.com" # most
  - '*.dkr.ecr.*.amazonaws.com.cn'
  extraArgs:
    # where the registry is
    region: us-west-2 # Oregon
    mode: "yes"
    Token: &t ` + canary.EnvSecret + `
-
  name: two
  imageMatchers: [registry.example, 'registry.example:5000']
  extraArgs:
  # who
  - name: user # upper case
    value: *t
`

// outOfTreeConverted is the conversion of former. Its only comment explains the added
// defaultCacheDuration.
const outOfTreeConverted = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
  - name: ecr-creds
    matchImages:
      - "*.dkr.ecr.*.amazonaws.com"
      - "*.dkr.ecr.*.amazonaws.com.cn"
    # The out-of-tree proposal cached a response until its expirationTimestamp, and
    # not at all without one. With cacheDuration, a default of 0s has the same
    # effect; a longer duration applies to responses that do not set one.
    defaultCacheDuration: 0s
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    args:
      - get-credentials
    env:
      - name: TOKEN
        value: ` + canary.EnvSecret + `
      - name: MODE
        value: "yes"
      - name: REGION
        value: us-west-2
  - name: two
    matchImages:
      - registry.example
      - "registry.example:5000"
    # The out-of-tree proposal cached a response until its expirationTimestamp, and
    # not at all without one. With cacheDuration, a default of 0s has the same
    # effect; a longer duration applies to responses that do not set one.
    defaultCacheDuration: 0s
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    args:
      - get-credentials
    env:
      - name: USER
        value: ` + canary.EnvSecret + `
`

func TestConvertPredecessor(t *testing.T) {
	res := convertText(t, outOfTreeConfig, LayoutKeep, Options{})
	compareText(t, outOfTreeConverted, joinedContents(res))
	want := []string{res.Source.Files()[0].Name}
	if diff := cmp.Diff(want, res.LostComments); diff != "" {
		t.Errorf("lost: -want +got\n%s", diff)
	}
	if got := apiVersions(res.Providers); got != "v1 v1" {
		t.Errorf("versions: %s", got)
	}
	res = convertText(t, outOfTreeConfig, LayoutKeep, Options{PluginAPIVersion: plugin.V1Beta1})
	if got := apiVersions(res.Providers); got != "v1beta1 v1beta1" {
		t.Errorf("versions with an older protocol: %s", got)
	}
}

// apiVersions returns the providers' API versions without the group.
func apiVersions(providers []config.Provider) string {
	var list []string
	for _, p := range providers {
		list = append(list, strings.TrimPrefix(p.APIVersion, protocol.Group+"/"))
	}
	return strings.Join(list, " ")
}

// TestConvertIsIdempotent verifies that converting a converted file changes nothing.
func TestConvertIsIdempotent(t *testing.T) {
	for name, text := range map[string]string{"v1beta1": v1beta1Config, "JSON": v1alpha1JSONConfig, "predecessor": outOfTreeConfig, "no line at the end": oneLine} {
		for _, format := range []Format{"", YAML, JSON} {
			t.Run(name+"/"+string(format), func(t *testing.T) {
				once := joinedContents(convertText(t, text, LayoutSingle, Options{Format: format}))
				again := convertText(t, once, LayoutSingle, Options{Format: format})
				compareText(t, once, joinedContents(again))
				if again.Files[0].IsChanged() || len(again.LostComments) > 0 {
					t.Errorf("changed: %v, lost: %v", again.Files[0].IsChanged(), again.LostComments)
				}
			})
		}
	}
}

// writeMixedVersions writes a directory that has a file of every version. It returns the
// directory's path.
func writeMixedVersions(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, dir, "10-beta.yaml", v1beta1Config)
	writeFile(t, dir, "20-former.yml", outOfTreeConfig)
	writeFile(t, dir, "README", "not a configuration")
	// This provider's name is not a valid file name on Windows.
	writeFile(t, dir, "30-v1.json", strings.NewReplacer(`"a"`, `"last:*?"`, "io/v1alpha1", "io/v1").Replace(v1alpha1JSONConfig))
	return dir
}

func TestConvertSingle(t *testing.T) {
	dir := writeMixedVersions(t)
	res := must.Get(Convert(dir, LayoutSingle, Options{}))(t)
	const top = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n  - name: ecr\n    matchImages:\n"
	if got := joinedContents(res); !strings.HasPrefix(got, top) {
		t.Errorf("it does not begin with\n%s", top)
	}
	if names := providerNames(res.Providers); names != "ecr second ecr-creds two last:*?" {
		t.Errorf("providers: %s", names)
	}
	if diff := cmp.Diff([]string{filepath.Join(dir, "10-beta.yaml"), filepath.Join(dir, "20-former.yml")}, res.LostComments); diff != "" {
		t.Errorf("lost: -want +got\n%s", diff)
	}
	if res.Files[0].Name != "converted.yaml" {
		t.Errorf("name: %s", res.Files[0].Name)
	}
}

func providerNames(providers []config.Provider) string {
	var list []string
	for _, p := range providers {
		list = append(list, p.Name)
	}
	return strings.Join(list, " ")
}

func lineNumbers(places []config.Position) []int {
	var list []int
	for _, p := range places {
		list = append(list, p.Line)
	}
	return list
}

func TestConvertSplit(t *testing.T) {
	res := must.Get(Convert(writeMixedVersions(t), LayoutSplit, Options{}))(t)
	var names []string
	for _, f := range res.Files {
		names = append(names, f.Name)
	}
	want := []string{"10-ecr.yaml", "20-second.yaml", "30-ecr-creds.yaml", "40-two.yaml", "50-last---.json"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestFileNames(t *testing.T) {
	for _, count := range []int{1, 9, 10, 99, 100, 1234} {
		var names []string
		for i := range count {
			names = append(names, fileName(i, count, fmt.Sprint(count-i)))
		}
		if !slices.IsSorted(names) {
			t.Errorf("%d files: %q", count, names)
		}
	}
	if got := fileName(0, 1, "a/b\\é"+strings.Repeat("x", 300)); len(got) > 140 || !strings.HasPrefix(got, "10-a-b---x") {
		t.Errorf("got %q", got)
	}
}

// TestConvertSecondDocument verifies that YAML documents after the first one, which the kubelet
// ignores, are reported and not converted.
func TestConvertSecondDocument(t *testing.T) {
	for name, tt := range map[string]struct {
		tail string
		want []int
	}{
		"none":             {"", nil},
		"a mark alone":     {"---\n", nil},
		"comments alone":   {"---\n# x\n...\n", nil},
		"text":             {"--- # x\na: 1\n", []int{8}},
		"text on the mark": {"--- a\n", []int{8}},
		"the third":        {"---\n---\na: 1\n", []int{8}},
		"carriage returns": {"---\r\na: 1\r\n", []int{8}},
		"no mark":          {"# ---\n", nil},
		"an end":           {"...\na: 1\n", []int{8}},
		"an end alone":     {"...\n# x\n", nil},
		"four dashes":      {"# ----\n", nil},
		"broken":           {"---\n\t*:\n", []int{8}},
	} {
		t.Run(name, func(t *testing.T) {
			// Seven lines precede the tail, and the last of them is empty.
			res := convertText(t, "---\n# one\n"+oneLine+"\n\n"+tt.tail, LayoutKeep, Options{})
			if diff := cmp.Diff(tt.want, lineNumbers(res.SecondDocuments)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestConvertLostComments verifies that files whose comments are lost are reported.
func TestConvertLostComments(t *testing.T) {
	const text = `kind: CredentialProviderConfig
apiVersion: kubelet.config.k8s.io/v1beta1
providers:%s
- name: a
  matchImages: ["r.example#x", 's.example']
  defaultCacheDuration: 1h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: [g#h]
%s`
	for name, tt := range map[string]struct {
		on, after string
		want      bool
	}{
		"none":                   {"", "", false},
		"on a line":              {" # one", "", true},
		"on a line of its own":   {"", "# two\n", true},
		"in the second document": {"", "---\n# three\na: 1\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			file := fmt.Sprintf(text, tt.on, tt.after)
			for _, layout := range []Layout{LayoutKeep, LayoutSplit} {
				res := convertText(t, file, layout, Options{Format: JSON})
				if got := len(res.LostComments) == 1; got != tt.want {
					t.Errorf("layout %v: lost %v, want %v", layout, res.LostComments, tt.want)
				}
			}
			if res := convertText(t, file, LayoutKeep, Options{}); len(res.LostComments) > 0 {
				t.Errorf("an edit: lost %v", res.LostComments)
			}
		})
	}
}
