// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

// difference is one between releases of the kubelet, or between a kubelet and
// regcred. docs/project/parity.md has a row for each, with its ID.
type difference struct {
	ID    string
	Until int // the last minor release that does so; 0 for all
}

// The names of the differences.
const (
	looseColons = "loose-colons"
	tokenGate   = "token-gate"
	noCacheType = "no-cache-type"
	noOrigin    = "no-origin"
	noDirectory = "no-directory"

	internalVersion = "internal-version"
	refusedNames    = "refused-names"
	hiddenAliases   = "hidden-aliases"
)

// differences are those of releases, and then those of regcred from all of them.
var differences = []difference{
	{looseColons, 35},
	{tokenGate, 0}, // it can be turned off in all
	{noCacheType, 33},
	{noOrigin, 34},
	{noDirectory, 33},
	{internalVersion, 0},
	{refusedNames, 0},
	{hiddenAliases, 0},
}

// of returns a name if a release may differ so, or "".
func of(name string, minor int) string {
	for _, d := range differences {
		if d.ID == name && (d.Until == 0 || minor <= d.Until) {
			return name
		}
	}
	return ""
}
