// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/install"
	"github.com/regcred/regcred/internal/runstats"
)

// checkInstalled checks the generation that "regcred install" activated.
func checkInstalled(ctx context.Context, w *Input, r *checkResults) {
	in := install.Installer{Store: w.generationStore(), Setup: w.Setup}
	s, err := in.Status(ctx)
	if err != nil {
		r.addErrors(err, "run this command as root (sudo)")
		return
	}
	if s.InterruptedChange != "" {
		r.addResult(finding.SeverityError, "run regcred install, rollback or uninstall; each one first completes or undoes the interrupted change", "interrupted: %s", s.InterruptedChange)
	}
	for _, p := range s.Problems {
		r.addResult(finding.SeverityError, "run regcred status for details", "%s", p)
	}
	for _, why := range s.Restart {
		r.addResult(finding.SeverityWarning, "regcred install --restart", "the kubelet needs a restart: %s", why)
	}
	if s.Current != nil && s.InterruptedChange == "" && len(s.Problems)+len(s.Restart) == 0 {
		r.addResult(finding.SeverityOK, "", "generation %d is current and unmodified; it contains %v", s.Current.Number, s.Current.Executables())
	}
}

// checkProviderFailures reports providers that failed. The kubelet does not log a failure if
// another provider returned a credential.
func checkProviderFailures(ctx context.Context, w *Input, r *checkResults) {
	counts, err := runstats.Read(ctx, w.generationStore().FS.HostPath(runstats.DefaultDir))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		r.addResult(finding.SeverityWarning, "remove it", "%v", err)
		return
	}
	const current = generation.DefaultDir + "/current"
	for _, name := range slices.Sorted(maps.Keys(counts.Providers)) {
		p := counts.Providers[name]
		if e := p.LastError; e != nil {
			r.addResult(finding.SeverityWarning, "test the provider: regcred plugin run --config "+current+"/config --bin-dir "+current+"/bin "+name+" IMAGE", "provider %q failed at least once in %d runs since %s; the last failure was at %s: %s",
				name, p.Runs, counts.Since.Format("2006-01-02 15:04"), e.Time.Format("2006-01-02 15:04:05"), e.Message)
		}
	}
}
