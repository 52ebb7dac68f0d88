// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/scrub"
	"github.com/regcred/regcred/internal/shown"
)

// run runs regcred on the node and waits for at most the given time.
func (w agentTurn) run(ctx context.Context, within time.Duration, args ...string) (out []byte, code int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, &timeoutError{args[0], within})
	defer cancel()
	out, code, err = w.Host.Run(ctx, args...)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return out, code, err
}

// timeoutError is returned if a command took too long.
type timeoutError struct {
	command string
	within  time.Duration
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("regcred %s is still running on the node after %v", e.command, e.within)
}

// changeCommand changes the node.
type changeCommand struct {
	args       []string
	okOutcomes []report.ChangeOutcome
}

func (w agentTurn) installCommand(more ...string) changeCommand {
	args := []string{"install", w.Host.Path(configDir), "--bin-dir", w.Host.Path(pluginDir), "--dispatcher", w.Host.Path(dispatcherName), "--owner", w.Owner, "--hide-values", "-o", "json"}
	return changeCommand{slices.Concat(args, w.Install.args(), w.Install.stateDirArgs(), more),
		[]report.ChangeOutcome{report.ChangeInstalled, report.ChangeRolledBack, report.ChangeRepaired, report.ChangeUnchanged, report.ChangePlanned}}
}

// uninstallCommand allows a kubelet restart, because the kubelet would otherwise run
// plugins that no longer exist.
func (w agentTurn) uninstallCommand() changeCommand {
	args := []string{"uninstall", "--restart", w.Install.timeout(), "--owner", w.Owner, "-o", "json"}
	return changeCommand{append(args, w.Install.stateDirArgs()...), []report.ChangeOutcome{report.ChangeUninstalled, report.ChangeUnchanged}}
}

// runChange changes the node.
func (w agentTurn) runChange(ctx context.Context, c changeCommand) (*changeResponse, error) {
	w.publishStatus(w.Install.waitTimeout())
	out, code, err := w.run(ctx, w.Install.waitTimeout(), c.args...)
	w.logged = true // run may have logged a message
	if err != nil {
		return nil, err
	}
	a, err := decodeChange(c.args[0], out, code, c.okOutcomes...)
	if err != nil {
		return nil, &unreadableResultError{err}
	}
	return a, nil
}

// unreadableResultError is returned if a change ended but its result cannot be read.
type unreadableResultError struct{ why error }

func (e *unreadableResultError) Error() string { return e.why.Error() }

// readStatus reads the node's state and updates the status except for the phase. The time limit
// includes a change that is running.
func (w agentTurn) readStatus(ctx context.Context, within time.Duration) (*statusResponse, error) {
	out, code, err := w.run(ctx, within, append([]string{"status", "-o", "json", "--quiet"}, w.Install.stateDirArgs()...)...)
	if err != nil {
		return nil, err
	}
	a, err := decodeStatus(out, code)
	if err != nil {
		return nil, err
	}
	w.failedChecks, w.memory.Reached = 0, true
	w.mu.Lock()
	w.counts = a.Counts
	w.mu.Unlock()
	w.updateStatus(func(s *Status) {
		s.Kind, s.Kubelet, s.Generation, s.KubeletHas = a.Node.Kind, a.Node.Kubelet, *a.Current, a.KubeletHas
	})
	return a, nil
}

// redact redacts the configuration's secrets in output from the node, and replaces the
// node's paths with the pod's.
func (w agentTurn) redact(text string) string {
	text = scrub.RedactPart(text, w.configSecrets(), false, false)
	for name, here := range map[string]string{configDir: w.Options.Config, pluginDir: w.Plugins} {
		text = strings.ReplaceAll(text, w.Host.Path(name)+"/", strings.TrimSuffix(here, "/")+"/")
	}
	return shown.EscapeLine(text)
}

// redactAll redacts each text that will be shown. The others are only counted, so their
// content is dropped.
func (w agentTurn) redactAll(list []string) (texts []string) {
	texts = slices.Repeat([]string{"…"}, len(list))
	for i, text := range list[:min(len(list), maxDriftEntries)] {
		texts[i] = w.redact(text)
	}
	return texts
}

// minSecretLength is the minimum length of the values of args and env that are
// redacted, as in package plugin. Shorter values are usually words like "true".
const minSecretLength = 8

// configSecrets returns the values of args and env.
func (w agentTurn) configSecrets() (list []scrub.Secret) {
	if w.stage.cfg == nil {
		return nil
	}
	add := func(value, name string) {
		if len(value) >= minSecretLength && !strings.Contains(w.Install.Probe, value) {
			list = append(list, scrub.Secret{Text: value, Name: name})
		}
	}
	for i := range w.stage.cfg.Providers {
		p := &w.stage.cfg.Providers[i]
		for _, v := range p.Env {
			add(v.Value.Reveal(), fmt.Sprintf("env %s of provider %s", v.Name, p.Name))
		}
		for j, arg := range p.Arguments() {
			if strings.HasPrefix(arg, "-") {
				_, arg, _ = strings.Cut(arg, "=")
			}
			add(arg, fmt.Sprintf("args[%d] of provider %s", j, p.Name))
		}
	}
	return list
}
