// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import "slices"

// kindInfo describes a kind of node: how to detect it, how it starts the kubelet, and why
// regcred might not be able to change it.
type kindInfo struct {
	kind Kind

	signs     []kindSign // a node is of this kind if any of these files matches
	unitReads []string   // base names of drop-ins and paths of environment files of kubelet.service that identify this kind
	unit      string     // name or pattern of the kubelet's unit; "" means kubelet.service

	program   string   // base name of the executable that the service starts; "" means kubelet
	processes []string // process names of the kubelet; nil means "kubelet"; empty means that only the unit identifies it

	// Where the kubelet's arguments are, if not in the start command.
	argsFile string // a file that contains the kubelet's flags
	argsFlag string // a flag of the start command that contains the kubelet's flags

	place         configLocation // location of the node image's provider configuration
	nodeConfigDir string         // directory of NodeConfig drop-ins for nodeadm
	enabled       bool           // the unit must be enabled to start at boot

	registries string // the runtime's registries.yaml
	containerd string // containerd's configuration, which is generated from registries
	log        string // path of the kubelet's log below the data directory; "" means the log of the service

	refusalReason string // why changes to the node would be lost; "" if they persist
	reapplied     bool   // see [ChangeRefusal.Reapplied]
	manual        string // name of the template with the manual instructions; "" means "flags"
	values        string // additional Helm values in the manual instructions
}

// configLocation describes where a node's provider configuration is. In the table of kinds, the
// paths do not include [Node.Root].
type configLocation struct {
	name, config, binDir string
	via                  []string // files that set config and binDir
}

// kindSign is a file that identifies a kind of node.
type kindSign struct {
	file    string
	pattern string // regular expression for a line of the file, after removing double quotes; "" if the file only has to exist
}

// Default paths of the provider configuration on k3s and rke2 nodes.
const (
	rancherConfig = "/var/lib/rancher/credentialprovider/config.yaml"
	rancherBinDir = "/var/lib/rancher/credentialprovider/bin"
)

const (
	osReleasePath    = "/etc/os-release"
	microK8sArgsPath = "/var/snap/microk8s/current/args/kubelet"
)

// kindTable returns all kinds in the order of detection. More specific kinds come first,
// because kOps uses the images of other kinds.
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
		// EKS2023 comes before EKSAL2, because AL2023 nodes also have a file that identifies
		// AL2.
		{kind: EKS2023, signs: []kindSign{{"/etc/systemd/system/nodeadm-run.service", ""}}, place: eks, nodeConfigDir: "/etc/eks/nodeadm.d"},
		{
			kind: EKSAL2, place: eks,
			signs: []kindSign{{"/etc/eks/containerd/kubelet-containerd.service", ""}, {"/etc/systemd/system/kubelet.service.d/10-kubelet-args.conf", "^KUBELET_ARGS="}},
		},
		{
			kind: GKE, signs: []kindSign{{"/etc/srv/kubernetes/cri_auth_config.yaml", ""}, {"/home/kubernetes/bin/configure-helper.sh", ""}},
			place:         configLocation{name: "the GKE node configuration", config: "/etc/srv/kubernetes/cri_auth_config.yaml", binDir: "/home/kubernetes/bin"},
			refusalReason: "GKE writes the kubelet's unit, flags and configuration on each boot and recreates nodes during upgrades and repairs; it has no setting for third-party providers",
			// GKE mounts /var noexec, so plugins cannot be there.
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

// rancherKindInfo returns the table row for a kind of k3s or rke2 node.
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

// info returns the table row of a kind, with default values for program and processes.
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

// isRancher reports whether k3s or rke2 runs the kubelet.
func (kind Kind) isRancher() bool { return kind.info().registries != "" }

// MustBeEnabled reports whether the kubelet's unit must be enabled so that the kubelet starts
// at boot. On nodes of other kinds, something else starts the unit.
func (kind Kind) MustBeEnabled() bool { return kind.info().enabled }

// RuntimeConfig holds the configuration paths of a container runtime that k3s or rke2 includes.
type RuntimeConfig struct {
	Product    string // "k3s" or "rke2"
	Registries string // path of registries.yaml
	Containerd string // path of containerd's configuration, which k3s or rke2 generates from Registries
}

// RuntimeConfigs returns the configuration paths for k3s and rke2.
func RuntimeConfigs() (list []RuntimeConfig) {
	for _, k := range kindTable() {
		c := RuntimeConfig{k.program, k.registries, k.containerd}
		if c.Registries != "" && !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	return list
}
