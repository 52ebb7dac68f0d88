// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"path"
	"slices"
)

// Kind is a distribution of nodes, or a tool that creates nodes.
type Kind string

// The kinds of nodes.
const (
	Kubeadm      Kind = "kubeadm"    // packages from pkgs.k8s.io or a Linux distribution
	KindNode     Kind = "kind"       // node image of kind
	EKS2023      Kind = "eks-al2023" // nodeadm
	EKSAL2       Kind = "eks-al2"    // bootstrap.sh
	K3sServer    Kind = "k3s-server" // API server, datastore and kubelet in one process
	K3sAgent     Kind = "k3s-agent"
	RKE2Server   Kind = "rke2-server" // the kubelet is a child process
	RKE2Agent    Kind = "rke2-agent"
	Kubespray    Kind = "kubespray"
	PlainUnit    Kind = "kubelet.service" // any other kubelet.service
	OpenRCUnit   Kind = "openrc"          // any other kubelet started by OpenRC
	NoKubelet    Kind = "none"            // no service starts a kubelet
	GKE          Kind = "gke"
	AKS          Kind = "aks"
	KOps         Kind = "kops"
	Talos        Kind = "talos"
	Bottlerocket Kind = "bottlerocket"
	OpenShift    Kind = "openshift"
	Minikube     Kind = "minikube"
	MicroK8s     Kind = "microk8s"
	K0s          Kind = "k0s"
)

// kindInfo is a row of the table of kinds: how a kind is detected, how its nodes
// start the kubelet, and why regcred might not be able to change them.
type kindInfo struct {
	kind Kind

	signs     []sign   // the node is of this kind if one of them applies
	unitReads []string // the same for the drop-ins and environment files of kubelet.service
	unit      string   // name of the unit, or a pattern; "" means kubelet.service

	program   string   // base name of the executable that the service starts; "" means kubelet
	processes []string // names of the kubelet's process; nil means kubelet, empty means that only the unit identifies it

	// embedded returns the kubelet's arguments if they are not in the start command.
	embedded func(*reader, kubeletService) []word

	place         location // where the node image has its provider configuration
	nodeConfigDir string   // directory of nodeadm's NodeConfig drop-ins
	enabled       bool     // systemd starts the unit at boot only if the unit is enabled

	registries string // configuration of the runtime's mirrors
	containerd string // containerd's configuration, generated from registries
	log        string // the kubelet's log below the data directory; "" means the service's log

	refusal   string // why changes would not last; "" if they do
	reapplied bool   // [Refusal.Reapplied]
	manual    string // template with the instructions; "" means flags
	values    string // additional lines of the values that the template prints
}

// sign identifies a kind by a file.
type sign struct {
	file string
	has  string // text of a line; "" if it is enough that the file exists
}

const osRelease = "/etc/os-release"

// kinds returns the table of kinds in the order of detection. More specific
// kinds are first: kOps uses the images of other kinds.
func kinds() []kindInfo {
	eks := location{name: "the EKS node configuration", config: "/etc/eks/image-credential-provider/config.json", binDir: "/etc/eks/image-credential-provider"}
	return []kindInfo{
		{
			kind: Talos, signs: []sign{{osRelease, "ID=talos"}}, manual: "talos",
			refusal: "Talos does not allow changes to services or files on the node; configure providers in its machine configuration",
		},
		{
			kind: Bottlerocket, signs: []sign{{osRelease, "ID=bottlerocket"}}, manual: "bottlerocket",
			refusal: "Bottlerocket's root file system is read-only and verified, so third-party executables cannot be added to the plugin directory; Bottlerocket generates the kubelet's files from its settings",
		},
		{
			kind: OpenShift, signs: []sign{{"/etc/machine-config-daemon/currentconfig", ""}, {osRelease, "OPENSHIFT_VERSION="}}, manual: "openshift",
			refusal: "OpenShift's Machine Config Operator owns the kubelet's unit and configuration; manual changes put the node in a degraded state",
		},
		{
			kind: KOps, manual: "kops", reapplied: true,
			signs: []sign{
				{"/etc/systemd/system/kops-configuration.service", ""},
				{"/lib/systemd/system/kops-configuration.service", ""},
				{"/usr/lib/systemd/system/kops-configuration.service", ""},
			},
			refusal: "on each boot, kOps runs nodeup, which writes the kubelet's unit, flags and configuration",
		},
		// EKS AL2023 has a file of AL2.
		{kind: EKS2023, signs: []sign{{"/etc/systemd/system/nodeadm-run.service", ""}}, place: eks, nodeConfigDir: "/etc/eks/nodeadm.d"},
		{
			kind: EKSAL2, place: eks,
			signs: []sign{{"/etc/eks/containerd/kubelet-containerd.service", ""}, {"/etc/systemd/system/kubelet.service.d/10-kubelet-args.conf", "KUBELET_ARGS="}},
		},
		{
			kind: GKE, signs: []sign{{"/etc/srv/kubernetes/cri_auth_config.yaml", ""}, {"/home/kubernetes/bin/configure-helper.sh", ""}},
			place:   location{name: "the GKE node configuration", config: "/etc/srv/kubernetes/cri_auth_config.yaml", binDir: "/home/kubernetes/bin"},
			refusal: "GKE writes the kubelet's unit, flags and configuration on each boot and recreates nodes during upgrades and repairs; it has no setting for third-party providers",
			// GKE mounts /var with noexec.
			reapplied: true, manual: "chart", values: "stateDir: /home/kubernetes/bin/regcred\n",
		},
		{
			kind: AKS, signs: []sign{{"/opt/azure/containers/kubelet.sh", ""}, {"/opt/azure/containers/provision.complete", ""}},
			place:   location{name: "the AKS node configuration", config: "/var/lib/kubelet/credential-provider-config.yaml", binDir: "/var/lib/kubelet/credential-provider"},
			refusal: "AKS writes the kubelet's unit, flags and configuration when it creates a node, including during node image and Kubernetes upgrades; it has no setting for third-party providers", reapplied: true, manual: "chart",
		},
		{
			kind: MicroK8s, signs: []sign{{microK8sArgs, ""}}, unit: "snap.microk8s.daemon-kubelite.service",
			processes: []string{}, embedded: (*reader).microK8sArgs, manual: "microk8s",
			refusal: "MicroK8s runs the kubelet and the control plane in one process and reads the kubelet's flags from a separate file",
		},
		{
			kind: Minikube, signs: []sign{{"/etc/systemd/system/kubelet.service.d/10-kubeadm.conf", "/var/lib/minikube/"}}, manual: "minikube",
			refusal: "minikube writes the kubelet's flags on each start",
		},
		{kind: KindNode, signs: []sign{{"/kind/version", ""}, {"/kind/product_name", ""}}},
		rancher(K3sServer, "k3s", "k3s-server", "k3s-agent", "k3s"),
		rancher(K3sAgent, "k3s", "k3s-server", "k3s-agent", "k3s"),
		rancher(RKE2Server, "rke2", "kubelet"),
		rancher(RKE2Agent, "rke2", "kubelet"),
		{
			kind: K0s, unit: "k0s*.service", processes: []string{}, embedded: (*reader).k0sArgs, manual: "k0s",
			refusal: "k0s starts the kubelet itself, with the flags from k0s's own --kubelet-extra-args",
		},
		{kind: Kubeadm, unitReads: []string{"10-kubeadm.conf", "/var/lib/kubelet/kubeadm-flags.env"}, enabled: true},
		{kind: Kubespray, unitReads: []string{"/etc/kubernetes/kubelet.env"}, enabled: true},
		{kind: PlainUnit},
		{kind: OpenRCUnit, manual: "openrc"},
		{kind: NoKubelet},
	}
}

