// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/regcred/regcred/upstream/skew/protocol"
)

// report is the result of a run.
type report struct {
	Seed     uint64          `json:"seed"`
	Scale    float64         `json:"scale"`
	Kubelets []kubeletReport `json:"kubelets"`
}

// kubeletReport is the result for one kubelet release.
type kubeletReport struct {
	protocol.Build
	Corpus    comparisonCounts   `json:"corpus"` // compared with another release's vectors
	Generated []comparisonCounts `json:"generated"`
	Gates     []protocol.Gate    `json:"gates"`
}

// comparisonCounts counts comparisons of one kind. Differences counts the known differences in
// docs/project/parity.md, by name.
type comparisonCounts struct {
	Kind          string         `json:"kind"`
	Comparisons   int            `json:"comparisons"`
	Differences   map[string]int `json:"differences,omitempty"`
	Disagreements int            `json:"disagreements"`
	Examples      []string       `json:"examples,omitempty"`
}

// countDifference counts a known difference by its name. Without a name, it counts a disagreement
// and stores the example.
func (t *comparisonCounts) countDifference(name, example string) {
	if name != "" {
		if t.Differences == nil {
			t.Differences = map[string]int{}
		}
		t.Differences[name]++
		return
	}
	t.Disagreements++
	if len(t.Examples) < 10 {
		t.Examples = append(t.Examples, example)
	}
}

// differencesText formats the named differences on one line.
func (t comparisonCounts) differencesText() string {
	var list []string
	for _, d := range knownDifferences {
		if n := t.Differences[d.ID]; n > 0 {
			list = append(list, fmt.Sprintf("%s %d", d.ID, n))
		}
	}
	return strings.Join(list, ", ")
}

func (k kubeletReport) allCounts() []comparisonCounts {
	return append([]comparisonCounts{k.Corpus}, k.Generated...)
}

// disagreementError returns an error if there were disagreements.
func (r *report) disagreementError() error {
	n := 0
	for _, k := range r.Kubelets {
		for _, t := range k.allCounts() {
			n += t.Disagreements
		}
	}
	if n > 0 {
		return fmt.Errorf("%d disagreements that docs/project/parity.md does not list", n)
	}
	return nil
}

func (r *report) write(w io.Writer, format string) error {
	if format == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "kubelet\twhat\tcomparisons\tdisagreements\tdifferences that are listed")
	for _, k := range r.Kubelets {
		for _, t := range k.allCounts() {
			fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%s\n", k.Kubelet, t.Kind, t.Comparisons, t.Disagreements, t.differencesText())
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, k := range r.Kubelets {
		for _, t := range k.allCounts() {
			for _, e := range t.Examples {
				fmt.Fprintf(w, "%s, %s: %s\n", k.Kubelet, t.Kind, e)
			}
		}
	}
	return nil
}
