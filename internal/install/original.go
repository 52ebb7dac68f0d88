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

// original is a file of somebody else in which we have entries: as it was
// without them, and what we made of it.
type original struct {
	Absent  bool     `json:"absent,omitempty"`
	Data    []byte   `json:"data,omitempty"`
	Written []string `json:"written"` // SHA-256 of the contents that may be ours: the former and the next
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

// remember writes down what a file is without our entries, before it is
// written anew. What others did to it since we wrote it last is part of that.
func (in *Installer) remember(ctx context.Context, name string, now, without, next []byte) error {
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

// known reports whether nobody but us has changed a file.
func (o original) known(now []byte) bool { return slices.Contains(o.Written, sum(now)) }

// unchanged returns what a file was before us if nobody but us has changed it.
func (o original) unchanged(now []byte) (data []byte, ok bool) {
	if !o.known(now) {
		return nil, false
	}
	if o.Absent {
		return nil, true
	}
	return append([]byte{}, o.Data...), true
}

// sum is that of a content; of none it is "".
func sum(data []byte) string {
	if data == nil {
		return ""
	}
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}
