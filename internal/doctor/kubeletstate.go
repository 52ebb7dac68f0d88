// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/scrub"
	"github.com/regcred/regcred/internal/service"
	"github.com/regcred/regcred/internal/textfmt"
)

// serviceManagerTimeout limits a query of the service manager.
const serviceManagerTimeout = 5 * time.Second

// startupGracePeriod is how long after its start a process may still fail to start.
const startupGracePeriod = 30 * time.Second

// failureGracePeriod is how long a kubelet with invalid settings runs before it exits.
const failureGracePeriod = 5 * time.Second

// checkRunning reports whether the kubelet is running, and adds a finding if it is not.
func (k *Kubelet) checkRunning(ctx context.Context, r *checkResults) bool {
	run, name := k.Setup.Running, k.Setup.Service
	if k.Service == nil || k.Service.Manager == nil || name == "" {
		if run == nil {
			r.addResult(finding.SeveritySkipped, "run this command on the host, where the kubelet's service manager runs", "no kubelet is running here, and no service manager was found: %s", cmp.Or(name, "no service"))
		}
		return run != nil
	}
	within, cancel := context.WithTimeout(ctx, serviceManagerTimeout)
	defer cancel()
	state, err := k.Service.State(within)
	if err != nil {
		r.addResult(finding.SeveritySkipped, serviceHint(err), "%v", err)
		return run != nil
	}
	if err := state.CheckUsable(name); err != nil {
		r.addResult(finding.SeverityError, serviceHint(err), "%s cannot be started: %v", name, err)
		return false
	}
	restless := state.Restarts > 0 && k.serviceAge(state) < startupGracePeriod
	switch {
	case state.IsRunning() && !restless && run == nil && len(k.Setup.Unread) > 0:
		r.addResult(finding.SeveritySkipped, "run this command as root (sudo)", "%s is %v; this user does not have permission to read its flags", name, state)
	case state.IsRunning() && !restless && (run != nil || k.Setup.Rancher == nil):
		k.checkEnabled(r, state)
		return true
	default:
		k.reportNotRunning(ctx, r, state)
	}
	return false
}

// serviceAge returns how long a service has been running or stopped. For the kubelet's own
// process, the result does not depend on the wall clock.
func (k *Kubelet) serviceAge(state service.State) time.Duration {
	began := state.Started
	if run := k.Setup.Running; run != nil && run.PID == state.MainPID {
		if at := k.Node.StartTime(run); !at.IsZero() {
			began = at
		}
	}
	return time.Since(began)
}

// serviceHint returns how to fix an error of the service manager, or "".
func serviceHint(err error) string {
	if e, ok := errors.AsType[*service.Error](err); ok {
		return e.Hint
	}
	return ""
}

// checkEnabled warns about a kubelet that does not start at boot. It ignores kinds of nodes
// on which another service starts the kubelet.
func (k *Kubelet) checkEnabled(r *checkResults, state service.State) {
	if state.Enabled == "disabled" && k.Setup.Kind.MustBeEnabled() {
		r.addResult(finding.SeverityWarning, "systemctl enable "+k.Setup.Service, "%s is disabled, so it does not start at boot", k.Setup.Service)
	}
}

// reportNotRunning reports why a service is not running or keeps failing.
func (k *Kubelet) reportNotRunning(ctx context.Context, r *checkResults, state service.State) {
	what, result := k.serviceStateText(state), finding.SeverityError
	if state.IsRunning() && k.Setup.Running != nil && k.serviceAge(state) > failureGracePeriod {
		result = finding.SeverityWarning // the new process may keep running
	}
	if state.IsStopped() && state.Active == "inactive" && state.ExitStatus == 0 && !state.Signalled() {
		r.addResult(result, k.startCommand(state), "%s", what)
		return
	}
	lines, logErr := k.readLog(ctx, state)
	cause := k.findExitCause(state, lines)
	f := finding.Finding{Severity: result, Message: what, Fix: cause.fix}
	switch {
	case cause.message != "":
		f.Message += ": " + k.redactLines(ctx, []string{cause.message})[0]
	case logErr != nil:
		f.Message += "; " + textfmt.EscapeLine(logErr.Error())
		f.Fix = "journalctl -u " + k.Setup.Service
		if os.Geteuid() != 0 {
			f.Fix = "run this command as root (sudo)"
		}
	case len(lines) == 0:
		f.Message += "; its log is empty"
		if os.Geteuid() != 0 {
			f.Message, f.Fix = what+"; this user does not have permission to read its log", "run this command as root (sudo)"
		}
	default:
		f.Message += "; last lines of its log:"
		f.Fix = "for the whole log, run journalctl -u " + k.Setup.Service
	}
	r.addFinding(f)
	r.list[len(r.list)-1].Log = k.redactLines(ctx, cause.log)
}

