// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package serve

import (
	"context"
	"os"
	"slices"
)

// peer is the process at the other end of a connection, when it connected.
type peer struct {
	pid      int32 // 0 if it is unknown; used only to tell clients apart, because process IDs are reused
	uid, gid uint32
	groups   []uint32 // supplementary groups
}

// isPrivileged reports whether a peer may hand over service account tokens: root, or the user of the
// service.
func (p *peer) isPrivileged() bool { return p.uid == 0 || int64(p.uid) == int64(os.Geteuid()) }

// AllowList lists the users and groups that may request credentials, in addition to root and the user
// of the service.
type AllowList struct {
	UIDs, GIDs []uint32
}

func (l *AllowList) isEmpty() bool { return len(l.UIDs)+len(l.GIDs) == 0 }

func (l *AllowList) allows(p *peer) bool {
	return p.isPrivileged() || slices.Contains(l.UIDs, p.uid) || slices.Contains(l.GIDs, p.gid) ||
		slices.ContainsFunc(p.groups, func(g uint32) bool { return slices.Contains(l.GIDs, g) })
}

type peerKey struct{}

func withPeer(ctx context.Context, p *peer) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}

func peerFrom(ctx context.Context) *peer { return ctx.Value(peerKey{}).(*peer) }
