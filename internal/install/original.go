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

// originalFile holds the node's own file without regcred's entries, and what regcred
// wrote.
type originalFile struct {
	Absent  bool     `json:"absent,omitempty"`
	Data    []byte   `json:"data,omitempty"`
	Written []string `json:"written"` // SHA-256 of the contents that regcred may have written: the last one and the next one
}

const originalsFile = "originals.json"

func (in *Installer) readOriginals(ctx context.Context) (map[string]originalFile, error) {
	list := map[string]originalFile{}
	err := in.readJSON(ctx, originalsFile, &list)
	if damaged, ok := errors.AsType[*damagedFileError](err); ok {
		in.progressf("%v; the original content of edited files is unknown", damaged)
		return map[string]originalFile{}, nil
	}
	return list, err
}

// saveOriginal saves a file's content without regcred's entries before the file is
// rewritten. This includes changes that other programs made in the meantime.
func (in *Installer) saveOriginal(ctx context.Context, name string, now, without, next []byte) error {
	list, err := in.readOriginals(ctx)
	if err != nil {
		return err
	}
	o := list[name]
	if !o.isUnmodified(now) {
		o.Absent, o.Data = without == nil, without
	}
	o.Written = []string{checksum(now), checksum(next)}
	list[name] = o
	return in.writeJSON(originalsFile, list)
}

// isUnmodified reports whether only regcred has changed a file.
func (o originalFile) isUnmodified(now []byte) bool { return slices.Contains(o.Written, checksum(now)) }

// originalContent returns a file's original content if only regcred has changed it.
func (o originalFile) originalContent(now []byte) (data []byte, ok bool) {
	if !o.isUnmodified(now) {
		return nil, false
	}
	if o.Absent {
		return nil, true
	}
	return append([]byte{}, o.Data...), true
}

// checksum returns the checksum of content, or "" for nil.
func checksum(data []byte) string {
	if data == nil {
		return ""
	}
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}
