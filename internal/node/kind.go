// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// sign is a file by which a kind of node is told, and what must stand in it.
type sign struct {
	kind Kind
	file string
	has  string // "" if it must only be there
}

// signs are looked for in this order. What is most particular stands first: kOps
// uses the images of others, and EKS AL2023 has a file of AL2.
func signs() []sign {
	const release = "/etc/os-release"
	return []sign{
		{Talos, release, "ID=talos"},
		{Bottlerocket, release, "ID=bottlerocket"},
		{OpenShift, "/etc/machine-config-daemon/currentconfig", ""},
		{OpenShift, release, "OPENSHIFT_VERSION="},
		{KOps, "/etc/systemd/system/kops-configuration.service", ""},
		{KOps, "/lib/systemd/system/kops-configuration.service", ""},
		{KOps, "/usr/lib/systemd/system/kops-configuration.service", ""},
		{GKE, "/etc/srv/kubernetes/cri_auth_config.yaml", ""},
		{GKE, "/home/kubernetes/bin/configure-helper.sh", ""},
		{AKS, "/opt/azure/containers/kubelet.sh", ""},
		{AKS, "/opt/azure/containers/provision.complete", ""},
		{MicroK8s, "/var/snap/microk8s/current/args/kubelet", ""},
		{Minikube, "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf", "/var/lib/minikube/"},
		{KindNode, "/kind/version", ""},
		{KindNode, "/kind/product_name", ""},
		{EKS2023, "/etc/systemd/system/nodeadm-run.service", ""},
		{EKSAL2, "/etc/eks/containerd/kubelet-containerd.service", ""},
		{EKSAL2, "/etc/systemd/system/kubelet.service.d/10-kubelet-args.conf", "KUBELET_ARGS="},
	}
}

// sign returns the kind that a file tells; "" if none does.
func (r *reading) sign() Kind {
	for _, s := range signs() {
		if s.has == "" && r.there(s.file) || s.has != "" && r.says(s.file, s.has) {
			return s.kind
		}
	}
	return ""
}

// says reports whether a line of a file begins with a text or has it, quotes aside.
func (r *reading) says(file, text string) bool {
	for _, line := range physicalLines(strings.ReplaceAll(r.file(file), `"`, "")) {
		if strings.HasSuffix(text, "=") && strings.HasPrefix(line, text) || line == text || strings.Contains(text, "/") && strings.Contains(line, text) {
			return true
		}
	}
	return false
}

// services lists the units of the node whose names begin so.
func (r *reading) services(prefix string) (names []string) {
	for _, dir := range unitDirs() {
		for _, e := range r.list(dir) {
			if strings.HasPrefix(e, prefix) && path.Ext(e) == ".service" && !slices.Contains(names, e) {
				names = append(names, e)
			}
		}
	}
	return names
}

// started is what starts a kubelet on this node.
type started struct {
	kind    Kind
	init    Init
	service string   // as init calls it
	unit    *service // nil unless it is systemd
	without *service // unit without our drop-in
	vars    map[string]variable
	args    []word // of the command without our drop-in
	inner   []word // the kubelet's own, where the command starts something that has it inside
	missing []string
	program string // the base name of what a unit of this kind runs
}

// find finds what starts the kubelet.
func (r *reading) find() started {
	signs := newReading(r.ctx, r.node) // what they stand in has no say in the kubelet's flags
	kind := signs.sign()
	r.unread = append(r.unread, signs.unread...)
	for _, name := range slices.Concat(r.enabledFirst("k3s"), r.enabledFirst("rke2-")) {
		if s, ok := r.rancher(name); ok && kind == "" {
			return s
		}
	}
	name := "kubelet.service"
	switch {
	case kind == "" && len(r.services("k0s")) > 0:
		name, kind = r.services("k0s")[0], K0s
	case kind == MicroK8s:
		name = "snap.microk8s.daemon-kubelite.service"
	}
	s := r.start(name)
	s.kind = kind
	switch {
	case kind == "" && s.unit.fragment == "":
		return r.openRC()
	case kind == "":
		s.kind = s.plainKind()
	}
	s.inner = r.inner(s)
	if s.unit.fragment == "" {
		s.unit, s.init, s.service = nil, NoInit, ""
	}
	return s
}

