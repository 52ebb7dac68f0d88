// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
)

// explainFlags holds the flags of "regcred explain".
type explainFlags struct {
	*lookupFlags
	output      *enumFlag
	dryRun      bool
	pullSecrets string // path of a PullSecretConfig
}

func (a *app) explainCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain IMAGE",
		Short: "Explain where the credentials for an image come from, or why none are found",
		Long: `Look up the credentials for IMAGE as a node would, and show every step: which
pattern of each provider matched, or the nearest pattern and where it differs;
what each plugin did; the credentials in the order that a pull tries them; and
the expected result of the pull. If the node's runtime has mirrors for the
image, the report lists the hosts that the runtime contacts and the credentials
sent to each host. Passwords are never shown.

With --pull-secrets, list instead which namespaces get which credentials from
regcred-controller, without running plugins.

The exit code is 0 if credentials are found, 3 if a pull would be anonymous, and
1 if something failed.`,
		Example: `  regcred explain registry.example/team/app:1.2
  sudo regcred explain --as-kubelet registry.example/team/app:1.2
  sudo regcred explain --as-kubelet --pod team/app-1 registry.example/team/app:1.2
  regcred explain --dry-run --config providers.yaml registry.example/team/app
  regcred explain --pull-secrets pull-secrets.yaml --config providers.yaml
  regcred explain -o json registry.example/team/app | jq .verdict`,
	}
	e := &explainFlags{output: addOutputFlag(cmd, "text", "json")}
	cmd.Flags().BoolVar(&e.dryRun, "dry-run", false, "only match patterns: do not run plugins or read docker config files")
	e.lookupFlags = addLookupFlags(cmd)
	a.addKubeletFlags(cmd)
	addTargetArgs(cmd, func(ctx context.Context, tgt regcred.Request) error { return a.explain(ctx, e, tgt) })
	cmd.Flags().StringVar(&e.pullSecrets, "pull-secrets", "", "`path` of a PullSecretConfig to explain, instead of IMAGE")
	argsOfImage := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if e.pullSecrets != "" {
			return optionalArgs()(cmd, args)
		}
		return argsOfImage(cmd, args)
	}
	return cmd
}

// check rejects incompatible flags.
func (e *explainFlags) check() error {
	if e.dryRun && e.queriesCluster() {
		return usageError("", "--dry-run sends no requests: omit --pod and --service-account")
	}
	return e.lookupFlags.check()
}

func (a *app) explain(ctx context.Context, e *explainFlags, tgt regcred.Request) error {
	if err := e.check(); err != nil {
		return err
	}
	if e.pullSecrets != "" {
		if tgt.Registry != "" || e.queriesCluster() {
			return usageError("", "--pull-secrets excludes --registry, --pod and --service-account")
		}
		return a.explainPullSecrets(ctx, e)
	}
	n := a.localNode().NewReader()
	o, err := a.findOrigin(ctx, n, node.FindOptions{AllowNone: true, NeedBinDir: !e.dryRun})
	if err != nil {
		return err
	}
	r := report.NewExplanation(tgt, report.ConfigFile{Path: o.Config, From: o.From})
	r.BinDir, r.Environment, r.DryRun = o.BinDir, o.Environment(), e.dryRun
	if o.NoProviders != nil {
		r.Config.NoProviders = o.NoProviders
	}
	cfg, err := a.loadValidConfig(ctx, o)
	if err != nil {
		return a.reportInvalidConfig(e, r, err)
	}
	a.printDispatcherNote(cfg)
	ex, err := a.explainTarget(cfg, tgt)
	if err != nil {
		return err
	}
	r.AddProviders(cfg, ex, report.LintFindings(cfg, r.BinDir))
	if !e.dryRun {
		if err := a.addLookupExplanation(ctx, cfg, o, e, tgt, r); err != nil {
			return err
		}
		r.Route = doctor.FindRuntime(ctx, n, o).ConfiguredRoute(tgt.Image)
		if r.Route != nil && len(r.Credentials) == 0 {
			r.Route.Findings = append(r.Route.Findings, r.Route.AnonymousFindings()...)
		}
	}
	r.SetVerdict()
	if err := a.printResult(e.output, r, func(t *terminal.Text) { renderExplanation(t, r) }); err != nil {
		return err
	}
	return exitWithCode(verdictExitCode(&r.Verdict))
}

// printDispatcherNote prints where the dispatcher's providers are configured.
func (a *app) printDispatcherNote(cfg *config.Config) {
	isDispatcher := func(p config.Provider) bool { return strings.HasPrefix(p.Name, generation.DispatcherName) }
	if current := generation.DefaultDir + "/current"; slices.ContainsFunc(cfg.Providers, isDispatcher) {
		a.Note("%s runs the providers of this node's current generation; to see them, run: regcred explain --config %s/config --bin-dir %s/bin IMAGE",
			generation.DispatcherName, current, current)
	}
}

func (a *app) addLookupExplanation(ctx context.Context, cfg *config.Config, o *node.Origin, e *explainFlags, tgt regcred.Request, r *report.Explanation) error {
	s, err := a.newSession(ctx, cfg, o, e.lookupFlags)
	if err != nil {
		return err
	}
	defer s.Close()
	if s.subject != nil {
		r.Subject = s.subject.newSubjectReport()
		a.printUnusedImageNote(cfg, s.subject, r.Repository)
	}
	res, _, err := s.lookupTarget(ctx, tgt)
	if err != nil {
		return err
	}
	r.Credentials = report.NewCredentials(res.Credentials)
	addSkippedSecrets(r, s.req.PullSecrets)
	for _, at := range res.Attempts {
		j := report.NewAttempt(at)
		j.Fix = doctor.AttemptFix(at, s.subject != nil, o.Config)
		if unread, ok := errors.AsType[*unreadableSecret](at.Err); ok {
			j.Fix = doctor.SecretFix(unread, s.subject.pullSecretOwner(), s.subject.pod.Namespace, o.Config)
		}
		if at.Kind != regcred.FromProvider {
			r.Sources = append(r.Sources, newSourceReport(at, j))
		} else if at.Index >= 0 && at.Index < len(r.Providers) {
			r.Providers[at.Index].Attempt = j
			if j.Identity != nil {
				j.Identity.CacheType = cfg.Providers[at.Index].TokenAttributes.CacheType
			}
		}
	}
	s.addSourceFindings(ctx, r, a.Now())
	r.CountWithoutUsername()
	return nil
}

// reportInvalidConfig returns the error of an invalid configuration. With -o json, it
// also prints the error as JSON.
func (a *app) reportInvalidConfig(e *explainFlags, r *report.Explanation, invalid error) error {
	if _, ok := errors.AsType[*config.FieldError](invalid); !ok || e.output.value != "json" || node.UncheckedError(invalid) != nil {
		return invalid
	}
	r.SetInvalid(errors.Unwrap(invalid))
	return errors.Join(a.WriteJSON(r), invalid)
}
