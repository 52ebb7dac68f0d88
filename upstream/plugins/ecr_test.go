// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugins

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
)

var runSlowTests = flag.Bool("slow", false, "run the scenarios that take minutes, too")

// allScenarios returns all scenarios that this run includes.
func allScenarios() []scenario {
	all := slices.Concat(hostScenarios(), sourceScenarios(), endpointScenarios(), responseScenarios(), serviceAccountScenarios(), protocolScenarios(), failureScenarios())
	return slices.DeleteFunc(all, func(s scenario) bool { return s.slow && !*runSlowTests })
}

// TestECR runs AWS's plugin and regcred's plugin in each scenario and compares exit, response and
// requests. Every difference must be listed in differences.
func TestECR(t *testing.T) {
	dir := t.TempDir()
	theirs := must.Get(BuildUpstreamECR(dir))(t)
	ours := must.Get(Build(dir, ECR))(t)
	all := allScenarios()
	upstream := observeAll(t, theirs, all, func(scenario) []string { return nil })
	regcred := observeAll(t, ours, all, func(s scenario) []string { return s.ourArgs })

	shown, served := map[string]int{}, map[string]int{}
	for i, s := range all {
		heading, _, _ := strings.Cut(s.name, ":")
		if a := upstream[i].Answer; a != nil && len(a.Auth) > 0 {
			served[heading]++
		} else {
			served[heading] += 0
		}
		t.Run(s.name, func(t *testing.T) {
			problems := compareObservations(s, upstream[i], regcred[i])
			if len(problems) > 0 {
				// Connections may break and be retried under load: repeat this scenario
				// without concurrency.
				t.Logf("looked at twice, because of %q", problems)
				problems = compareObservations(s, runScenario(t, theirs, s, nil), runScenario(t, ours, s, s.ourArgs))
			}
			for _, p := range problems {
				t.Error(p)
			}
			for _, d := range s.differences() {
				shown[d.id]++
			}
		})
	}
	for heading, n := range served {
		if n == 0 {
			t.Errorf("%s: there are credentials in no scenario, as if the cloud did not work", heading)
		}
	}
	logReport(t, len(all), shown)
}

// observeAll runs a program in all scenarios, several at a time, because many of them
// wait.
func observeAll(t *testing.T, path string, all []scenario, args func(scenario) []string) []*observation {
	t.Helper()
	seen := make([]*observation, len(all))
	free := make(chan struct{}, 12)
	var wg sync.WaitGroup
	for i, s := range all {
		wg.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			seen[i] = runScenario(t, path, s, args(s))
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return seen
}

// runScenario runs a program in a scenario. It returns nil if the program could not be started.
func runScenario(t *testing.T, path string, s scenario, args []string) *observation {
	o, err := observePlugin(t.Context(), path, s, args, t.TempDir())
	if err != nil {
		t.Errorf("%s: %v", s.name, err)
	}
	return o
}

// differences returns the differences that list the scenario.
func (s scenario) differences() []difference {
	return slices.DeleteFunc(slices.Clone(differences), func(d difference) bool { return !slices.Contains(d.in, s.name) })
}

// compareObservations applies the scenario's differences to the observation of upstream's plugin and compares
// the result with the observation of regcred's plugin. It returns the mismatches.
func compareObservations(s scenario, upstream, regcred *observation) (problems []string) {
	opts := cmp.Comparer(roughlyEqual)
	problems = append(s.unusedFaults(upstream), s.unusedFaults(regcred)...)
	if regcred.Leak || regcred.Outcome == "panics" {
		problems = append(problems, "a secret is on standard error, or a panic, whatever upstream does")
	}
	adjusted := *upstream
	for _, d := range s.differences() {
		before := adjusted
		d.adjust(s, &adjusted)
		if cmp.Equal(before, adjusted, opts) {
			problems = append(problems, fmt.Sprintf("difference %q is listed, but upstream does the same", d.id))
		}
	}
	if diff := cmp.Diff(&adjusted, regcred, opts); diff != "" {
		problems = append(problems, "(-upstream +regcred):\n"+diff)
	}
	return problems
}

// unusedFaults returns a problem for each fault that no request triggered. Such a fault had no
// effect that could be observed.
func (s scenario) unusedFaults(o *observation) (problems []string) {
	for _, f := range s.faults {
		if !slices.ContainsFunc(o.Requests, func(line string) bool { return strings.Contains(line, f.Path) }) {
			problems = append(problems, fmt.Sprintf("no request has %q in it, which is to fail", f.Path))
		}
	}
	return problems
}

// logReport logs the summary of a run.
func logReport(t *testing.T, n int, shown map[string]int) {
	differ := 0
	var lines strings.Builder
	for _, id := range slices.Sorted(maps.Keys(shown)) {
		differ += shown[id]
		fmt.Fprintf(&lines, "\n%3d %s", shown[id], id)
	}
	t.Logf("%d scenarios: alike in %d, different as documented in %d:%s", n, n-differ, differ, lines.String())
}

// TestDifferences verifies that the scenarios of each difference exist, and that each scenario is
// listed once.
func TestDifferences(t *testing.T) {
	count := map[string]int{}
	for _, s := range allScenarios() {
		count[s.name]++
	}
	for name, n := range count {
		if n > 1 {
			t.Errorf("%d scenarios are called %q", n, name)
		}
	}
	for _, d := range differences {
		for _, name := range d.in {
			if count[name] != 1 {
				t.Errorf("difference %q: there is no scenario %q, or it is listed twice", d.id, name)
			}
			count[name] = -1
		}
	}
}

// TestDifferencesAreDocumented verifies that docs/plugins/ecr.md has an anchor for each difference,
// and no other anchors.
func TestDifferencesAreDocumented(t *testing.T) {
	doc := must.Get(os.ReadFile("../../docs/plugins/ecr.md"))(t)
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile(`<a id="([^"]+)"></a>`).FindAllSubmatch(doc, -1) {
		documented[string(m[1])] = true
	}
	listed := maps.Clone(unobservedDifferences)
	for _, d := range differences {
		listed[d.id] = "a scenario"
	}
	for id := range listed {
		if !documented[id] {
			t.Errorf("docs/plugins/ecr.md does not document the difference %q", id)
		}
	}
	for id := range documented {
		if listed[id] == "" {
			t.Errorf("docs/plugins/ecr.md documents a difference %q that no scenario shows", id)
		}
	}
}
