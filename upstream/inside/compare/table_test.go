// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package compare

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// resultTable formats a table for docs/project/upstream.md.
type resultTable struct{ strings.Builder }

func newResultTable() *resultTable {
	b := new(resultTable)
	b.addRow("what", "kubelet", "with regcred inside", "ratio")
	b.WriteString("|---|---|---|---|\n")
	return b
}

func (b *resultTable) addRow(cells ...string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }

// addCounts adds a row with both kubelets' counts.
func (b *resultTable) addCounts(what string, n func(side string) int) {
	b.addRow(what, fmt.Sprint(n(unmodifiedKubelet)), fmt.Sprint(n(embeddedKubelet)), formatRatio(float64(n(unmodifiedKubelet)), float64(n(embeddedKubelet))))
}

// addTimes adds a row with both kubelets' times.
func (b *resultTable) addTimes(what string, d func(side string) time.Duration) {
	b.addRow(what, formatSeconds(d(unmodifiedKubelet)), formatSeconds(d(embeddedKubelet)), formatRatio(d(unmodifiedKubelet).Seconds(), d(embeddedKubelet).Seconds()))
}

// addSizes adds a row with both kubelets' sizes in bytes.
func (b *resultTable) addSizes(what string, n func(side string) int64) {
	b.addRow(what, formatMegabytes(n(unmodifiedKubelet)), formatMegabytes(n(embeddedKubelet)), formatRatio(float64(n(unmodifiedKubelet)), float64(n(embeddedKubelet))))
}

// addTexts adds a row with a text for each kubelet.
func (b *resultTable) addTexts(what string, text func(side string) string) {
	b.addRow(what, text(unmodifiedKubelet), text(embeddedKubelet), "")
}

func (b *resultTable) logTable(t *testing.T) {
	t.Helper()
	t.Logf("%d rounds\n%s", *benchmarkRounds, b.String())
}

// formatRatio returns the ratio of b to a.
func formatRatio(a, b float64) string {
	if a == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f×", b/a)
}

func formatSeconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func formatMegabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// medianDuration returns the median of a field of the elements.
func medianDuration[T any](list []T, of func(T) time.Duration) time.Duration {
	var values []time.Duration
	for _, v := range list {
		values = append(values, of(v))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
