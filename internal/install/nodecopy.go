// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"bytes"
	"context"
	"slices"

	"github.com/regcred/regcred/internal/generation"
)

// copiesNodeFile reports whether a host file copies or links to something of the node: the
// unit's command, the kubelet's configuration, or plugins. It must match the node's
// current state, not an earlier generation's.
func (in *Installer) copiesNodeFile(l generation.KubeletLayout, h generation.HostFile) bool {
	switch h.Kind {
	case generation.HostKindFile:
		return h.Path == l.DropIn || h.Path == l.NodeConfig || l.Kind == generation.ConfigKindCopied && h.Path == l.Config
	case generation.HostKindLink:
		return h.Target != in.Store.DispatcherPath()
	}
	return false
}

// withCurrentCopies returns the generation to with from's copies of the node. The
// copies in to are older, and the kubelet may no longer start with them.
func (in *Installer) withCurrentCopies(ctx context.Context, from, to *generation.Manifest) (*generation.Manifest, error) {
	if from == nil {
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

// hasContentOf reports whether regcred's file has a generation's content. In a copy of
// the node's configuration, entries are ignored, because another generation may have
// set them.
func (in *Installer) hasContentOf(ctx context.Context, m *generation.Manifest, h generation.HostFile, now []byte) bool {
	if string(now) == h.Content || m.Layout.Kind != generation.ConfigKindCopied || h.Path != m.Layout.Config {
		return string(now) == h.Content
	}
	a, err := in.setEntries(ctx, h.Path, now, nil)
	b, otherErr := in.setEntries(ctx, h.Path, []byte(h.Content), nil)
	return err == nil && otherErr == nil && bytes.Equal(a, b)
}

// isAsInstalled reports whether regcred's file is correct for a generation. It must
// have the generation's content or, if it is a copy of the node's, a later
// generation's.
func (in *Installer) isAsInstalled(ctx context.Context, m *generation.Manifest, h generation.HostFile, now []byte) bool {
	if string(now) == h.Content || !in.copiesNodeFile(m.Layout, h) {
		return string(now) == h.Content
	}
	if h.Path != m.Layout.Config {
		return in.isWritten(ctx, h.Path, now)
	}
	next, err := in.setEntries(ctx, h.Path, now, m.Entries)
	return err == nil && bytes.Equal(next, now) && in.isWritten(ctx, h.Path, now)
}
