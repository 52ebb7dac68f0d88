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

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/service"
	"github.com/regcred/regcred/internal/shown"
)

// How long the manager of the kubelet's service may take for one answer.
const managerWithin = 5 * time.Second

// young is a process of which nobody knows yet whether it stays.
const young = 30 * time.Second

// fails is how long a kubelet takes that ends for what it was given.
const fails = 5 * time.Second

// kubeletUp reports whether the kubelet runs, and says why not.
func (k *Kubelet) kubeletUp(ctx context.Context, r *results) bool {
	run, name := k.Setup.Running, k.Setup.Service
	if k.Service == nil || k.Service.Manager == nil || name == "" {
		if run == nil {
			r.add(finding.SeveritySkipped, "run this command on the host, where the kubelet's service manager runs", "no kubelet is running here, and no service manager was found: %s", cmp.Or(name, "no service"))
		}
		return run != nil
	}
	within, cancel := context.WithTimeout(ctx, managerWithin)
	defer cancel()
	state, err := k.Service.State(within)
	if err != nil {
		r.serviceError(err)
		return run != nil
	}
	if err := state.Unusable(name); err != nil {
		k.serviceFail(r, err)
		return false
	}
	restless := state.Restarts > 0 && k.age(state) < young
	switch {
	case state.Runs() && !restless && run == nil && len(k.Setup.Unread) > 0:
		r.add(finding.SeveritySkipped, "run this command as root (sudo)", "%s is %v; this user does not have permission to read its flags", name, state)
	case state.Runs() && !restless && (run != nil || k.Setup.Rancher == nil):
		k.checkEnabled(r, state)
		return true
	default:
		k.kubeletDown(ctx, r, state)
	}
	return false
}

// age is how long the process of a service runs, or since when it does not: by a clock
// that nobody sets, as far as this is its process.
func (k *Kubelet) age(state service.State) time.Duration {
	began := state.Started
	if run := k.Setup.Running; run != nil && run.PID == state.MainPID {
		if at := k.Node.StartTime(run); !at.IsZero() {
			began = at
		}
	}
	return time.Since(began)
}

// serviceError is a manager that does not say how the kubelet's service is.
func (r *results) serviceError(err error) {
	fix := ""
	if e, ok := errors.AsType[*service.Error](err); ok {
		fix = e.Hint
	}
	r.add(finding.SeveritySkipped, fix, "%v", err)
}

// serviceFail is a unit that cannot be started.
func (k *Kubelet) serviceFail(r *results, err error) {
	fix := ""
	if e, ok := errors.AsType[*service.Error](err); ok {
		fix = e.Hint
	}
	r.add(finding.SeverityError, fix, "%s cannot be started: %v", k.Setup.Service, err)
}

// checkEnabled tells of a kubelet that does not come back with the machine. On other
// kinds of nodes something else starts it at each boot.
func (k *Kubelet) checkEnabled(r *results, state service.State) {
	if state.Enabled == "disabled" && k.Setup.Kind.MustBeEnabled() {
		r.add(finding.SeverityWarning, "systemctl enable "+k.Setup.Service, "%s is disabled, so it does not start at boot", k.Setup.Service)
	}
}

// kubeletDown says why a service does not run, or does not stay up.
func (k *Kubelet) kubeletDown(ctx context.Context, r *results, state service.State) {
	what, result := k.describe(state), finding.SeverityError
	if state.Runs() && k.Setup.Running != nil && k.age(state) > fails {
		result = finding.SeverityWarning // it may stay this time
	}
	if state.Ended() && state.Active == "inactive" && state.ExitCode == 0 && !state.Signalled {
		r.add(result, k.start(state), "%s", what)
		return
	}
	lines, logErr := k.log(ctx, state)
	known := k.causeOf(state, lines)
	f := finding.Finding{Severity: result, Message: what, Fix: known.fix}
	switch {
	case known.says != "":
		f.Message += ": " + k.scrubbed(ctx, []string{known.says})[0]
	case logErr != nil:
		f.Message += "; " + shown.Line(logErr.Error())
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
	r.report(f)
	r.list[len(r.list)-1].Log = k.scrubbed(ctx, known.log)
}

// describe says how a service is.
func (k *Kubelet) describe(state service.State) string {
	name := k.Setup.Service
	switch {
	case k.Setup.Rancher != nil && state.Runs() && state.MainPID != 0 && k.Setup.Running == nil:
		return name + " is running, but the kubelet is not"
	case state.Ended() && state.Active == "inactive":
		text := name + " is stopped"
		if state.Enabled == "disabled" {
			text += " and disabled, so it does not start at boot"
		}
		if !state.Conditions {
			text += "; one of the unit's conditions was not met when it was last started"
		}
		return text
	case state.Restarts > 0:
		return fmt.Sprintf("%s does not stay up: %v, restarted %d times", name, state, state.Restarts)
	}
	return fmt.Sprintf("%s is %v", name, state)
}

// start is how a stopped service is started.
func (k *Kubelet) start(state service.State) string {
	name := strings.TrimSuffix(k.Setup.Service, ".service")
	switch {
	case k.Setup.Init == node.OpenRC:
		return "rc-service " + name + " start"
	case !state.Conditions:
		return "to see which condition was not met, run systemctl status " + name
	case state.Enabled == "disabled":
		return "systemctl enable --now " + name
	}
	return "systemctl start " + name
}

// log is what the kubelet has written since its last start; since before it, if that
// process still runs and the one that failed was another.
func (k *Kubelet) log(ctx context.Context, state service.State) ([]string, error) {
	since := state.Started
	if state.MainPID != 0 {
		since = since.Add(-young)
	}
	if state.Started.IsZero() || state.Started.After(time.Now()) || k.Service.LogFile != "" { // rke2's kubelet is no process of the unit
		since = time.Now().Add(-10 * time.Minute)
	}
	ctx, cancel := context.WithTimeout(ctx, managerWithin)
	defer cancel()
	return k.Service.Log(ctx, since)
}
