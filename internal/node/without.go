// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/regcred/regcred/internal/shown"
)

// Without is a machine whose kubelet has no credential providers, or that has no
// kubelet.
type Without struct {
	Kind    Kind     `json:"kind"`              // how its kubelet is run; "none" on a machine that is no node
	Service string   `json:"service,omitempty"` // what has the kubelet: "kubelet.service"; "" if nothing is known to
	PID     int      `json:"pid,omitempty"`     // of the kubelet; 0 if none runs
	Looked  []string `json:"looked"`            // where nodes have a configuration, beside the kubelet's flags
	Message string   `json:"message"`           // one line
	Fix     string   `json:"fix"`               // how providers come there, or what to give
}

// IsNode reports whether something here starts a kubelet, or one runs.
func (w *Without) IsNode() bool { return w.Kind != NoKubelet || w.PID != 0 }

// noProviders says what is known of a machine on which no configuration was found. It
// fails if a kubelet runs here that was started with flags which no file has.
func (n Node) noProviders() (*Without, error) {
	k, err := n.findKubelet("auto")
	pid := 0
	if err == nil {
		if config := k.path(configFlag); config != "" {
			return nil, withHint(fmt.Errorf("this node's files do not set a credential provider configuration, but %s runs with --%s=%s", k, configFlag, shown.ShellWord(config)),
				"use the running kubelet's configuration with --as-kubelet")
		}
		pid = k.pid
	}
	w := n.without(context.Background(), pid)
	if e, ok := errors.AsType[*Error](err); ok && !w.IsNode() && n.contained() {
		w.Message = "on this machine, kubelets run only in containers, which have their own file systems; " + w.Message
		w.Fix = cmp.Or(e.Hint, w.Fix)
	}
	return w, nil
}

// contained reports whether the kubelets that run here have another root directory.
func (n Node) contained() bool {
	pids, err := n.kubeletPIDs()
	if err != nil || len(pids) == 0 {
		return false
	}
	pid, err := strconv.Atoi(pids[0])
	if err != nil {
		return false
	}
	_, here := n.isKubelet(pid)
	return !here
}

// without says how the kubelet of this machine is run, and how it comes to
// credential providers. Pid is that of the kubelet, as far as it is known already.
// It runs nothing.
func (n Node) without(ctx context.Context, pid int) *Without {
	w := &Without{Kind: NoKubelet, PID: pid, Looked: n.looked()}
	r := newReading(ctx, n)
	found := r.find()
	s := &Setup{Kind: found.kind, Init: found.init, Service: found.service}
	if found.kind != NoKubelet {
		r.flagsOf(s, found)
		s.Unit = r.unitOf(found)
		s.Running = r.running(s.unitName(), found.processes()...)
	}
	s.Nodeadm = r.nodeadm(found.kind)
	s.Way = way(s)
	w.Kind, w.Service = s.Kind, s.Service
	if s.Running != nil && pid == 0 {
		w.PID = s.Running.PID
	}
	w.Message, w.Fix = w.words(refusal(s))
	return w
}

// words say it to a person.
func (w *Without) words(refusal *Refusal) (message, fix string) {
	places := "no file exists at " + strings.Join(w.Looked, ", ")
	if !w.IsNode() {
		return "no credential provider configuration found: no kubelet is running on this machine, and " + places,
			"run this on a node, or set --config and --bin-dir"
	}
	why := "its flags do not set a configuration, and " + places
	switch w.Kind {
	case K3sServer, K3sAgent, RKE2Server, RKE2Agent:
		why = fmt.Sprintf("it enables providers only if the configuration and plugin directory exist when %s starts, and %s", w.Service, places)
	}
	return fmt.Sprintf("this node's kubelet (%s) runs without credential providers: %s", w.by(), why), w.cure(refusal)
}

// by says what has the kubelet.
func (w *Without) by() string {
	switch {
	case w.Kind == NoKubelet:
		return fmt.Sprintf("process %d", w.PID)
	case w.Service == "" || w.Service == string(w.Kind):
		return string(w.Kind)
	}
	return w.Service + ", " + string(w.Kind)
}

// cure says how this kind of node comes to credential providers.
func (w *Without) cure(refusal *Refusal) string {
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
