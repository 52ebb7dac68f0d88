// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/lint"
)

// explainFlags are the flags of "regcred explain".
type explainFlags struct {
	*lookupFlags
	output *choice
	dryRun bool
}

func (a *app) explainCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain IMAGE",
		Short: "Explain where the credentials for an image come from, or why there are none",
		Long: `explain looks up the credentials for IMAGE as a node would and shows every step:
which pattern of each provider matched, or came nearest and where it failed;
what each plugin did; the credentials in the order in which a pull tries them;
and how such a pull would go. It never shows a password.

The exit code is 0 if there are credentials, 3 if there are none and a pull
would be anonymous, and 1 if something failed.`,
		Example: `  regcred explain registry.example/team/app:1.2
  sudo regcred explain --as-kubelet registry.example/team/app:1.2
  sudo regcred explain --as-kubelet --pod team/app-1 registry.example/team/app:1.2
  regcred explain --dry-run --config providers.yaml registry.example/team/app
  regcred explain -o json registry.example/team/app | jq .verdict`,
	}
	e := &explainFlags{output: addOutputFlag(cmd, "text", "json")}
	cmd.Flags().BoolVar(&e.dryRun, "dry-run", false, "match only: run no plugin and read no docker config")
	e.lookupFlags = addLookupFlags(cmd)
	withTarget(cmd, func(cmd *cobra.Command, tgt target) error {
		return a.explain(cmd.Context(), cmd.OutOrStdout(), e, tgt)
	})
	return cmd
}

func (a *app) explain(ctx context.Context, out io.Writer, e *explainFlags, tgt target) error {
	if err := e.check(); err != nil {
		return err
	}
	o, err := a.resolve("", !e.dryRun)
	if err != nil {
		return err
	}
	cfg, err := a.loadValid(o)
	if err != nil {
		return a.explainInvalid(out, e, o, tgt, err)
	}
	r, err := a.newReport(cfg, o, tgt)
	if err != nil {
		return err
	}
	if r.DryRun = e.dryRun; !e.dryRun {
		if err := a.explainLookup(ctx, cfg, o, e, tgt, r); err != nil {
			return err
		}
	}
	r.Verdict = r.judge()
	if e.output.value == "json" {
		err = terminal.WriteJSON(out, r)
	} else {
		err = a.renderReport(r).Print(out)
	}
	if err != nil {
		return err
	}
	return exit(r.Verdict.exitCode())
}

// newReport fills in what does not need a lookup.
func (a *app) newReport(cfg *config.Config, o *node.Origin, tgt target) (*explainReport, error) {
	ex, err := a.explainTarget(cfg, tgt)
	if err != nil {
		return nil, err
	}
	r := &explainReport{
		Image:       tgt.image,
		Registry:    tgt.registry,
		Repository:  ex.Repository,
		Config:      configJSON{o.Config, cfg.Hash(), o.From},
		BinDir:      o.BinDir,
		Environment: o.Environment(),
		Sources:     []sourceReport{},
		Credentials: []credentialJSON{},
		Findings:    []lint.Finding{},
	}
	for _, p := range ex.Providers {
		r.Providers = append(r.Providers, providerReport{ProviderExplanation: p, Findings: []lint.Finding{}})
	}
	findings := lint.Check(cfg)
	if o.BinDir != "" {
		findings = append(findings, lint.BinDir(cfg, o.BinDir)...)
	}
	r.addFindings(findings)
	return r, nil
}

// check refuses flags that do not go together.
func (e *explainFlags) check() error {
	if e.dryRun && (e.pod.given() || e.serviceAccount.given()) {
		return usageError("", "--dry-run asks nobody: leave out --pod and --service-account")
	}
	return e.lookupFlags.check()
}

func (a *app) explainLookup(ctx context.Context, cfg *config.Config, o *node.Origin, e *explainFlags, tgt target, r *explainReport) error {
	s, err := a.newSession(ctx, cfg, o, e.lookupFlags)
	if err != nil {
		return err
	}
	defer s.Close()
	if s.subject != nil {
		r.Subject = s.subject.report()
		a.noteImage(cfg, s.subject, r.Repository)
	}
	req, err := e.request(tgt, s.subject)
	if err != nil {
		return err
	}
	// A failure is in the attempts, which is where the report has it from.
	res, _, err := lookup(ctx, s.Keyring, req, r.Repository)
	if err != nil {
		return err
	}
	r.Credentials = toCredentialsJSON(res.Credentials, false)
	r.addPassedOver(req.PullSecrets)
	for _, at := range res.Attempts {
		j := toAttemptJSON(at)
		j.Fix = doctor.AttemptRemedy(at, s.subject != nil, o.Config)
		if at.Kind != regcred.SourceProvider {
			r.Sources = append(r.Sources, newSourceReport(at, j))
		} else if at.Index >= 0 && at.Index < len(r.Providers) {
			r.Providers[at.Index].Attempt = j
			if j.Identity != nil {
				j.Identity.CacheType = cfg.Providers[at.Index].TokenAttributes.CacheType
			}
		}
	}
	return nil
}

// explainInvalid tells a machine too that there is nothing to explain.
func (a *app) explainInvalid(out io.Writer, e *explainFlags, o *node.Origin, tgt target, invalid error) error {
	if _, ok := errors.AsType[*config.FieldError](invalid); !ok || e.output.value != "json" || errors.Is(invalid, fs.ErrPermission) {
		return invalid
	}
	var problems []string
	for _, p := range terminal.Flatten(errors.Unwrap(invalid)) {
		problems = append(problems, p.Error())
	}
	r := explainReport{
		Image:       tgt.image,
		Registry:    tgt.registry,
		Config:      configJSON{Path: o.Config, From: o.From},
		BinDir:      o.BinDir,
		Environment: o.Environment(),
		DryRun:      e.dryRun,
		Sources:     []sourceReport{},
		Providers:   []providerReport{},
		Credentials: []credentialJSON{},
		Findings:    []lint.Finding{},
		Verdict: verdict{
			Outcome: verdictInvalid,
			Text:    "the kubelet would not start with this configuration: " + strings.Join(problems, "; "),
		},
	}
	return errors.Join(terminal.WriteJSON(out, r), invalid)
}
