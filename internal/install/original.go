// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
)

// original is the node's own file without regcred's entries, and what regcred wrote.
type original struct {
	Absent  bool     `json:"absent,omitempty"`
	Data    []byte   `json:"data,omitempty"`
	Written []string `json:"written"` // SHA-256 of the contents that regcred may have written: the last and the next
}

const originalsFile = "originals.json"

func (in *Installer) originals(ctx context.Context) (map[string]original, error) {
	list := map[string]original{}
	err := in.readJSON(ctx, originalsFile, &list)
	if damaged, ok := errors.AsType[*damagedError](err); ok {
		in.say("%v; the original content of edited files is unknown", damaged)
		return map[string]original{}, nil
	}
	return list, err
}

// saveOriginal saves a file's content without regcred's entries before the file is rewritten.
// This includes changes that others made in the meantime.
func (in *Installer) saveOriginal(ctx context.Context, name string, now, without, next []byte) error {
	list, err := in.originals(ctx)
	if err != nil {
		return err
	}
	o := list[name]
	if !o.known(now) {
		o.Absent, o.Data = without == nil, without
	}
	o.Written = []string{sum(now), sum(next)}
	list[name] = o
	return in.writeJSON(originalsFile, list)
}

// known reports whether only regcred has changed a file.
func (o original) known(now []byte) bool { return slices.Contains(o.Written, sum(now)) }

// unchanged returns a file's original content if only regcred has changed it.
func (o original) unchanged(now []byte) (data []byte, ok bool) {
	if !o.known(now) {
		return nil, false
	}
	if o.Absent {
		return nil, true
	}
	return append([]byte{}, o.Data...), true
}

// sum returns the checksum of a content, "" for nil.
func sum(data []byte) string {
	if data == nil {
		return ""
	}
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}
