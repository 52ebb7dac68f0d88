// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/install"
	"github.com/regcred/regcred/internal/tally"
)

// Installed checks what "regcred install" has put on a node, if anything, and
// what the providers there have done.
func (r *Report) Installed(ctx context.Context, k *Kubelet) {
	store := generation.Store{FS: inroot.FS{Root: k.Node.Root}, Dir: generation.DefaultDir}
	if k.Setup == nil || !store.FS.Exists(store.Dir) {
		return
	}
	in := install.Installer{Store: store, Setup: k.Setup}
	s, err := in.Status(ctx)
	if err != nil {
		r.Fail("installed", err, "run this command as root (sudo)")
		return
	}
	if s.BrokenOff != "" {
		r.Add("installed", Fail, "run regcred install, rollback or uninstall; each one first completes or undoes the interrupted change", "interrupted: %s", s.BrokenOff)
	}
	for _, p := range s.Problems {
		r.Add("installed", Fail, "run regcred status for details", "%s", p)
	}
	for _, why := range s.Restart {
		r.Add("installed", Warn, "regcred install --restart", "the kubelet needs a restart: %s", why)
	}
	if s.Current != nil && s.BrokenOff == "" && len(s.Problems)+len(s.Restart) == 0 {
		r.Add("installed", OK, "", "generation %d is current and unmodified; it contains %v", s.Current.Number, s.Current.Executables())
	}
	r.counted(ctx, store.FS)
}

// counted tells of providers that failed, of which a kubelet's log says nothing
// where another had an answer.
func (r *Report) counted(ctx context.Context, root inroot.FS) {
	counts, err := tally.Read(ctx, root.Host(tally.DefaultDir))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		r.Add("counts", Warn, "remove it", "%v", err)
		return
	}
	const current = generation.DefaultDir + "/current" // the kubelet's own configuration has the dispatcher alone
	for _, name := range slices.Sorted(maps.Keys(counts.Providers)) {
		p := counts.Providers[name]
		if e := p.LastError; e != nil {
			r.Add("counts", Warn, "test the provider: regcred plugin run --config "+current+"/config --bin-dir "+current+"/bin "+name+" IMAGE", "provider %q failed at least once in %d runs since %s; the last failure was at %s: %s",
				name, p.Runs, counts.Since.Format("2006-01-02 15:04"), e.Time.Format("2006-01-02 15:04:05"), e.Message)
		}
	}
}
