// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"testing"
	"time"
)

// TestWindows: what the rule explains, and what it does not.
func TestWindows(t *testing.T) {
	begin := time.Now()
	at := func(seconds float64) time.Time { return begin.Add(time.Duration(seconds * float64(time.Second))) }
	type told struct {
		kind string
		at   float64
	}
	for _, tt := range []struct {
		name      string
		late      float64 // the plugin knows the change at 100 so much later
		events    []told
		explained float64
		tooLong   bool
	}{
		{"nothing failed", 0, nil, 0, false},
		{"at once", 0, []told{{"failed", 100.5}, {"invalidated", 100.6}}, 0, false},
		{"too long", 0, []told{{"failed", 100.5}, {"invalidated", 100.6}, {"failed", 106}}, 0, true},
		{"a minute after one in vain", 2, []told{{"failed", 100.5}, {"invalidated", 100.6}, {"failed", 163}}, 60.6, false},
		{"longer than a minute after one in vain", 2, []told{{"failed", 100.5}, {"invalidated", 100.6}, {"failed", 166}}, 60.6, true},
		{"known late, and nothing in vain", 2, []told{{"failed", 101}, {"invalidated", 102.5}, {"failed", 106}}, 2, false},
		{"a minute that began before the change", 0, []told{{"invalidated", 70}, {"failed", 134}}, 30, false},
		{"and is over", 0, []told{{"invalidated", 70}, {"failed", 136}}, 30, true},
		{"begun before the change", 0, []told{{"failed", 99.9}}, 0, false},
		{"that of an earlier change", 0, []told{{"failed", 60}}, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var events []event
			for _, e := range tt.events {
				events = append(events, event{Kind: e.kind, At: at(e.at), End: at(e.at + 0.2)})
			}
			w := windows([]change{{at(0), at(0)}, {at(100), at(100 + tt.late)}}, events)[1]
			if got := w.explained.Seconds(); got < tt.explained-0.01 || got > tt.explained+0.01 {
				t.Errorf("explained until %.1f s, want %.1f s", got, tt.explained)
			}
			if before := windows([]change{{at(0), at(0)}, {at(100), at(100 + tt.late)}}, events)[0]; before.tooLong(5*time.Second) != (tt.name == "that of an earlier change") {
				t.Errorf("before the change: %+v", before)
			}
			if got := w.tooLong(5 * time.Second); got != tt.tooLong {
				t.Errorf("too long: %t, want %t", got, tt.tooLong)
			}
		})
	}
}
