// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/scrub"
	"github.com/regcred/regcred/internal/textfmt"
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

// changeCommand is a regcred command that changes the node.
type changeCommand struct {
	args       []string
	okOutcomes []report.ChangeOutcome
}

func (w agentTurn) installCommand(more ...string) changeCommand {
	args := []string{"install", w.Host.Path(configDir), "--bin-dir", w.Host.Path(pluginDir), "--dispatcher", w.Host.Path(dispatcherName), "--owner", w.Owner, "--hide-values", "-o", "json"}
	return changeCommand{slices.Concat(args, w.Install.commandArgs(), w.Install.stateDirArgs(), more),
		[]report.ChangeOutcome{report.ChangeInstalled, report.ChangeRolledBack, report.ChangeRepaired, report.ChangeUnchanged, report.ChangePlanned}}
}

// uninstallCommand returns the command that uninstalls regcred. It allows a kubelet restart,
// because the kubelet would otherwise run plugins that no longer exist.
func (w agentTurn) uninstallCommand() changeCommand {
	args := []string{"uninstall", "--restart", w.Install.timeout(), "--owner", w.Owner, "-o", "json"}
	return changeCommand{append(args, w.Install.stateDirArgs()...), []report.ChangeOutcome{report.ChangeUninstalled, report.ChangeUnchanged}}
}

