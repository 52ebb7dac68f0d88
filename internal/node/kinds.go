// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import "slices"

// kindInfo is a row in the table of node kinds. It describes how a kind is detected,
// how its nodes start the kubelet, and why regcred might not be able to change them.
type kindInfo struct {
	kind Kind

	signs     []kindSign // the node is of this kind if any sign applies
	unitReads []string   // like signs, for the drop-ins and environment files of kubelet.service
	unit      string     // name of the unit, or a pattern; "" means kubelet.service

	program   string   // base name of the executable that the service starts; "" means kubelet
	processes []string // names of the kubelet's process; nil means kubelet; empty: only the unit identifies it

	// The kubelet's arguments, if they are not in the start command.
	argsFile string // a file with flags
	argsFlag string // a flag of the start command

	place         configLocation // where the node image has its provider configuration
	nodeConfigDir string         // directory of nodeadm's NodeConfig drop-ins
	enabled       bool           // systemd starts the unit at boot only if it is enabled

	registries string // configuration of the runtime's mirrors
	containerd string // containerd's configuration, generated from registries
	log        string // the kubelet's log below the data directory; "" means the service's log

	refusalReason string // why changes would be lost; "" if they are kept
	reapplied     bool   // [Refusal.Reapplied]
	manual        string // template with the instructions; "" means the one for flags
	values        string // additional lines of the values that the template prints
}

// configLocation is where a node's provider configuration is. Paths do not include
// [Node.Root].
type configLocation struct {
	name, config, binDir string
	via                  []string // the files that set the two paths
}

// kindSign identifies a kind of node by a file.
type kindSign struct {
	file    string
	pattern string // matches a line of the file without its quotes; "" if the file only has to exist
}

// Default paths of k3s and rke2.
const (
	rancherConfig = "/var/lib/rancher/credentialprovider/config.yaml"
	rancherBinDir = "/var/lib/rancher/credentialprovider/bin"
)

const (
	osReleasePath    = "/etc/os-release"
	microK8sArgsPath = "/var/snap/microk8s/current/args/kubelet"
)

