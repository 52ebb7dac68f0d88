// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/match"
)

// The tests in this file replay testdata/parity/skew.json. The file contains the cases of the
// other files in which older kubelets and the newest kubelet differ. upstream/skew recorded it.

const tokenGate = "KubeletServiceAccountTokenForCredentialProviders"

// skewFile is the content of skew.json.
type skewFile struct {
	Kubelets []skewKubelet
	Cases    []skewCase
}

// skewKubelet is a kubelet release with its feature gates.
type skewKubelet struct {
	Kubelet, Go, GODEBUG string
	Corpus               skewCounts
	Generated            []skewCounts
	Gates                []skewGate
}

// skewCounts is the number of comparisons with the newest kubelet, and the number of differences
// by name.
type skewCounts struct {
	Kind                       string
	Comparisons, Disagreements int
	Differences                map[string]int
}

// skewGate is a feature gate. Off and On are the kubelet's errors if the gate is set to false
// or true.
type skewGate struct {
	Name, Off, On         string
	Default, Locked, Gone bool
}

// skewCase is the result of a test case in some kubelet releases.
type skewCase struct {
	ID, Kind, Name string
	Case           int
	TokensOff      bool
	Says           map[string]json.RawMessage
	Kubelets       []string
}

func loadSkew(t *testing.T) (f skewFile) {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join("testdata", "parity", "skew.json")))(t)
	must.Do(t, json.Unmarshal(data, &f))
	if len(f.Kubelets) < 5 || len(f.Cases) < 100 {
		t.Fatalf("%d kubelets and %d cases: not the whole recording", len(f.Kubelets), len(f.Cases))
	}
	return f
}

// isLocked reports whether the gate cannot be changed, because it is locked to its default or was
// removed.
func (g skewGate) isLocked() bool { return g.Gone || g.Locked }

// findGate returns the kubelet's gate with the given name.
func (k skewKubelet) findGate(t *testing.T, name string) skewGate {
	t.Helper()
	i := slices.IndexFunc(k.Gates, func(g skewGate) bool { return g.Name == name })
	if i < 0 {
		t.Fatalf("nothing is recorded of the gate %s of kubelet %s", name, k.Kubelet)
	}
	return k.Gates[i]
}

// minorRelease returns the minor release, such as "1.33" for v1.33.13.
func (k skewKubelet) minorRelease() string {
	return strings.Join(strings.Split(strings.TrimPrefix(k.Kubelet, "v"), ".")[:2], ".")
}

// configTarget returns the kubelet with the token gate on or off. The gate is set only if that is not
// its default.
func (k skewKubelet) configTarget(g skewGate, on bool) config.Target {
	t := config.Target{KubeletVersion: k.Kubelet}
	if !g.isLocked() && g.Default != on {
		t.FeatureGates = map[string]bool{tokenGate: on}
	}
	return t
}

// TestParitySkewConfig verifies that ValidateFor rejects the same configurations for a kubelet
// as that kubelet.
func TestParitySkewConfig(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("some file names and links cannot be made on Windows")
	}
	type key struct {
		kubelet string
		number  int
		off     bool
	}
	f := loadSkew(t)
	refused := map[key]bool{}
	for _, c := range f.Cases {
		if c.Kind != "config" {
			continue
		}
		if _, ok := c.Says["refused"]; len(c.Says) > 1 && string(c.Says["refused"]) != "false" || !ok {
			t.Errorf("case %q: kubelets read it in another way: %s", c.Name, c.Says)
		}
		for _, k := range c.Kubelets {
			refused[key{k, c.Case, c.TokensOff}] = string(c.Says["refused"]) == "true"
		}
	}
	compared, differ := 0, 0
	for number, v := range loadVectors[configVector](t, "config") {
		c, loadErr := config.Load(v.writeFiles(t))
		for _, k := range f.Kubelets {
			gate := k.findGate(t, tokenGate)
			for _, on := range []bool{true, false} {
				if gate.isLocked() && !on {
					continue
				}
				want, other := refused[key{k.Kubelet, number, !on}]
				if !other {
					want = v.LoadError+v.ValidateError != ""
				} else {
					differ++
				}
				err := loadErr
				if err == nil {
					err = c.ValidateFor(k.configTarget(gate, on))
				}
				if compared++; (err != nil) != (want || v.deliberateDifference() != "") {
					t.Errorf("case %q for kubelet %s, token gate %t: error %v, the kubelet refuses it: %t", v.Name, k.Kubelet, on, err, want)
				}
			}
		}
	}
	t.Logf("%d verdicts of %d kubelets, %d of them other than the newest's", compared, len(f.Kubelets), differ)
	if differ < 100 {
		t.Errorf("only %d verdicts differ: the recording is not about what it was", differ)
	}
}