// runChangeCommand runs a command that changes the node, and returns its result.
func (w agentTurn) runChangeCommand(ctx context.Context, c changeCommand) (*changeResponse, error) {
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

// readStatus reads the node's state and updates the agent's status, except for the phase.
// "regcred status" waits for a running change, which is included in the time limit.
func (w agentTurn) readStatus(ctx context.Context, within time.Duration) (*statusResponse, error) {
	out, code, err := w.run(ctx, within, append([]string{"status", "-o", "json", "--quiet"}, w.Install.stateDirArgs()...)...)
	if err != nil {
		return nil, err
	}
	a, err := decodeStatus(out, code)
	if err != nil {
		return nil, err
	}
	w.failedChecks, w.saved.HasRunOnNode = 0, true
	w.mu.Lock()
	w.counts = a.Counts
	w.mu.Unlock()
	w.updateStatus(func(s *Status) {
		s.Kind, s.Kubelet, s.Generation, s.KubeletHas = a.Node.Kind, a.Node.Kubelet, *a.Current, a.LoadedGeneration
	})
	return a, nil
}

// redactOutput redacts the configuration's secrets in output from the node, and replaces the
// node's paths with the pod's.
func (w agentTurn) redactOutput(text string) string {
	text = scrub.RedactPart(text, w.configSecrets(), false, false)
	for name, here := range map[string]string{configDir: w.Options.Config, pluginDir: w.Plugins} {
		text = strings.ReplaceAll(text, w.Host.Path(name)+"/", strings.TrimSuffix(here, "/")+"/")
	}
	return textfmt.EscapeLine(text)
}

// redactAll redacts the texts that will be shown. It replaces the remaining texts with "…",
// because only their number will be shown.
func (w agentTurn) redactAll(list []string) (texts []string) {
	texts = slices.Repeat([]string{"…"}, len(list))
	for i, text := range list[:min(len(list), maxDriftEntries)] {
		texts[i] = w.redactOutput(text)
	}
	return texts
}

// minSecretLength is the minimum length of the values of args and env that are
// redacted, as in package plugin. Shorter values are usually words like "true".
const minSecretLength = 8

// configSecrets returns the values of args and env in the configuration.
func (w agentTurn) configSecrets() (list []scrub.Secret) {
	if w.files.cfg == nil {
		return nil
	}
	add := func(value, name string) {
		if len(value) >= minSecretLength && !strings.Contains(w.Install.Probe, value) {
			list = append(list, scrub.Secret{Text: value, Name: name})
		}
	}
	for i := range w.files.cfg.Providers {
		p := &w.files.cfg.Providers[i]
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

// maxOutputSize limits the output of regcred on the node, in bytes.
const maxOutputSize = 16 << 20

// changeResponse is the output of "regcred install" or "uninstall".
type changeResponse struct {
	report.Change
	report.Failure
}

// failureReason returns why the change failed.
func (r *changeResponse) failureReason() string {
	if r.Error != "" {
		return joinReasons([]report.ErrorHint{{Message: r.Error, Hint: r.Hint}})
	}
	return joinReasons(r.Errors)
}

// statusResponse is the output of "regcred status".
type statusResponse struct {
	report.Status
	Current *int `json:"current"` // nil if absent; shadows the field of Status
	report.Failure
}

// decodeOutput decodes the output of a command that may exit with one of the given
// codes. Errors do not quote the output.
func decodeOutput(command string, stdout []byte, code int, codes []int, answer any) error {
	var version struct {
		SchemaVersion int `json:"schemaVersion"`
	}
	ended := fmt.Sprintf("regcred %s exited with code %d on the node", command, code)
	switch {
	case len(stdout) == 0:
		return fmt.Errorf("%s and printed no result; see this pod's log", ended)
	case len(stdout) > maxOutputSize:
		return fmt.Errorf("%s, but its result is longer than %d bytes", ended, maxOutputSize)
	case json.Unmarshal(stdout, &version) != nil || json.Unmarshal(stdout, answer) != nil:
		return fmt.Errorf("%s, but its result is not valid JSON", ended)
	case version.SchemaVersion != textfmt.SchemaVersion:
		return fmt.Errorf("%s, but its result has schemaVersion %d, not %d: the node and this pod have different versions of regcred", ended, version.SchemaVersion, textfmt.SchemaVersion)
	case !slices.Contains(codes, code):
		return errors.New(ended)
	}
	return nil
}

// decodeChange decodes the result of a change. The command must have exited with code 0 and
// one of the good outcomes, or with code 1 and a reason.
func decodeChange(command string, stdout []byte, code int, good ...report.ChangeOutcome) (*changeResponse, error) {
	a := &changeResponse{}
	if err := decodeOutput(command, stdout, code, []int{report.ExitOK, report.ExitFailed}, a); err != nil {
		return nil, err
	}
	bad := a.Failed()
	if bad != (code == report.ExitFailed) || bad != (a.failureReason() != "") || !bad && !slices.Contains(good, a.Outcome) {
		return nil, fmt.Errorf("regcred %s exited with code %d on the node, which is inconsistent with the outcome it reported (%q)", command, code, shortenText(string(a.Outcome), 40))
	}
	return a, nil
}

// decodeSavedChange decodes the result of a change that an earlier container started. It
// returns nil if the result is invalid. The exit code was not saved, so it is derived from
// the result.
func decodeSavedChange(command string, stdout []byte, good ...report.ChangeOutcome) *changeResponse {
	var a changeResponse
	if json.Unmarshal(stdout, &a) != nil {
		return nil
	}
	code := report.ExitOK
	if a.Failed() {
		code = report.ExitFailed
	}
	left, _ := decodeChange(command, stdout, code, good...)
	return left
}

// decodeStatus decodes the output of "regcred status".
func decodeStatus(stdout []byte, code int) (*statusResponse, error) {
	a := &statusResponse{}
	if err := decodeOutput("status", stdout, code, []int{report.ExitOK, report.ExitFailed, report.ExitEmpty}, a); err != nil {
		return nil, err
	}
	if len(a.Errors) > 0 {
		return nil, errors.New(joinReasons(a.Errors))
	}
	if a.Counts != nil && !a.Counts.IsValid() {
		a.Counts = nil
	}
	if a.Current != nil {
		a.Status.Current = *a.Current
	}
	if a.Current == nil || a.Problems == nil || a.Restart == nil || a.ExitCode() != code {
		return nil, fmt.Errorf("regcred status exited with code %d on the node, which is inconsistent with the result it returned", code)
	}
	return a, nil
}

// listDifferences returns how the node differs from the installed state.
func (a *statusResponse) listDifferences() (list []string) {
	if a.InterruptedChange != "" {
		list = append(list, "broken off: "+a.InterruptedChange)
	}
	list = append(list, a.Problems...)
	for _, why := range a.Restart {
		list = append(list, "the kubelet must be restarted: "+why)
	}
	if *a.Current == 0 && len(list) == 0 {
		list = []string{"regcred is no longer on the node: it was removed manually"}
	}
	return list
}

// joinReasons joins errors and their hints.
func joinReasons(list []report.ErrorHint) string {
	var texts []string
	for _, p := range list {
		text := p.Message
		if p.Hint != "" {
			text += " (" + chartHint(p.Hint) + ")"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// chartHint replaces a flag at the start of a hint with the corresponding chart value.
// Commands in a hint are kept.
func chartHint(hint string) string {
	for flag, value := range map[string]string{
		"--restart":   "the chart's value restart: IfNeeded",
		"--reapplied": "the chart's value reapplied: true",
		"--state-dir": "the chart's value stateDir",
	} {
		if rest, ok := strings.CutPrefix(hint, flag); ok && (rest == "" || rest[0] == ' ' || rest[0] == ',') {
			return value + rest
		}
	}
	return hint
}