// inner are the flags that MicroK8s and k0s give the kubelet inside.
func (r *reading) inner(s started) (args []word) {
	const file = "/var/snap/microk8s/current/args/kubelet"
	switch s.kind {
	case MicroK8s:
		for i, line := range physicalLines(r.file(file)) {
			for _, w := range words(line) {
				args = append(args, word{text: w, mark: mark{file, i + 1}})
			}
		}
	case K0s:
		for _, g := range givenIn(s.args, "kubelet-extra-args")["kubelet-extra-args"] {
			for _, w := range splitPlain(g.Value) {
				args = append(args, word{text: w, mark: mark{g.File, g.Line}, by: "kubelet-extra-args"})
			}
		}
	}
	return args
}

// start reads a unit.
func (r *reading) start(name string) started {
	s := started{init: Systemd, service: name, unit: r.unit(name, ""), without: r.unit(name, dropInOf(name)), program: "kubelet"}
	s.vars, s.missing = r.variables(s.without)
	s.args = arguments(s.without, s.without.exec(), s.vars)
	return s
}

// dropInOf is where our drop-in of a unit is.
func dropInOf(unit string) string {
	return path.Join("/etc/systemd/system", unit+".d", dropInName)
}

const dropInName = "90-regcred.conf"

// plainKind tells kubeadm, kubespray and others from each other by what their
// units read.
func (s started) plainKind() Kind {
	for _, file := range s.without.files {
		if path.Base(file) == "10-kubeadm.conf" {
			return Kubeadm
		}
	}
	for _, e := range s.without.envFiles {
		switch strings.TrimPrefix(e.value, "-") {
		case "/var/lib/kubelet/kubeadm-flags.env":
			return Kubeadm
		case "/etc/kubernetes/kubelet.env":
			return Kubespray
		}
	}
	return PlainUnit
}

// rancher reads a unit of k3s or rke2.
func (r *reading) rancher(name string) (started, bool) {
	s := r.start(name)
	if len(s.args) < 2 {
		return s, false
	}
	s.program = path.Base(s.args[0].text)
	role := s.args[1].text
	switch Kind(s.program + "-" + role) {
	case K3sServer, K3sAgent, RKE2Server, RKE2Agent:
		s.kind = Kind(s.program + "-" + role)
		return s, true
	}
	return s, false
}

// enabledFirst lists the units whose names begin so, those first that are enabled: the
// package of rke2 brings both, and a node of k3s may have been made one of the other role.
func (r *reading) enabledFirst(prefix string) []string {
	names := r.services(prefix)
	slices.SortStableFunc(names, func(a, b string) int { return r.enabled(b) - r.enabled(a) })
	return names
}

// enabled is 1 if a unit is wanted at each boot, and else 0.
func (r *reading) enabled(unit string) int {
	if r.node.files().Exists(path.Join("/etc/systemd/system/multi-user.target.wants", unit)) {
		return 1
	}
	return 0
}

// openRC reads a service of OpenRC: a script whose command_args may stand there
// or in a file of its name in /etc/conf.d.
func (r *reading) openRC() started {
	for _, name := range []string{"k3s", "k3s-agent", "kubelet"} {
		script := path.Join("/etc/init.d", name)
		if !r.there(script) {
			continue
		}
		s := started{init: OpenRC, service: name, kind: OpenRCUnit, program: "kubelet", vars: map[string]variable{}}
		role := map[string]Kind{"k3s": K3sServer, "k3s-agent": K3sAgent}[name]
		if role != "" {
			s.kind, s.program = role, "k3s"
		}
		s.vars = r.shellVariables(path.Join("/etc/conf.d", name), "/var/lib/kubelet/kubeadm-flags.env", "/etc/rancher/k3s/"+name+".env", script)
		s.args = s.openRCArguments()
		return s
	}
	init := NoInit
	if r.there("/run/systemd/system") || r.there("/usr/lib/systemd/systemd") || r.there("/lib/systemd/systemd") {
		init = Systemd
	}
	return started{kind: NoKubelet, init: init}
}

// shellVariables reads what shell scripts assign one after the other, as far as
// that looks as in an environment file. A value may use the former of its name.
func (r *reading) shellVariables(files ...string) map[string]variable {
	vars := map[string]variable{}
	for _, file := range files {
		for name, v := range environmentFile(r.file(file), file) {
			if self := "${" + name + "}"; strings.Contains(v.value, self) {
				v.value = strings.ReplaceAll(v.value, self, vars[name].value)
				v.mark = cmp.Or(vars[name].mark, v.mark)
			}
			vars[name] = v
		}
	}
	return vars
}

func (s started) openRCArguments() (args []word) {
	for _, name := range []string{"command", "command_args"} {
		v := s.vars[name]
		text, _ := expand(v.value, s.vars)
		for _, w := range splitPlain(text) {
			args = append(args, word{w, v.mark, name})
		}
	}
	return args
}