// rancher returns the row of a kind of k3s or rke2.
func rancher(kind Kind, program string, processes ...string) kindInfo {
	k := kindInfo{
		kind: kind, program: program, processes: processes, enabled: true,
		place:      location{name: "the k3s/rke2 node configuration", config: rancherConfig, binDir: rancherBinDir},
		registries: "/etc/rancher/" + program + "/registries.yaml",
		containerd: "/var/lib/rancher/" + program + "/agent/etc/containerd/config.toml",
	}
	if program == "rke2" {
		k.log = "agent/logs/kubelet.log"
	}
	return k
}

// info returns the row of a kind, with defaults filled in.
func (kind Kind) info() kindInfo {
	for _, k := range kinds() {
		if k.kind == kind {
			if k.program == "" {
				k.program = "kubelet"
			}
			if k.processes == nil {
				k.processes = []string{"kubelet"}
			}
			return k
		}
	}
	return kindInfo{kind: kind, program: "kubelet"}
}

// isRancher reports whether the kubelet is part of k3s or rke2.
func (kind Kind) isRancher() bool { return kind.info().registries != "" }

// MustBeEnabled reports whether the kubelet does not start at boot if its unit is
// disabled. Other kinds start the unit in another way.
func (kind Kind) MustBeEnabled() bool { return kind.info().enabled }

// KubeletLog returns the path of the kubelet's log; "" if the service manager has
// the log.
func (s *Setup) KubeletLog() string {
	log := s.Kind.info().log
	if log == "" || s.Rancher == nil {
		return ""
	}
	return path.Join(s.Rancher.DataDir, log)
}

// RuntimeConfig names the files of a runtime that a distribution includes.
type RuntimeConfig struct {
	Product    string // "k3s" or "rke2"
	Registries string // path of registries.yaml
	Containerd string // path of containerd's configuration, which the product generates from Registries
}

// RuntimeConfigs lists the runtimes that distributions include.
func RuntimeConfigs() (list []RuntimeConfig) {
	for _, k := range kinds() {
		c := RuntimeConfig{k.program, k.registries, k.containerd}
		if c.Registries != "" && !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	return list
}

// refusalOf returns why changes on a node do not last; nil if they do.
func refusalOf(s *Setup) *Refusal {
	k := s.Kind.info()
	switch {
	case k.refusal != "":
		return &Refusal{Why: k.refusal, Reapplied: k.reapplied}
	case s.Way == ByHand:
		return &Refusal{Why: unsupported(s)}
	}
	return nil
}

// unsupported returns why regcred cannot set the kubelet's flags.
func unsupported(s *Setup) string {
	switch {
	case s.Kind == NoKubelet:
		return "found no kubelet.service, k3s, rke2 or OpenRC service that starts a kubelet"
	case s.Unit != nil && s.Unit.Problem != "":
		return "a drop-in cannot set this kubelet's flags: " + s.Unit.Problem
	case s.Rancher != nil && s.Config.Fixed != "":
		return s.Config.Fixed
	case s.Rancher != nil:
		return s.BinDir.Fixed
	case s.Init == OpenRC:
		return "OpenRC does not support drop-ins; set this kubelet's flags manually in /etc/conf.d/kubelet"
	}
	return "regcred cannot set this kubelet's flags"
}
