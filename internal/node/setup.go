// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

// Setup describes how a node's kubelet is run according to the node's files, and
// how regcred can change it. [Reading.Setup] returns it. Paths do not
// include [Node.Root].
type Setup struct {
	Kind    Kind
	Way     ConfigMethod
	Refusal *ChangeRefusal `json:",omitempty"` // why changes do not last; nil if they do

	Init    InitSystem
	Service string `json:",omitempty"` // name of the service that starts the kubelet, such as "kubelet.service" or "k3s"
	Unit    *Unit  `json:",omitempty"` // nil if systemd does not start the kubelet

	// Flags are the flags of the kubelet's next start, including regcred's drop-in.
	// For k3s and rke2 they are the configured or default paths.
	Flags

	// Vendor are the flags without regcred's drop-in.
	Vendor Flags

	Program string // path of the kubelet, k3s or rke2; "" if it is unknown
	Version Version
	Gates   map[string]bool `json:",omitempty"` // feature gates that flags and configuration set
	Health  HealthEndpoint
	Running *RunningProcess `json:",omitempty"` // nil if no kubelet is running, or the node is not this machine

	Nodeadm *Nodeadm `json:",omitempty"` // on EKS AL2023
	Rancher *Rancher `json:",omitempty"` // on k3s and rke2

	Unread []string `json:",omitempty"` // paths that this user has no permission to read, so the result may be wrong
}

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
	OpenRCUnit   Kind = "openrc"          // any other kubelet started by InitOpenRC
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

// ConfigMethod is how regcred can set the kubelet's configuration and plugin directory.
type ConfigMethod string

const (
	// MethodFiles: the kubelet has both flags, and changes to their files last.
	MethodFiles ConfigMethod = "files"
	// MethodDropIn: a systemd drop-in repeats the unit's command with the flags.
	MethodDropIn ConfigMethod = "drop-in"
	// MethodDefaultPaths: k3s and rke2 set the flags if both default paths exist when their
	// service starts.
	MethodDefaultPaths ConfigMethod = "places"
	// MethodManual: regcred cannot set the flags.
	MethodManual ConfigMethod = "by hand"
)

// InitSystem is an init system.
type InitSystem string

// The init systems.
const (
	InitSystemd InitSystem = "systemd"
	InitOpenRC  InitSystem = "openrc"
	InitUnknown InitSystem = "none"
)

// Flags are the kubelet's flags for credential providers.
type Flags struct {
	Config, BinDir Flag
}

// Flag is one of these flags.
type Flag struct {
	Place
	Given []FlagOccurrence `json:",omitempty"` // all occurrences in the order in which the kubelet parses them; the last one counts
}

// IsSet reports whether the flag is set and not empty.
func (f Flag) IsSet() bool { return f.Path != "" }

// FlagOccurrence is an occurrence of a flag.
type FlagOccurrence struct {
	Value string
	File  string // the unit, drop-in, environment file or configuration
	Line  int    // from 1
	By    string `json:",omitempty"` // the variable that contains the flag, such as "KUBELET_EXTRA_ARGS"
}

// PlaceType is the type of file at a path.
type PlaceType string

// The types of files.
const (
	PlaceAbsent    PlaceType = "absent"
	PlaceFile      PlaceType = "file"
	PlaceDirectory PlaceType = "directory"
	PlaceOther     PlaceType = "other"   // a device, a socket, a pipe
	PlaceUnknown   PlaceType = "unknown" // this user has no permission: see Setup.Unread
)

// Place describes a path on a node.
type Place struct {
	Path  string    `json:",omitempty"` // as in the kubelet's flag
	Type  PlaceType `json:",omitempty"`
	Fixed string    `json:",omitempty"` // why files there cannot be written or executed, such as "/usr is mounted read-only"; "" if they can
}

// Unit is the systemd unit that starts a kubelet.
type Unit struct {
	Name  string   // "kubelet.service"
	Files []string // the unit and its drop-ins, in the order in which systemd reads them

	Exec    Command  // the start command, without regcred's drop-in
	Words   []string `json:",omitempty"` // Exec with expanded variables; may contain secrets, such as k3s's --token
	Missing []string `json:",omitempty"` // missing environment files because of which the unit does not start

	DropIn string           // path of regcred's drop-in
	Ours   *InstalledDropIn `json:",omitempty"` // regcred's drop-in; nil if it does not exist

	// Problem is why a drop-in could not set the kubelet's flags, such as "it starts
	// the kubelet through a shell"; "" if it could.
	Problem string `json:",omitempty"`
}

// InstalledDropIn is regcred's drop-in.
type InstalledDropIn struct {
	Stale bool // the unit's own command has changed since
}

// Command is a command line of a unit.
type Command struct {
	Text string // as written, with variables, in one line
	File string
	Line int
}

// Version is the kubelet's version.
type Version struct {
	Kubelet string `json:",omitempty"` // "1.33.4"; "" if it is unknown
	Text    string `json:",omitempty"` // as the program prints it: "v1.33.4+k3s1"
	Why     string `json:",omitempty"` // why it is unknown
}

// HealthEndpoint is the kubelet's health endpoint.
type HealthEndpoint struct {
	URL  string `json:",omitempty"` // "http://127.0.0.1:10248/healthz"; "" if it is disabled
	From string `json:",omitempty"` // the file or flag that sets it, or "the kubelet's default"
}

// RunningProcess is a running kubelet, or the program that it is part of.
type RunningProcess struct {
	PID   int
	Start uint64 // clock ticks after boot (proc(5), field 22); identifies the process together with PID
	// Flags are the flags on the command line; nil for k3s.
	Flags *RunningFlags `json:",omitempty"`
}

// RunningFlags are the flags that a kubelet was started with; "" means not set.
type RunningFlags struct{ Config, BinDir string }

// Nodeadm is EKS's agent, which writes the kubelet's files at each boot.
type Nodeadm struct {
	Supported bool   // nodeadm reads the directory of drop-ins (releases since October 2025)
	DropIn    string // path of regcred's drop-in
}

// Rancher is the configuration of k3s and rke2.
type Rancher struct {
	Files   []string         `json:",omitempty"` // in the order in which they are read
	Args    []FlagOccurrence `json:",omitempty"` // the two flags in kubelet-arg, which override everything else
	DataDir string
}

// ChangeRefusal is why changes on a node do not last. [Setup.Instructions] returns what to
// do instead.
type ChangeRefusal struct {
	Why string // one line
	// Reapplied: install works if it is repeated after each boot or upgrade
	// (--reapplied).
	Reapplied bool
}

// NextFlags returns the flags of the kubelet's next start. k3s and rke2 set both flags or
// none.
func (s *Setup) NextFlags() RunningFlags {
	if s.Rancher != nil && len(s.Rancher.Args) == 0 && (s.Config.Type != PlaceFile || s.BinDir.Type != PlaceDirectory) {
		return RunningFlags{}
	}
	return RunningFlags{s.Config.Path, s.BinDir.Path}
}
