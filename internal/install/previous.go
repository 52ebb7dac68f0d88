// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"cmp"
	"context"
	"path"
	"reflect"
	"slices"

	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/inroot"
)

// findReusable returns an existing generation that has the planned content, prepared as for a
// rollback. restart lists why the kubelet must be restarted for it. findReusable ignores
// generations that need a restart if the plan does not. It returns nil if it finds no
// generation.
func (in *Installer) findReusable(ctx context.Context, p *Plan) (m *generation.Manifest, restart []string, err error) {
	numbers, err := in.Store.ListNumbers()
	if err != nil || p.From == nil {
		return nil, nil, err
	}
	numbers = append(slices.DeleteFunc(numbers, func(n int) bool { return n == p.From.Number }), p.From.Number)
	for _, n := range slices.Backward(numbers) {
		m, err := in.Store.Manifest(ctx, n)
		if err != nil || !hasPlannedContent(m, p) || in.hasDeadLinks(m) || len(entries.FindGaps(m.Entries, p.want)) > 0 || len(in.Store.ModifiedFiles(ctx, m)) > 0 {
			continue // status reports this generation as damaged, if it is
		}
		if m, err = in.withCurrentCopies(ctx, p.From, m); err != nil {
			return nil, nil, err
		}
		next := *p.To
		next.Entries = m.Entries
		host, err := in.hostFiles(ctx, &next)
		if err != nil {
			return nil, nil, err
		}
		why, err := in.restartReasons(ctx, m.Layout, m.Entries)
		if err != nil {
			return nil, nil, err
		}
		if sameHostFiles(host, m.Host) && (len(why) == 0 || len(p.Restart) > 0) {
			return m, why, nil
		}
	}
	return nil, nil, nil
}

// hasPlannedContent reports whether a generation has the planned files, settings, layout and
// owner.
func hasPlannedContent(m *generation.Manifest, p *Plan) bool {
	return m.Owner == p.To.Owner && m.MaxStale == p.To.MaxStale && m.AnyImage == p.To.AnyImage && slices.Equal(m.Reserve, p.To.Reserve) &&
		reflect.DeepEqual(m.Layout, p.To.Layout) && len(m.Files) == len(p.files) &&
		!slices.ContainsFunc(p.files, func(s generation.SourceFile) bool { return !isUnchanged(s, m) })
}

// sameHostFiles reports whether a and b contain the same host files in any order.
func sameHostFiles(a, b []generation.HostFile) bool {
	byPath := func(a, b generation.HostFile) int { return cmp.Compare(a.Path, b.Path) }
	return slices.Equal(slices.SortedStableFunc(slices.Values(a), byPath), slices.SortedStableFunc(slices.Values(b), byPath))
}

// latestReadable returns the latest generation that can be read. If no generation can be read,
// it returns nil and the error of the earliest one. If there are no generations, it returns nil
// and no error.
func (in *Installer) latestReadable(ctx context.Context) (m *generation.Manifest, err error) {
	numbers, err := in.Store.ListNumbers()
	for _, n := range slices.Backward(numbers) {
		if m, err = in.Store.Manifest(ctx, n); err == nil {
			return m, nil
		}
	}
	return nil, err
}

// hasDeadLinks reports whether a generation has links to executables in the original bin dir
// that no longer exist.
func (in *Installer) hasDeadLinks(m *generation.Manifest) bool {
	return slices.ContainsFunc(m.Host, func(h generation.HostFile) bool {
		if h.Kind != generation.HostKindLink || m.Layout.OriginalBinDir == "" || path.Dir(h.Target) != path.Clean(m.Layout.OriginalBinDir) {
			return false
		}
		_, err := in.fs().Stat(h.Target)
		return inroot.IsMissing(err)
	})
}
