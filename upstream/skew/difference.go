// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

// difference is a difference between kubelet releases, or between a kubelet and regcred.
// docs/project/parity.md has a row for each, with its ID.
type difference struct {
	ID    string
	Until int // last minor release with it; 0 for all
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

// differences lists the differences between releases, then those between regcred and all
// releases.
var differences = []difference{
	{looseColons, 35},
	{tokenGate, 0}, // the gate can be turned off in all releases
	{noCacheType, 33},
	{noOrigin, 34},
	{noDirectory, 33},
	{internalVersion, 0},
	{refusedNames, 0},
	{hiddenAliases, 0},
}

// of returns name if a release may have that difference, or "".
func of(name string, minor int) string {
	for _, d := range differences {
		if d.ID == name && (d.Until == 0 || minor <= d.Until) {
			return name
		}
	}
	return ""
}
