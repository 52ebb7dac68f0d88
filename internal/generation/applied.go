// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package generation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/regularfile"
)

// AppliedFile is the name, in the state directory, of a list of [AppliedChange], earliest
// first. The list is needed because a kubelet reads its configuration only once. So it
// may have the entries of another generation than the current one.
const AppliedFile = "applied.json"

// BootTime is a point in time within one boot, measured by a clock that cannot be set.
type BootTime struct {
	Boot  string `json:"boot"`  // /proc/sys/kernel/random/boot_id
	Ticks uint64 `json:"ticks"` // hundredths of a second since boot
}

// AppliedChange is a change to the kubelet's configuration.
type AppliedChange struct {
	BootTime
	Generation int             `json:"generation"` // 0 means that regcred was removed
	Entries    []entries.Entry `json:"entries,omitempty"`
}

// readAppliedEntries returns the entries that a kubelet may have in memory in addition
// to the current generation's.
func readAppliedEntries(dir string) (list []entries.Entry, err error) {
	name := filepath.Join(dir, AppliedFile)
	data, err := regularfile.Read(context.Background(), name, maxManifestSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the kubelet's loaded entries: %w", err)
	}
	var records []AppliedChange
	if json.Unmarshal(data, &records) != nil {
		return nil, nil // "regcred status" reports it; pulls continue with the manifest's entries
	}
	for _, r := range records {
		list = append(list, r.Entries...)
	}
	return list, nil
}