// serviceStateText describes the state of the kubelet's service.
func (k *Kubelet) serviceStateText(state service.State) string {
	name := k.Setup.Service
	switch {
	case k.Setup.Rancher != nil && state.IsRunning() && state.MainPID != 0 && k.Setup.Running == nil:
		return name + " is running, but the kubelet is not"
	case state.IsStopped() && state.Active == "inactive":
		text := name + " is stopped"
		if state.Enabled == "disabled" {
			text += " and disabled, so it does not start at boot"
		}
		if state.ConditionsFailed {
			text += "; one of the unit's conditions was not met when it was last started"
		}
		return text
	case state.Restarts > 0:
		return fmt.Sprintf("%s does not stay up: %v, restarted %d times", name, state, state.Restarts)
	}
	return fmt.Sprintf("%s is %v", name, state)
}

// startCommand returns the command that starts a stopped service.
func (k *Kubelet) startCommand(state service.State) string {
	name := strings.TrimSuffix(k.Setup.Service, ".service")
	switch {
	case k.Setup.Init == node.InitOpenRC:
		return "rc-service " + name + " start"
	case state.ConditionsFailed:
		return "to see which condition was not met, run systemctl status " + name
	case state.Enabled == "disabled":
		return "systemctl enable --now " + name
	}
	return "systemctl start " + name
}

// readLog returns the kubelet's log since its last start. If a new process is already
// running, the log starts a little earlier, to include the previous process.
func (k *Kubelet) readLog(ctx context.Context, state service.State) ([]string, error) {
	since := state.Started
	if state.MainPID != 0 {
		since = since.Add(-startupGracePeriod)
	}
	if state.Started.IsZero() || state.Started.After(time.Now()) || k.Service.LogFile != "" { // rke2's kubelet is not a process of the unit
		since = time.Now().Add(-10 * time.Minute)
	}
	ctx, cancel := context.WithTimeout(ctx, serviceManagerTimeout)
	defer cancel()
	return k.Service.Log(ctx, since)
}

// redactLines redacts the node's secrets in log lines. These are the values of configured
// environment variables and arguments, and values with names such as password.
func (k *Kubelet) redactLines(ctx context.Context, lines []string) (clean []string) {
	var secrets []scrub.Secret
	for _, v := range append(k.configuredSecrets(ctx), k.Node.SecretValues(ctx)...) {
		secrets = append(secrets, scrub.Secret{Text: v})
	}
	for _, line := range lines {
		text, cut := strings.CutSuffix(line, "…")
		if text = scrub.RedactPart(text, secrets, false, cut); cut {
			text += "…"
		}
		clean = append(clean, text)
	}
	return clean
}

// configuredSecrets returns the values of env and args in the kubelet's configuration and in
// the checked configuration. It also reads invalid files, because the kubelet logs errors
// about them.
func (k *Kubelet) configuredSecrets(ctx context.Context) (values []string) {
	paths := []string{k.Node.HostPath(k.Setup.Config.Path)}
	if k.Origin != nil {
		paths = append(paths, k.Origin.Config)
	}
	if k.Config != nil {
		values = append(values, configValues(k.Config)...)
	}
	for _, path := range paths {
		if cfg, err := config.Load(path); err == nil {
			values = append(values, configValues(cfg)...)
		} else if data, err := regularfile.Read(ctx, path, maxDockerConfigSize); err == nil {
			var raw any
			if yaml.Unmarshal(data, &raw) == nil {
				values = append(values, rawConfigValues(raw, false)...)
			}
		}
	}
	return values
}

func configValues(cfg *config.Config) (values []string) {
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		for _, e := range p.Env {
			values = append(values, e.Value.Reveal())
		}
		for _, arg := range p.Args {
			values = append(values, arg.Reveal())
		}
	}
	return values
}

// rawConfigValues returns the scalars below the keys value and args. below means that raw is
// already below such a key.
func rawConfigValues(raw any, below bool) (values []string) {
	switch v := raw.(type) {
	case map[string]any:
		for key, v := range v {
			values = append(values, rawConfigValues(v, below || strings.EqualFold(key, "value") || strings.EqualFold(key, "args"))...)
		}
	case []any:
		for _, v := range v {
			values = append(values, rawConfigValues(v, below)...)
		}
	case string, float64, int64:
		if below {
			values = append(values, fmt.Sprint(v))
		}
	}
	return values
}
