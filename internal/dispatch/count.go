// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dispatch

import (
	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/tally"
)

// CounterBatch returns the counts of o.
func (o Outcome) CounterBatch() tally.Batch {
	b := tally.Batch{WithoutKey: o.Left}
	if o.Err != nil {
		b.Err = o.Err.Error()
	}
	for _, a := range o.Attempts {
		r := tally.Run{Provider: a.Provider, Result: resultLabel(a), Duration: a.Duration}
		if a.Err != nil {
			r.Err = a.Err.Error()
		}
		b.Runs = append(b.Runs, r)
	}
	return b
}

func resultLabel(a regcred.Attempt) string {
	switch {
	case a.Err != nil:
		return string(a.Stage)
	case a.Skipped != "":
		return tally.ResultSkipped
	case a.Matched == 0:
		return tally.ResultNone
	}
	return tally.ResultFound
}
