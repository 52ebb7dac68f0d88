// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import "strings"

// chartValues are what the flags of "regcred install" are called in the chart's
// values.yaml, if a hint begins with one.
func chartValues() map[string]string {
	return map[string]string{
		"--restart":   "the chart's value restart: IfNeeded",
		"--reapplied": "the chart's value reapplied: true",
		"--state-dir": "the chart's value stateDir",
	}
}

// forChart makes of a hint for who has typed a command one for who has written values. A
// command that it tells to run on the node stays what it is.
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
