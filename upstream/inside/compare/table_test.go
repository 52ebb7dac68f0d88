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

// counts adds a row with both kubelets' counts.
func (b *table) counts(what string, n func(side string) int) {
	b.row(what, fmt.Sprint(n(released)), fmt.Sprint(n(embedded)), ratio(float64(n(released)), float64(n(embedded))))
}

// times adds a row with both kubelets' times.
func (b *table) times(what string, d func(side string) time.Duration) {
	b.row(what, seconds(d(released)), seconds(d(embedded)), ratio(d(released).Seconds(), d(embedded).Seconds()))
}

// sizes adds a row with both kubelets' sizes in bytes.
func (b *table) sizes(what string, n func(side string) int64) {
	b.row(what, megabytes(n(released)), megabytes(n(embedded)), ratio(float64(n(released)), float64(n(embedded))))
}

// says adds a row with a text for each kubelet.
func (b *table) says(what string, text func(side string) string) {
	b.row(what, text(released), text(embedded), "")
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
