// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import "slices"

// kindSpec describes a kind of node: how to detect it, how it starts the kubelet, and why
// regcred might not be able to change it.
type kindSpec struct {
	kind Kind

	markers   []kindMarker // a node is of this kind if any of these files matches
	unitReads []string     // base names of drop-ins and paths of environment files of kubelet.service that identify this kind
	unit      string       // name or pattern of the kubelet's unit; "" means kubelet.service

	program   string   // base name of the executable that the service starts; "" means kubelet
	processes []string // process names of the kubelet; nil means "kubelet"; empty means that only the unit identifies it

	// Where the kubelet's arguments are, if not in the start command.
	argsFile string // a file that contains the kubelet's flags
	argsFlag string // a flag of the start command that contains the kubelet's flags

	location      configLocation // location of the node image's provider configuration
	nodeConfigDir string         // directory of NodeConfig drop-ins for nodeadm
	mustBeEnabled bool           // the unit must be enabled to start at boot

	registries string // the runtime's registries.yaml
	containerd string // containerd's configuration, which is generated from registries
	log        string // path of the kubelet's log below the data directory; "" means the log of the service

	refusalReason  string // why changes to the node would be lost; "" if they persist
	reapplied      bool   // see [ChangeRefusal.Reapplied]
	manualTemplate string // name of the template with the manual instructions; "" means "flags"
	helmValues     string // additional Helm values in the manual instructions
}

// configLocation describes where a node's provider configuration is. In the table of kinds, the
// paths do not include [Node.Root].
type configLocation struct {
	name, config, binDir string
	sourceFiles          []string // files that set config and binDir
}

