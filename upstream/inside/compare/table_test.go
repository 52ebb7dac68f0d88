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

// table formats a table for docs/project/upstream.md.
type table struct{ strings.Builder }

func newTable() *table {
	b := new(table)
	b.row("what", "kubelet", "with regcred inside", "ratio")
	b.WriteString("|---|---|---|---|\n")
	return b
}

func (b *table) row(cells ...string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }

// addCounts adds a row with both kubelets' counts.
func (b *table) addCounts(what string, n func(side string) int) {
	b.row(what, fmt.Sprint(n(unmodifiedName)), fmt.Sprint(n(embeddedName)), ratio(float64(n(unmodifiedName)), float64(n(embeddedName))))
}

// addTimes adds a row with both kubelets' times.
func (b *table) addTimes(what string, d func(side string) time.Duration) {
	b.row(what, seconds(d(unmodifiedName)), seconds(d(embeddedName)), ratio(d(unmodifiedName).Seconds(), d(embeddedName).Seconds()))
}

// addSizes adds a row with both kubelets' sizes in bytes.
func (b *table) addSizes(what string, n func(side string) int64) {
	b.row(what, megabytes(n(unmodifiedName)), megabytes(n(embeddedName)), ratio(float64(n(unmodifiedName)), float64(n(embeddedName))))
}

// addTexts adds a row with a text for each kubelet.
func (b *table) addTexts(what string, text func(side string) string) {
	b.row(what, text(unmodifiedName), text(embeddedName), "")
}

func (b *table) print(t *testing.T) {
	t.Helper()
	t.Logf("%d rounds\n%s", *rounds, b.String())
}

// ratio returns the ratio of b to a.
func ratio(a, b float64) string {
	if a == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f×", b/a)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// median returns the median of a field of the elements.
func median[T any](list []T, of func(T) time.Duration) time.Duration {
	var values []time.Duration
	for _, v := range list {
		values = append(values, of(v))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
