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

// originalFile holds the content of a node's file without regcred's entries, and checksums of
// the contents that regcred wrote.
type originalFile struct {
	Absent  bool     `json:"absent,omitempty"`
	Data    []byte   `json:"data,omitempty"`
	Written []string `json:"written"` // SHA-256 checksums of the content before and after regcred's last write
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

// saveOriginal saves a file's content without regcred's entries before regcred rewrites the
// file. The saved content includes changes that other programs have made since the last write.
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

// isUnmodified reports whether no other program has changed the file since regcred's last
// write.
func (o originalFile) isUnmodified(now []byte) bool { return slices.Contains(o.Written, checksum(now)) }

// originalContent returns a file's original content. ok is false if another program has changed
// the file. data is nil if the file did not exist.
func (o originalFile) originalContent(now []byte) (data []byte, ok bool) {
	if !o.isUnmodified(now) {
		return nil, false
	}
	if o.Absent {
		return nil, true
	}
	return append([]byte{}, o.Data...), true
}

// checksum returns the SHA-256 checksum of data, or "" if data is nil.
func checksum(data []byte) string {
	if data == nil {
		return ""
	}
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}
