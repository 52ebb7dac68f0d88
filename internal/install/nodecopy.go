// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"bytes"
	"context"
	"reflect"
	"slices"

	"github.com/regcred/regcred/internal/generation"
)

// copiesNodeFile reports whether a host file is derived from the node's own files: a copy of
// the unit's command or of the kubelet's configuration, or a link to a plugin. The content must
// match the node's current files, even after a rollback.
func (in *Installer) copiesNodeFile(l generation.KubeletLayout, h generation.HostFile) bool {
	switch h.Kind {
	case generation.HostKindFile:
		return h.Path == l.DropIn || h.Path == l.NodeConfig || l.Kind == generation.ConfigKindCopied && h.Path == l.Config
	case generation.HostKindLink:
		return h.Target != in.Store.DispatcherPath()
	}
	return false
}

// withCurrentCopies returns a copy of generation to for a rollback. It takes the copies of the
// node's files from generation from. The copies in to are older, and the kubelet might not
// start with them.
func (in *Installer) withCurrentCopies(ctx context.Context, from, to *generation.Manifest) (*generation.Manifest, error) {
	if from == nil || !hasSameLayout(from, to) {
		return to, nil
	}
	back := *to
	back.Host = slices.DeleteFunc(slices.Clone(to.Host), func(h generation.HostFile) bool { return in.copiesNodeFile(to.Layout, h) })
	for _, h := range from.Host {
		if !in.copiesNodeFile(from.Layout, h) {
			continue
		}
		if h.Path == to.Layout.Config {
			data, err := in.setEntries(ctx, h.Path, []byte(h.Content), to.Entries)
			if err != nil {
				return nil, err
			}
			h.Content = string(data)
		}
		back.Host = append(back.Host, h)
	}
	return &back, nil
}

// hasSameLayout reports whether two generations use the same paths. Copies of the node's files
// contain these paths.
func hasSameLayout(a, b *generation.Manifest) bool {
	x, y := a.Layout, b.Layout
	x.Dirs, y.Dirs = nil, nil
	return reflect.DeepEqual(x, y)
}

// hasContentOf reports whether now is generation m's content of the host file h. In a copy of
// the node's configuration, it ignores regcred's entries, because another generation may have
// set them.
func (in *Installer) hasContentOf(ctx context.Context, m *generation.Manifest, h generation.HostFile, now []byte) bool {
	if string(now) == h.Content || m.Layout.Kind != generation.ConfigKindCopied || h.Path != m.Layout.Config {
		return string(now) == h.Content
	}
	a, err := in.setEntries(ctx, h.Path, now, nil)
	b, otherErr := in.setEntries(ctx, h.Path, []byte(h.Content), nil)
	return err == nil && otherErr == nil && bytes.Equal(a, b)
}

// matchesGeneration reports whether now is correct content for the host file h of generation m. It
// must be the content in m. A copy of a node's file may also have the content from a later
// generation.
func (in *Installer) matchesGeneration(ctx context.Context, m *generation.Manifest, h generation.HostFile, now []byte) bool {
	if string(now) == h.Content || !in.copiesNodeFile(m.Layout, h) {
		return string(now) == h.Content
	}
	if h.Path != m.Layout.Config {
		return in.isOwnContent(ctx, h.Path, now)
	}
	next, err := in.setEntries(ctx, h.Path, now, m.Entries)
	return err == nil && bytes.Equal(next, now) && in.isOwnContent(ctx, h.Path, now)
}