// TestParitySkewMatch verifies that location.IsValidBeforeKubelet136, which ValidateFor uses, accepts
// the same patterns as older kubelets.
func TestParitySkewMatch(t *testing.T) {
	type vector struct {
		Pattern vectorText
		Invalid bool
	}
	type key struct {
		kubelet string
		number  int
	}
	f := loadSkew(t)
	taken := map[key]bool{} // patterns that other kubelets than the newest accept
	for _, c := range f.Cases {
		if invalid, ok := c.Says["invalid"]; c.Kind == "match" && ok {
			for _, k := range c.Kubelets {
				taken[key{k, c.Case}] = string(invalid) == "null"
			}
		}
	}
	if len(taken) < 3 {
		t.Errorf("only %d verdicts differ", len(taken))
	}
	for number, v := range loadVectors[vector](t, "match") {
		_, err := match.Parse(string(v.Pattern))
		for _, k := range f.Kubelets {
			want, other := taken[key{k.Kubelet, number}]
			if !other {
				want = !v.Invalid
			}
			got := err == nil
			if k.minorRelease() <= "1.35" {
				got = location.IsValidBeforeKubelet136(string(v.Pattern))
			}
			if got != want {
				t.Errorf("pattern %q for kubelet %s: parses: %t, want %t", v.Pattern, k.Kubelet, got, want)
			}
		}
	}
}

// versionSection returns the section about kubelet versions in docs/project/parity.md.
func versionSection(t *testing.T) string {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join("docs", "project", "parity.md")))(t)
	_, text, ok := strings.Cut(string(data), "\n## Versions\n")
	if !ok {
		t.Fatal("docs/project/parity.md has no section about versions")
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// TestParitySkewTables verifies that docs/project/parity.md contains the recorded figures and
// feature gates.
func TestParitySkewTables(t *testing.T) {
	f, text := loadSkew(t), versionSection(t)
	row := func(cells ...string) {
		t.Helper()
		if line := "| " + strings.Join(cells, " | ") + " |"; !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("docs/project/parity.md does not have the line\n%s", line)
		}
	}
	head := []string{"gate"}
	for _, k := range f.Kubelets {
		head = append(head, k.minorRelease())
		all := k.Corpus
		listed := 0
		for _, g := range k.Generated {
			all.Comparisons += g.Comparisons
			all.Disagreements += g.Disagreements
			for id, n := range g.Differences {
				if strings.Contains(text, "\n| `"+id+"` |") { // other IDs are differences between regcred and the kubelet
					listed += n
				}
			}
		}
		corpus := 0
		for _, n := range k.Corpus.Differences {
			corpus += n
		}
		row(strings.TrimPrefix(k.Kubelet, "v"), formatThousands(all.Comparisons), formatThousands(k.Corpus.Comparisons),
			formatThousands(corpus)+" and "+formatThousands(listed), strconv.Itoa(all.Disagreements))
	}
	row(head...)
	for _, name := range config.FeatureGates() {
		if strings.HasPrefix(name, "All") {
			continue
		}
		cells := []string{"`" + name + "`"}
		for _, k := range f.Kubelets {
			cells = append(cells, k.findGate(t, name).docText())
		}
		row(cells...)
	}
}

// docText returns the gate in the format of docs/project/parity.md.
func (g skewGate) docText() string {
	text := map[bool]string{true: "on", false: "off"}[g.Default]
	switch {
	case g.Gone:
		return "gone"
	case g.Locked:
		return "locked " + text
	}
	return text
}