// kindMarker is a file that identifies a kind of node.
type kindMarker struct {
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
func kindTable() []kindSpec {
	eks := configLocation{name: "the EKS node configuration", config: "/etc/eks/image-credential-provider/config.json", binDir: "/etc/eks/image-credential-provider"}
	return []kindSpec{
		{
			kind: Talos, markers: []kindMarker{{osReleasePath, "^ID=talos\r?$"}}, manualTemplate: "talos",
			refusalReason: "Talos does not allow changes to services or files on the node; configure providers in its machine configuration",
		},
		{
			kind: Bottlerocket, markers: []kindMarker{{osReleasePath, "^ID=bottlerocket\r?$"}}, manualTemplate: "bottlerocket",
			refusalReason: "Bottlerocket's root file system is read-only and verified, so third-party executables cannot be added to the plugin directory; Bottlerocket generates the kubelet's files from its settings",
		},
		{
			kind: OpenShift, markers: []kindMarker{{"/etc/machine-config-daemon/currentconfig", ""}, {osReleasePath, "^OPENSHIFT_VERSION="}}, manualTemplate: "openshift",
			refusalReason: "OpenShift's Machine Config Operator owns the kubelet's unit and configuration; manual changes put the node in a degraded state",
		},
		{
			kind: KOps, manualTemplate: "kops", reapplied: true,
			markers: []kindMarker{
				{"/etc/systemd/system/kops-configuration.service", ""},
				{"/lib/systemd/system/kops-configuration.service", ""},
				{"/usr/lib/systemd/system/kops-configuration.service", ""},
			},
			refusalReason: "on each boot, kOps runs nodeup, which writes the kubelet's unit, flags and configuration",
		},
		// EKS2023 comes before EKSAL2, because AL2023 nodes also have a file that identifies
		// AL2.
		{kind: EKS2023, markers: []kindMarker{{"/etc/systemd/system/nodeadm-run.service", ""}}, location: eks, nodeConfigDir: "/etc/eks/nodeadm.d"},
		{
			kind: EKSAL2, location: eks,
			markers: []kindMarker{{"/etc/eks/containerd/kubelet-containerd.service", ""}, {"/etc/systemd/system/kubelet.service.d/10-kubelet-args.conf", "^KUBELET_ARGS="}},
		},
		{
			kind: GKE, markers: []kindMarker{{"/etc/srv/kubernetes/cri_auth_config.yaml", ""}, {"/home/kubernetes/bin/configure-helper.sh", ""}},
			location:      configLocation{name: "the GKE node configuration", config: "/etc/srv/kubernetes/cri_auth_config.yaml", binDir: "/home/kubernetes/bin"},
			refusalReason: "GKE writes the kubelet's unit, flags and configuration on each boot and recreates nodes during upgrades and repairs; it has no setting for third-party providers",
			// GKE mounts /var noexec, so plugins cannot be there.
			reapplied: true, manualTemplate: "chart", helmValues: "stateDir: /home/kubernetes/bin/regcred\n",
		},
		{
			kind: AKS, markers: []kindMarker{{"/opt/azure/containers/kubelet.sh", ""}, {"/opt/azure/containers/provision.complete", ""}},
			location:      configLocation{name: "the AKS node configuration", config: "/var/lib/kubelet/credential-provider-config.yaml", binDir: "/var/lib/kubelet/credential-provider"},
			refusalReason: "AKS writes the kubelet's unit, flags and configuration when it creates a node, including during node image and Kubernetes upgrades; it has no setting for third-party providers", reapplied: true, manualTemplate: "chart",
		},
		{
			kind: MicroK8s, markers: []kindMarker{{microK8sArgsPath, ""}}, unit: "snap.microk8s.daemon-kubelite.service",
			processes: []string{}, argsFile: microK8sArgsPath, manualTemplate: "microk8s",
			refusalReason: "MicroK8s runs the kubelet and the control plane in one process and reads the kubelet's flags from a separate file",
		},
		{
			kind: Minikube, markers: []kindMarker{{"/etc/systemd/system/kubelet.service.d/10-kubeadm.conf", "/var/lib/minikube/"}}, manualTemplate: "minikube",
			refusalReason: "minikube writes the kubelet's flags on each start",
		},
		{kind: KindNode, markers: []kindMarker{{"/kind/version", ""}, {"/kind/product_name", ""}}},
		rancherKindSpec(K3sServer, "k3s", "k3s-server", "k3s-agent", "k3s"),
		rancherKindSpec(K3sAgent, "k3s", "k3s-server", "k3s-agent", "k3s"),
		rancherKindSpec(RKE2Server, "rke2", "kubelet"),
		rancherKindSpec(RKE2Agent, "rke2", "kubelet"),
		{
			kind: K0s, unit: "k0s*.service", processes: []string{}, argsFlag: "kubelet-extra-args", manualTemplate: "k0s",
			refusalReason: "k0s starts the kubelet itself, with the flags from k0s's own --kubelet-extra-args",
		},
		{kind: Kubeadm, unitReads: []string{"10-kubeadm.conf", "/var/lib/kubelet/kubeadm-flags.env"}, mustBeEnabled: true},
		{kind: Kubespray, unitReads: []string{"/etc/kubernetes/kubelet.env"}, mustBeEnabled: true},
		{kind: OtherSystemd},
		{kind: OtherOpenRC, manualTemplate: "openrc"},
		{kind: NoKubelet},
	}
}

// rancherKindSpec returns the table row for a kind of k3s or rke2 node.
func rancherKindSpec(kind Kind, program string, processes ...string) kindSpec {
	k := kindSpec{
		kind: kind, program: program, processes: processes, mustBeEnabled: true,
		location:   configLocation{name: "the k3s/rke2 node configuration", config: rancherConfig, binDir: rancherBinDir},
		registries: "/etc/rancher/" + program + "/registries.yaml",
		containerd: "/var/lib/rancher/" + program + "/agent/etc/containerd/config.toml",
	}
	if program == "rke2" {
		k.log = "agent/logs/kubelet.log"
	}
	return k
}

// kindSpec returns the table row of a kind, with default values for program and processes.
func (kind Kind) kindSpec() kindSpec {
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
	return kindSpec{kind: kind, program: "kubelet"}
}

// isRancher reports whether k3s or rke2 runs the kubelet.
func (kind Kind) isRancher() bool { return kind.kindSpec().registries != "" }

// MustBeEnabled reports whether the kubelet's unit must be enabled so that the kubelet starts
// at boot. On nodes of other kinds, something else starts the unit.
func (kind Kind) MustBeEnabled() bool { return kind.kindSpec().mustBeEnabled }

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
