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

// AppliedFile is the name, in the state directory, of what was made of the
// kubelet's configuration: a list of [Applied], the earliest first. A kubelet
// reads its configuration once, so the generation that is current need not be
// the one whose entries it has.
const AppliedFile = "applied.json"

// Moment is a point in time of one boot of a machine, by a clock that nobody sets.
type Moment struct {
	Boot  string `json:"boot"`  // /proc/sys/kernel/random/boot_id
	Ticks uint64 `json:"ticks"` // of a hundredth of a second, since then
}

// Applied is a change of the kubelet's configuration.
type Applied struct {
	Moment
	Generation int             `json:"generation"` // 0: none any more
	Entries    []entries.Entry `json:"entries,omitempty"`
}

// readApplied returns the entries that a kubelet may have in memory beside those
// of the current generation.
func readApplied(dir string) (list []entries.Entry, err error) {
	name := filepath.Join(dir, AppliedFile)
	data, err := regularfile.Read(context.Background(), name, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the kubelet's loaded entries: %w", err)
	}
	var records []Applied
	if json.Unmarshal(data, &records) != nil {
		return nil, nil // regcred status says so; pulls with the manifest's entries go on
	}
	for _, r := range records {
		list = append(list, r.Entries...)
	}
	return list, nil
}