// formatThousands formats a number of up to six digits with a comma.
func formatThousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// TestParitySkewListed verifies that the table in docs/project/parity.md lists exactly the
// recorded differences, each with the kubelets that have it.
func TestParitySkewListed(t *testing.T) {
	rows := map[string]string{} // by difference: the last minor release that has it
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| ([^|]*) \\|").FindAllStringSubmatch(versionSection(t), -1) {
		rows[m[1]] = m[2]
	}
	if len(rows) == 0 {
		t.Fatal("docs/project/parity.md has no table of versions")
	}
	f := loadSkew(t)
	seen := map[string]map[string]bool{}
	for _, c := range f.Cases {
		if _, ok := rows[c.ID]; !ok {
			t.Errorf("%s, case %d %q: docs/project/parity.md does not list the difference %q", c.Kind, c.Case, c.Name, c.ID)
		}
		if seen[c.ID] == nil {
			seen[c.ID] = map[string]bool{}
		}
		for _, k := range c.Kubelets {
			seen[c.ID][k] = true
		}
	}
	for id, until := range rows {
		for _, k := range f.Kubelets {
			minor := k.minorRelease()
			want := until == "all" || minor <= strings.TrimPrefix(until, "up to ")
			if id == "token-gate" && k.findGate(t, tokenGate).isLocked() {
				want = false
			}
			// Another difference may hide this one.
			if !seen[id][k.Kubelet] && want && !hiddenByOther(id, minor) || seen[id][k.Kubelet] && !want {
				t.Errorf("%s is listed %q, and of kubelet %s recorded: %t", id, until, minor, seen[id][k.Kubelet])
			}
		}
	}
	for _, k := range f.Kubelets {
		if k.Corpus.Disagreements != 0 || k.Corpus.Comparisons < 3000 {
			t.Errorf("kubelet %s: %d comparisons, %d disagreements", k.Kubelet, k.Corpus.Comparisons, k.Corpus.Disagreements)
		}
	}
}

// hiddenByOther reports whether another difference hides this one in all test cases of a release. In
// 1.33, each configuration with tokens also has a cacheType or is rejected by the newest
// kubelet, too.
func hiddenByOther(id, minor string) bool { return minor == "1.33" && id == "token-gate" }

// TestParityGates verifies that ValidateFor treats feature gates as the recorded kubelets do.
func TestParityGates(t *testing.T) {
	plain, err := config.Parse("f", []byte("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: p\n  matchImages: [a]\n  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n"))
	if err != nil {
		t.Fatal(err)
	}
	concerning := regexp.MustCompile(`CredentialProvider|PulledImages`)
	compared := 0
	f := loadSkew(t)
	// AllAlpha and AllBeta exist in every kubelet, so they are not recorded.
	named := slices.DeleteFunc(config.FeatureGates(), func(name string) bool { return strings.HasPrefix(name, "All") })
	for _, k := range f.Kubelets {
		for _, g := range k.Gates {
			if known := slices.Contains(named, g.Name); known != concerning.MatchString(g.Name) {
				t.Errorf("kubelet %s has the gate %s: ValidateFor looks at it: %t", k.Kubelet, g.Name, known)
			}
			if !slices.Contains(named, g.Name) {
				continue
			}
			for on, says := range map[bool]string{false: g.Off, true: g.On} {
				err := plain.ValidateFor(config.Target{KubeletVersion: k.Kubelet, FeatureGates: map[string]bool{g.Name: on}})
				if compared++; (err != nil) != (says != "") {
					t.Errorf("kubelet %s with %s=%t: error %v, the kubelet's %q", k.Kubelet, g.Name, on, err, says)
				}
				if err != nil && !strings.Contains(err.Error(), g.Name) {
					t.Errorf("kubelet %s with %s=%t: the error does not name the gate: %v", k.Kubelet, g.Name, on, err)
				}
			}
		}
		for _, name := range named {
			k.findGate(t, name)
		}
	}
	if compared < 2*len(named)*len(f.Kubelets) {
		t.Errorf("%d settings compared", compared)
	}
}