// kindTable returns the table of kinds in the order of detection. More specific kinds
// come first, because kOps uses the images of other kinds.
func kindTable() []kindInfo {
	eks := configLocation{name: "the EKS node configuration", config: "/etc/eks/image-credential-provider/config.json", binDir: "/etc/eks/image-credential-provider"}
	return []kindInfo{
		{
			kind: Talos, signs: []kindSign{{osReleasePath, "^ID=talos\r?$"}}, manual: "talos",
			refusalReason: "Talos does not allow changes to services or files on the node; configure providers in its machine configuration",
		},
		{
			kind: Bottlerocket, signs: []kindSign{{osReleasePath, "^ID=bottlerocket\r?$"}}, manual: "bottlerocket",
			refusalReason: "Bottlerocket's root file system is read-only and verified, so third-party executables cannot be added to the plugin directory; Bottlerocket generates the kubelet's files from its settings",
		},
		{
			kind: OpenShift, signs: []kindSign{{"/etc/machine-config-daemon/currentconfig", ""}, {osReleasePath, "^OPENSHIFT_VERSION="}}, manual: "openshift",
			refusalReason: "OpenShift's Machine Config Operator owns the kubelet's unit and configuration; manual changes put the node in a degraded state",
		},
		{
			kind: KOps, manual: "kops", reapplied: true,
			signs: []kindSign{
				{"/etc/systemd/system/kops-configuration.service", ""},
				{"/lib/systemd/system/kops-configuration.service", ""},
				{"/usr/lib/systemd/system/kops-configuration.service", ""},
			},
			refusalReason: "on each boot, kOps runs nodeup, which writes the kubelet's unit, flags and configuration",
		},
		// EKS AL2023 also has a file that identifies AL2.
		{kind: EKS2023, signs: []kindSign{{"/etc/systemd/system/nodeadm-run.service", ""}}, place: eks, nodeConfigDir: "/etc/eks/nodeadm.d"},
		{
			kind: EKSAL2, place: eks,
			signs: []kindSign{{"/etc/eks/containerd/kubelet-containerd.service", ""}, {"/etc/systemd/system/kubelet.service.d/10-kubelet-args.conf", "^KUBELET_ARGS="}},
		},
		{
			kind: GKE, signs: []kindSign{{"/etc/srv/kubernetes/cri_auth_config.yaml", ""}, {"/home/kubernetes/bin/configure-helper.sh", ""}},
			place:         configLocation{name: "the GKE node configuration", config: "/etc/srv/kubernetes/cri_auth_config.yaml", binDir: "/home/kubernetes/bin"},
			refusalReason: "GKE writes the kubelet's unit, flags and configuration on each boot and recreates nodes during upgrades and repairs; it has no setting for third-party providers",
			// GKE mounts /var with noexec.
			reapplied: true, manual: "chart", values: "stateDir: /home/kubernetes/bin/regcred\n",
		},
		{
			kind: AKS, signs: []kindSign{{"/opt/azure/containers/kubelet.sh", ""}, {"/opt/azure/containers/provision.complete", ""}},
			place:         configLocation{name: "the AKS node configuration", config: "/var/lib/kubelet/credential-provider-config.yaml", binDir: "/var/lib/kubelet/credential-provider"},
			refusalReason: "AKS writes the kubelet's unit, flags and configuration when it creates a node, including during node image and Kubernetes upgrades; it has no setting for third-party providers", reapplied: true, manual: "chart",
		},
		{
			kind: MicroK8s, signs: []kindSign{{microK8sArgsPath, ""}}, unit: "snap.microk8s.daemon-kubelite.service",
			processes: []string{}, argsFile: microK8sArgsPath, manual: "microk8s",
			refusalReason: "MicroK8s runs the kubelet and the control plane in one process and reads the kubelet's flags from a separate file",
		},
		{
			kind: Minikube, signs: []kindSign{{"/etc/systemd/system/kubelet.service.d/10-kubeadm.conf", "/var/lib/minikube/"}}, manual: "minikube",
			refusalReason: "minikube writes the kubelet's flags on each start",
		},
		{kind: KindNode, signs: []kindSign{{"/kind/version", ""}, {"/kind/product_name", ""}}},
		rancherKindInfo(K3sServer, "k3s", "k3s-server", "k3s-agent", "k3s"),
		rancherKindInfo(K3sAgent, "k3s", "k3s-server", "k3s-agent", "k3s"),
		rancherKindInfo(RKE2Server, "rke2", "kubelet"),
		rancherKindInfo(RKE2Agent, "rke2", "kubelet"),
		{
			kind: K0s, unit: "k0s*.service", processes: []string{}, argsFlag: "kubelet-extra-args", manual: "k0s",
			refusalReason: "k0s starts the kubelet itself, with the flags from k0s's own --kubelet-extra-args",
		},
		{kind: Kubeadm, unitReads: []string{"10-kubeadm.conf", "/var/lib/kubelet/kubeadm-flags.env"}, enabled: true},
		{kind: Kubespray, unitReads: []string{"/etc/kubernetes/kubelet.env"}, enabled: true},
		{kind: PlainUnit},
		{kind: OpenRCUnit, manual: "openrc"},
		{kind: NoKubelet},
	}
}

// rancherKindInfo returns the row for a kind of k3s or rke2 node.
func rancherKindInfo(kind Kind, program string, processes ...string) kindInfo {
	k := kindInfo{
		kind: kind, program: program, processes: processes, enabled: true,
		place:      configLocation{name: "the k3s/rke2 node configuration", config: rancherConfig, binDir: rancherBinDir},
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
	for _, k := range kindTable() {
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
// disabled. Nodes of other kinds start the unit in a different way.
func (kind Kind) MustBeEnabled() bool { return kind.info().enabled }

// RuntimeConfig holds the paths of a runtime that is part of a distribution.
type RuntimeConfig struct {
	Product    string // "k3s" or "rke2"
	Registries string // path of registries.yaml
	Containerd string // path of containerd's configuration, which the distribution generates from Registries
}

// RuntimeConfigs lists the runtimes that are part of distributions.
func RuntimeConfigs() (list []RuntimeConfig) {
	for _, k := range kindTable() {
		c := RuntimeConfig{k.program, k.registries, k.containerd}
		if c.Registries != "" && !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	return list
}
