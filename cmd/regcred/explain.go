// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
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
	withTarget(cmd, func(ctx context.Context, tgt target) error { return a.explain(ctx, e, tgt) })
	return cmd
}

// check refuses flags that do not go together.
func (e *explainFlags) check() error {
	if e.dryRun && e.asksCluster() {
		return usageError("", "--dry-run asks nobody: leave out --pod and --service-account")
	}
	return e.lookupFlags.check()
}

func (a *app) explain(ctx context.Context, e *explainFlags, tgt target) error {
	if err := e.check(); err != nil {
		return err
	}
	o, err := a.resolve("", !e.dryRun)
	if err != nil {
		return err
	}
	r := newExplainReport(o, tgt)
	r.DryRun = e.dryRun
	cfg, err := a.loadValid(o)
	if err != nil {
		return a.explainInvalid(e, r, err)
	}
	if err := a.explainMatch(cfg, tgt, r); err != nil {
		return err
	}
	if !e.dryRun {
		if err := a.explainLookup(ctx, cfg, o, e, tgt, r); err != nil {
			return err
		}
	}
	r.Verdict = r.judge()
	if err := a.print(e.output, r, r.render); err != nil {
		return err
	}
	return exit(r.Verdict.exitCode())
}

// explainMatch fills in what does not need a lookup.
func (a *app) explainMatch(cfg *config.Config, tgt target, r *explainReport) error {
	ex, err := a.explainTarget(cfg, tgt)
	if err != nil {
		return err
	}
	r.Repository, r.Config.Hash = ex.Repository, cfg.Hash()
	for _, p := range ex.Providers {
		r.Providers = append(r.Providers, providerReport{ProviderExplanation: p, Findings: []lint.Finding{}})
	}
	r.addFindings(findings(cfg, r.BinDir))
	return nil
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
	res, _, err := s.lookup(ctx, tgt)
	if err != nil {
		return err
	}
	r.Credentials = toCredentialsJSON(res.Credentials)
	r.addPassedOver(s.req.PullSecrets)
	for _, at := range res.Attempts {
		j := toAttemptJSON(at)
		j.Fix = doctor.AttemptRemedy(at, s.subject != nil, o.Config)
		if at.Kind != regcred.FromProvider {
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
func (a *app) explainInvalid(e *explainFlags, r *explainReport, invalid error) error {
	if _, ok := errors.AsType[*config.FieldError](invalid); !ok || e.output.value != "json" || errors.Is(invalid, fs.ErrPermission) {
		return invalid
	}
	var problems []string
	for _, p := range terminal.Flatten(errors.Unwrap(invalid)) {
		problems = append(problems, p.Error())
	}
	r.Verdict = verdict{
		Outcome: verdictInvalid,
		Text:    "the kubelet would not start with this configuration: " + strings.Join(problems, "; "),
	}
	return errors.Join(a.WriteJSON(r), invalid)
}
