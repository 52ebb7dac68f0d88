// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/install"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/runstats"
	"github.com/regcred/regcred/internal/runstats/metrics"
	"github.com/regcred/regcred/internal/terminal"
)

func (a *app) statusCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what regcred installed on this node, and whether it still works",
		Long: `Show the generations on this node, the entries that the running kubelet has
loaded, the files that differ from the installed state, and how often each
provider has run since the node started.

The exit code is 0 if everything is as installed, 1 if not, and 3 if nothing is
installed.`,
		Example: `  sudo regcred status
  sudo regcred status -o json
  sudo regcred status --root /mnt/image`,
		Args: optionalArgs(),
	}
	c := addChangeFlags(cmd, "text", "json", "prometheus")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.status(cmd.Context(), c) }
	return cmd
}

func (a *app) status(ctx context.Context, c *nodeChangeFlags) error {
	in, err := a.newInstaller(ctx, c)
	if err != nil {
		return err
	}
	counts, err := runstats.Read(ctx, in.Store.FS.HostPath(runstats.DefaultDir))
	if errors.Is(err, fs.ErrNotExist) {
		counts, err = &runstats.Counts{}, nil
	}
	if err != nil && (c.output.value == "prometheus" || errors.Is(err, fs.ErrPermission)) {
		return withChangeHint(err)
	}
	if err != nil { // the status of the node is still useful
		a.Warn("%v", err)
		counts = &runstats.Counts{}
	}
	if c.output.value == "prometheus" {
		var b bytes.Buffer
		return cmp.Or(metrics.Write(&b, counts), a.WriteRaw(b.Bytes()))
	}
	s, err := in.Status(ctx)
	if err != nil {
		return withChangeHint(err)
	}
	r := newStatusReport(in.Setup, s, counts)
	if err := a.printResult(c.output, r, func(t *terminal.Text) { renderStatus(t, r) }); err != nil {
		return err
	}
	return exitWithCode(r.ExitCode())
}

// newStatusReport returns the report of a node.
func newStatusReport(n *node.Setup, s *install.Status, counts *runstats.Counts) *report.Status {
	r := &report.Status{
		Node:        report.Node{Kind: string(n.Kind), Kubelet: n.Version.Kubelet, Config: n.Config.Path, BinDir: n.BinDir.Path},
		Generations: []report.Generation{}, LoadedGeneration: s.LoadedGeneration, InterruptedChange: s.InterruptedChange, Problems: nonNilSlice(s.Problems), Restart: nonNilSlice(s.Restart),
	}
	if len(counts.Runs) > 0 {
		r.Counts = counts
	}
	if n.Running != nil {
		r.Node.PID = n.Running.PID
	}
	if n.Unit != nil {
		r.Node.Unit = n.Unit.Name
	}
	if n.Refusal != nil {
		r.Node.UnsupportedReason = n.Refusal.Why
	}
	if s.Current != nil {
		r.Current, r.Owner = s.Current.Number, s.Current.Owner
	}
	for _, k := range s.Generations {
		g := report.Generation{Number: k.Number, Current: k.Number == r.Current, Providers: []string{}}
		if k.Err != nil {
			g.Error = k.Err.Error()
		} else {
			g.Created, g.Source, g.Providers = k.Manifest.Created, k.Manifest.Source, nonNilSlice(k.Manifest.Executables())
		}
		r.Generations = append(r.Generations, g)
	}
	return r
}

func renderStatus(t *terminal.Text, r *report.Status) {
	t.Heading("node")
	text := r.Node.Kind
	if r.Node.Unit != "" {
		text += ", " + r.Node.Unit
	}
	if r.Node.Kubelet != "" {
		text += ", kubelet " + r.Node.Kubelet
	}
	if r.Node.PID != 0 {
		text += fmt.Sprintf(", process %d", r.Node.PID)
	}
	t.Item(terminal.MarkInfo, text)
	if r.Node.Config != "" {
		t.Detail("configuration %s", r.Node.Config)
		t.Detail("plugins in    %s", r.Node.BinDir)
	}
	if r.Node.UnsupportedReason != "" {
		t.Item(terminal.MarkWarning, "regcred cannot change this node: "+r.Node.UnsupportedReason)
	}
	t.Heading("generations")
	for _, g := range r.Generations {
		mark, text := terminal.MarkNoCredential, fmt.Sprintf("%d  %s  %s", g.Number, g.Created.Format("2006-01-02 15:04"), strings.Join(g.Providers, ", "))
		if g.Error != "" {
			mark, text = terminal.MarkError, fmt.Sprintf("%d  %s", g.Number, g.Error)
		}
		if g.Current {
			mark = terminal.MarkOK
			text += "  (current)"
		}
		t.Item(mark, text)
		if g.Current && r.Owner != "" {
			t.Detail("of release %s", r.Owner)
		} else if g.Source != "" {
			t.Detail("from %s", g.Source)
		}
	}
	if len(r.Generations) == 0 {
		t.Item(terminal.MarkNoCredential, "nothing is installed")
	}
	renderProblems(t, r)
	renderCounts(t, r)
}

// renderCounts prints the counters of each provider.
func renderCounts(t *terminal.Text, r *report.Status) {
	if r.Counts == nil {
		return
	}
	t.Heading("asked since " + r.Counts.Since.Format("2006-01-02 15:04"))
	for _, name := range slices.Sorted(maps.Keys(r.Counts.Providers)) {
		p := r.Counts.Providers[name]
		mark, text := terminal.MarkOK, name
		for _, result := range slices.Sorted(maps.Keys(p.Results)) {
			text += fmt.Sprintf("  %d %s", p.Results[result], result)
		}
		if p.Runs > 0 {
			text += fmt.Sprintf("  %s each", terminal.FormatDuration(time.Duration(p.Seconds/float64(p.Runs)*float64(time.Second)).Round(100*time.Microsecond)))
		}
		if p.LastError != nil {
			mark = terminal.MarkWarning
		}
		t.Item(mark, text)
		if e := p.LastError; e != nil {
			t.Detail("last error, %s: %s", e.Time.Format("2006-01-02 15:04:05"), e.Message)
		}
	}
	if e := r.Counts.LastError; e != nil {
		t.Item(terminal.MarkWarning, fmt.Sprintf("the kubelet got no response for a pull at %s: %s", e.Time.Format("2006-01-02 15:04:05"), e.Message))
	}
}

func renderProblems(t *terminal.Text, r *report.Status) {
	if r.Current == 0 && r.InterruptedChange == "" && len(r.Problems) == 0 {
		return
	}
	t.Heading("as installed")
	if r.InterruptedChange != "" {
		t.Item(terminal.MarkError, "broken off: "+r.InterruptedChange)
		t.Detail("the next regcred install, rollback or uninstall command first finishes or undoes the interrupted change")
	}
	for _, p := range r.Problems {
		t.Item(terminal.MarkError, p)
	}
	for _, why := range r.Restart {
		t.Item(terminal.MarkWarning, "the kubelet must be restarted: "+why)
	}
	if r.InterruptedChange == "" && len(r.Problems)+len(r.Restart) == 0 {
		t.Item(terminal.MarkOK, "files, symlinks and the kubelet's flags match the installed state")
	}
}
