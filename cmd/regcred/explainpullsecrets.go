// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/pullsecret"
	"github.com/regcred/regcred/internal/terminal"
)

// pullSecretsReport is the result of "regcred explain --pull-secrets -o json".
type pullSecretsReport struct {
	Path  string                 `json:"path"`
	Rules []pullSecretRuleReport `json:"rules"`
}

// pullSecretRuleReport describes a rule of a PullSecretConfig.
type pullSecretRuleReport struct {
	Namespaces pullsecret.Labels        `json:"namespaces"` // labels that a namespace must have
	Targets    []pullSecretTargetReport `json:"targets"`
}

// pullSecretTargetReport describes the Secrets with a credential for a registry or image.
type pullSecretTargetReport struct {
	pullsecret.Target
	Secrets []pullSecretSource `json:"secrets"`
	Reason  string             `json:"reason,omitempty"` // why the list is empty
}

// pullSecretSource names a Secret and the providers of its credential. The first one that has a
// credential is used.
type pullSecretSource struct {
	Secret    string   `json:"secret"`
	Account   string   `json:"serviceAccount,omitempty"`
	Providers []string `json:"providers"`
}

// explainPullSecrets explains which namespaces get which credentials from which providers. It runs no
// plugin and sends no request.
func (a *app) explainPullSecrets(ctx context.Context, e *explainFlags) error {
	f, err := pullsecret.Load(ctx, e.pullSecrets)
	if err != nil {
		return err
	}
	cfg, _, err := a.resolveAndLoad(ctx, "", false)
	if err != nil {
		return err
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	plan := pullsecret.NewPlan(f, cfg)
	r := &pullSecretsReport{Path: e.pullSecrets, Rules: []pullSecretRuleReport{}}
	missing := false
	for _, rule := range f.Rules {
		labels := maps.Clone(f.Namespaces)
		maps.Copy(labels, rule.Namespaces)
		report := pullSecretRuleReport{Namespaces: labels}
		for _, t := range rule.Targets {
			x := newPullSecretTarget(plan, t)
			missing = missing || x.Reason != ""
			report.Targets = append(report.Targets, x)
		}
		r.Rules = append(r.Rules, report)
	}
	if err := a.printResult(e.output, r, func(t *terminal.Text) { renderPullSecrets(t, r) }); err != nil {
		return err
	}
	if missing {
		return exitWithCode(exitNoMatch)
	}
	return nil
}

func newPullSecretTarget(plan *pullsecret.Plan, t pullsecret.Target) pullSecretTargetReport {
	x := pullSecretTargetReport{Target: t, Secrets: []pullSecretSource{}}
	withTokens := false
	for _, s := range plan.Secrets(plan.File.Namespaces) {
		source := pullSecretSource{Secret: s.Name, Account: s.Account}
		for _, name := range plan.Providers(t) {
			i := slices.IndexFunc(plan.Config.Providers, func(p config.Provider) bool { return p.Name == name })
			tokens := plan.Config.Providers[i].TokenAttributes != nil
			withTokens = withTokens || tokens
			if tokens == (s.Account != "") {
				source.Providers = append(source.Providers, name)
			}
		}
		if len(source.Providers) > 0 {
			x.Secrets = append(x.Secrets, source)
		}
	}
	switch {
	case len(x.Secrets) > 0:
	case withTokens:
		x.Reason = "the provider has tokenAttributes, but the file lists no serviceAccounts"
	default:
		x.Reason = "no provider matches"
		ex := regcred.Explain(plan.Config, regcred.Request{Registry: t.Registry, Image: t.Image})
		if ex.Nearest >= 0 {
			near := ex.Providers[ex.Nearest]
			x.Reason += fmt.Sprintf("; the nearest pattern is %q of %s: %s", near.Pattern, near.Name, near.Reason)
		}
	}
	return x
}

func renderPullSecrets(t *terminal.Text, r *pullSecretsReport) {
	for i, rule := range r.Rules {
		if i > 0 {
			t.BlankLine()
		}
		var labels []string
		for _, k := range slices.Sorted(maps.Keys(rule.Namespaces)) {
			labels = append(labels, k+"="+rule.Namespaces[k])
		}
		t.Quote("", "namespaces with "+strings.Join(labels, ", "))
		for _, x := range rule.Targets {
			if x.Reason != "" {
				t.MarkedLine(terminal.MarkError, x.String()+": "+x.Reason)
			}
			for _, s := range x.Secrets {
				t.MarkedLine(terminal.MarkOK, fmt.Sprintf("%s: Secret %s from %s", x, s.Secret, strings.Join(s.Providers, ", then ")))
			}
		}
	}
}
