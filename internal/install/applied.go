// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/inroot"
)

// A kubelet reads its provider entries only when it starts. To determine which entries a
// running kubelet has loaded, regcred records each change to the entries with the time since
// boot.

// maxConfigReadDelay is the time after its start in which a kubelet may still read its
// configuration, in hundredths of a second.
const maxConfigReadDelay = 10 * 100

// readRecords returns the recorded changes to the provider entries. known is false if the file
// of records is damaged, or if it is missing although a generation is current.
func (in *Installer) readRecords(ctx context.Context) (list []generation.AppliedChange, known bool, err error) {
	err = in.readJSON(ctx, generation.AppliedFile, &list)
	if damaged, ok := errors.AsType[*damagedFileError](err); ok {
		in.progressf("%v; the kubelet's loaded entries are unknown", damaged)
		return nil, false, nil
	}
	if err != nil || list != nil {
		return list, err == nil, err
	}
	number, err := in.Store.Current()
	if inroot.IsMissing(err) {
		return nil, true, nil
	}
	return nil, number == 0, nil
}

// recordEntries records a generation's provider entries. It is called before these entries are
// written to the kubelet's configuration. It drops records that no running kubelet can have
// loaded.
func (in *Installer) recordEntries(ctx context.Context, m *generation.Manifest) error {
	list, _, err := in.readRecords(ctx)
	if err != nil {
		return err
	}
	now, err := in.timeSinceBoot()
	if err != nil {
		return err
	}
	next := generation.AppliedChange{BootTime: now, Generation: generationNumber(m)}
	if m != nil {
		next.Entries = m.Entries
	}
	if n := len(list); n > 0 && hasSameEntries(list[n-1], next) || n == 0 && m == nil {
		return nil
	}
	return in.writeJSON(generation.AppliedFile, append(in.stillRelevant(list, now.Boot), next))
}

// recordRemoval records that no entries are configured. On a full disk it removes all records,
// so that the kubelet's loaded entries are unknown.
func (in *Installer) recordRemoval(ctx context.Context) error {
	err := in.recordEntries(ctx, nil)
	if isFull(err) {
		return in.fs().Remove(in.Store.Path(generation.AppliedFile))
	}
	return err
}

func hasSameEntries(a, b generation.AppliedChange) bool {
	x, errX := json.Marshal(a.Entries)
	y, errY := json.Marshal(b.Entries)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// dropOldRecords drops records of entries that no running kubelet can have loaded.
func (in *Installer) dropOldRecords(ctx context.Context) error {
	if err := in.rereadSetup(ctx); err != nil {
		return err
	}
	list, _, err := in.readRecords(ctx)
	if err != nil {
		return err
	}
	now, err := in.timeSinceBoot()
	if err != nil {
		return err
	}
	if left := in.stillRelevant(list, now.Boot); len(left) < len(list) {
		return in.writeJSON(generation.AppliedFile, left)
	}
	return nil
}

// stillRelevant returns the records that the running kubelet may have loaded. It also returns
// the last record, which the next kubelet will load.
func (in *Installer) stillRelevant(list []generation.AppliedChange, boot string) (left []generation.AppliedChange) {
	if len(list) == 0 {
		return nil
	}
	for _, a := range append(in.possiblyLoadedRecords(list, boot), list[len(list)-1]) {
		if n := len(left); a.Boot != "" && (n == 0 || !hasSameEntries(left[n-1], a)) {
			left = append(left, a)
		}
	}
	return left
}

// possiblyLoadedRecords returns the records that the running kubelet may have loaded, most
// likely first: the last record before the kubelet's start (or an empty record), and then all
// records within maxConfigReadDelay after the start.
func (in *Installer) possiblyLoadedRecords(list []generation.AppliedChange, boot string) (read []generation.AppliedChange) {
	if in.Setup.Running == nil {
		return nil
	}
	start := in.Setup.Running.Start
	i := len(list) - 1
	for i >= 0 && list[i].Boot == boot && list[i].Ticks > start {
		i--
	}
	read = []generation.AppliedChange{{}}
	if i >= 0 {
		read[0] = list[i]
	}
	for _, a := range list[i+1:] {
		if a.Ticks <= start+maxConfigReadDelay {
			read = append(read, a)
		}
	}
	return read
}

// loadedEntries holds the provider entries that the running kubelet may have loaded.
type loadedEntries struct {
	known      bool
	candidates []generation.AppliedChange // the kubelet has loaded one of these, most likely the first; empty if no kubelet is running
}

func (in *Installer) loadedEntries(ctx context.Context) (m loadedEntries, err error) {
	list, known, err := in.readRecords(ctx)
	if err != nil || in.Setup.Running == nil {
		return loadedEntries{known: true}, err
	}
	now, err := in.timeSinceBoot()
	return loadedEntries{known, in.possiblyLoadedRecords(list, now.Boot)}, err
}

// hasNoEntries reports whether the running kubelet has certainly loaded no regcred entries.
func (m loadedEntries) hasNoEntries() bool {
	return m.known && !slices.ContainsFunc(m.candidates, func(a generation.AppliedChange) bool { return len(a.Entries) > 0 })
}

// missingEntries returns why the running kubelet may not have loaded all given entries. It
// returns nil if the kubelet has loaded them.
func (m loadedEntries) missingEntries(want []entries.Entry) (why []string) {
	if !m.known {
		return []string{"its loaded entries are unknown, because their record is damaged or missing"}
	}
	for _, a := range m.candidates {
		for _, gap := range entries.FindGaps(a.Entries, want) {
			why = append(why, "its loaded entries do not cover "+gap.String())
		}
		switch {
		case len(why) > 0 && len(a.Entries) == 0:
			return []string{"it has not loaded any regcred entry"}
		case len(why) > 0:
			return why
		}
	}
	return nil
}

// damagedFileError reports that a file in the state directory is a FIFO or directory, is too
// large, or cannot be decoded.
type damagedFileError struct {
	name string
	err  error
}

func (e *damagedFileError) Error() string { return fmt.Sprintf("%s is damaged: %v", e.name, e.err) }

// readJSON decodes a file in the state directory into v. If the file does not exist, v is
// unchanged.
func (in *Installer) readJSON(ctx context.Context, name string, v any) error {
	data, err := in.fs().ReadFile(ctx, in.Store.Path(name))
	if inroot.IsMissing(err) {
		return nil
	}
	if err != nil && !isReplaced(err) {
		return err
	}
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return &damagedFileError{in.fs().HostPath(in.Store.Path(name)), err}
	}
	return nil
}
