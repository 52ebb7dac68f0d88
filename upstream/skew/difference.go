// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

// knownDifference is a difference between kubelet releases, or between a kubelet and regcred.
// docs/project/parity.md has a row for each, with its ID.
type knownDifference struct {
	ID    string
	Until int // last minor release with the difference; 0 means all releases
}

// Names of the known differences.
const (
	diffLooseColons = "loose-colons"
	diffTokenGate   = "token-gate"
	diffNoCacheType = "no-cache-type"
	diffNoOrigin    = "no-origin"
	diffNoDirectory = "no-directory"

	diffInternalVersion = "internal-version"
	diffRejectedNames   = "refused-names"
	diffHiddenAliases   = "hidden-aliases"
)

// knownDifferences lists the differences between kubelet releases, and then the differences between
// regcred and all releases.
var knownDifferences = []knownDifference{
	{diffLooseColons, 35},
	{diffTokenGate, 0}, // the gate can be turned off in all releases
	{diffNoCacheType, 33},
	{diffNoOrigin, 34},
	{diffNoDirectory, 33},
	{diffInternalVersion, 0},
	{diffRejectedNames, 0},
	{diffHiddenAliases, 0},
}

// differenceFor returns name if a release may have that difference, or "".
func differenceFor(name string, minor int) string {
	for _, d := range knownDifferences {
		if d.ID == name && (d.Until == 0 || minor <= d.Until) {
			return name
		}
	}
	return ""
}
