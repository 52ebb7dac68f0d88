// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/regcred/regcred/internal/textfmt"
)

// NoProviders describes a machine that has no kubelet, or whose kubelet has no credential
// providers.
type NoProviders struct {
	Kind          Kind     `json:"kind"`              // NoKubelet if the machine is not a node
	Service       string   `json:"service,omitempty"` // service that starts the kubelet; "" if unknown
	PID           int      `json:"pid,omitempty"`     // process ID of the kubelet; 0 if none is running
	SearchedPaths []string `json:"looked"`            // well-known paths that do not exist
	Message       string   `json:"message"`           // description of the problem, one line
	Fix           string   `json:"fix"`               // how to set up credential providers, or which flags to set
}

// IsNode reports whether the machine is a node: a service starts a kubelet, or a kubelet is
// running.
func (w *NoProviders) IsNode() bool { return w.Kind != NoKubelet || w.PID != 0 }

// describeNoProviders describes a machine on which no configuration was found. It returns an error
// if a running kubelet has a configuration that the node's files do not set.
func (r *Reader) describeNoProviders(ctx context.Context) (*NoProviders, error) {
	k, err := r.findKubelet("auto")
	pid := 0
	if err == nil {
		if config := k.flagPath(configFlag); config != "" {
			return nil, withHint(fmt.Errorf("this node's files do not set a credential provider configuration, but %s runs with --%s=%s", k, configFlag, textfmt.QuoteShellWord(config)),
				"use the running kubelet's configuration with --as-kubelet")
		}
		pid = k.pid
	}
	w := r.newNoProviders(ctx, pid)
	pids, here, _ := r.kubeletPIDs()
	if e, ok := errors.AsType[*HintError](err); ok && !w.IsNode() && len(pids) > 0 && !here {
		w.Message = "on this machine, kubelets run only in containers, which have their own file systems; " + w.Message
		w.Fix = cmp.Or(e.Hint, w.Fix)
	}
	return w, nil
}

// newNoProviders describes the kubelet's service on a machine without a configuration. pid is the
// kubelet's process ID, or 0 if it is unknown. newNoProviders does not run any program.
func (r *Reader) newNoProviders(ctx context.Context, pid int) *NoProviders {
	s := r.setupSurvey(ctx)
	w := &NoProviders{Kind: s.Kind, Service: s.Service, PID: pid}
	for _, loc := range wellKnownLocations() {
		w.SearchedPaths = append(w.SearchedPaths, r.HostPath(loc.config))
	}
	if s.Kind != NoKubelet && s.Running != nil && pid == 0 {
		w.PID = s.Running.PID
	}
	w.Message, w.Fix = w.messageAndFix(s.Refusal)
	return w
}

// messageAndFix returns the values for Message and Fix.
func (w *NoProviders) messageAndFix(refusal *ChangeRefusal) (message, fix string) {
	places := "no file exists at " + strings.Join(w.SearchedPaths, ", ")
	if !w.IsNode() {
		return "no credential provider configuration found: no kubelet is running on this machine, and " + places,
			"run this on a node, or set --config and --bin-dir"
	}
	why := "its flags do not set a configuration, and " + places
	if w.Kind.isRancher() {
		why = fmt.Sprintf("it enables providers only if the configuration and plugin directory exist when %s starts, and %s", w.Service, places)
	}
	return fmt.Sprintf("this node's kubelet (%s) runs without credential providers: %s", w.kubeletName(), why), w.setupHint(refusal)
}

// kubeletName returns a description of the kubelet for messages.
func (w *NoProviders) kubeletName() string {
	switch {
	case w.Kind == NoKubelet:
		return fmt.Sprintf("process %d", w.PID)
	case w.Service == "" || w.Service == string(w.Kind):
		return string(w.Kind)
	}
	return w.Service + ", " + string(w.Kind)
}

// setupHint returns instructions for setting up credential providers on this kind of node.
func (w *NoProviders) setupHint(refusal *ChangeRefusal) string {
	const install = "regcred install CONFIG --plugin FILE --restart"
	switch {
	case w.Kind == NoKubelet:
		return "start it with --" + configFlag + " and --" + binDirFlag
	case refusal == nil:
		return install + " sets them up"
	case refusal.Reapplied:
		return install + " --reapplied configures them until the node is recreated; without --reapplied, regcred install prints a permanent setup: " + refusal.Why
	}
	return "regcred install CONFIG prints the setup for this kind of node: " + refusal.Why
}
