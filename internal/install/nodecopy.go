// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"bytes"
	"context"
	"slices"

	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/generation"
)

// copiesNode reports whether something on the host repeats what is the node's own: the
// command of its unit, its configuration, its plugins. It belongs to the node as it
// is now, and to no generation.
func (in *Installer) copiesNode(l generation.Layout, h generation.HostFile) bool {
	switch h.Kind {
	case generation.HostFileOwn:
		return h.Path == l.DropIn || h.Path == l.NodeConfig || l.Kind == generation.ConfigCopied && h.Path == l.Config
	case generation.HostLink:
		return h.Target != in.Store.DispatcherPath()
	}
	return false
}

// refreshed is a generation to go back to, with what repeats the node's own as the
// latest has it: an earlier one has the node as it was when it was made, and a
// kubelet may not start with that any more.
func (in *Installer) refreshed(ctx context.Context, from, to *generation.Manifest) (*generation.Manifest, error) {
	if from == nil {
		return to, nil
	}
	back := *to
	back.Host = slices.DeleteFunc(slices.Clone(to.Host), func(h generation.HostFile) bool { return in.copiesNode(to.Layout, h) })
	for _, h := range from.Host {
		if !in.copiesNode(from.Layout, h) {
			continue
		}
		if h.Path == to.Layout.Config {
			former, err := in.ownNames(ctx)
			if err != nil {
				return nil, err
			}
			data, err := entries.Set(in.fs().Host(h.Path), []byte(h.Content), to.Entries, former)
			if err != nil {
				return nil, err
			}
			h.Content = string(data)
		}
		back.Host = append(back.Host, h)
	}
	return &back, nil
}

// isContent reports whether a file of ours has the content of a generation. Of a
// copy of somebody's configuration, that is all but the entries: another
// generation may have brought those.
func (in *Installer) isContent(ctx context.Context, m *generation.Manifest, h generation.HostFile, now []byte) bool {
	if string(now) == h.Content || m.Layout.Kind != generation.ConfigCopied || h.Path != m.Layout.Config {
		return string(now) == h.Content
	}
	a, err := in.without(ctx, h.Path, now)
	b, otherErr := in.without(ctx, h.Path, []byte(h.Content))
	return err == nil && otherErr == nil && bytes.Equal(a, b)
}

// asInstalled reports whether a file of ours is as it should be with a generation:
// of its content or, where it repeats the node's own, of a later one's.
func (in *Installer) asInstalled(ctx context.Context, m *generation.Manifest, h generation.HostFile, now []byte) bool {
	if string(now) == h.Content || !in.copiesNode(m.Layout, h) {
		return string(now) == h.Content
	}
	if h.Path != m.Layout.Config {
		return in.mine(ctx, h.Path, now)
	}
	former, err := in.ownNames(ctx)
	if err != nil {
		return false
	}
	next, err := entries.Set(in.fs().Host(h.Path), now, m.Entries, former)
	return err == nil && bytes.Equal(next, now) && in.mine(ctx, h.Path, now)
}
