// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import "strings"

// chartValues maps flags of "regcred install" to the chart's values.
func chartValues() map[string]string {
	return map[string]string{
		"--restart":   "the chart's value restart: IfNeeded",
		"--reapplied": "the chart's value reapplied: true",
		"--state-dir": "the chart's value stateDir",
	}
}

// forChart replaces a flag at the start of a hint with the chart's value. Commands in a
// hint are kept.
func forChart(hint string) string {
	flag, rest, _ := strings.Cut(hint, " ")
	flag, comma := strings.CutSuffix(flag, ",")
	value, ok := chartValues()[flag]
	if !ok {
		return hint
	}
	if comma {
		value += ","
	}
	return strings.TrimSpace(value + " " + rest)
}
