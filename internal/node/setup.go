// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

// Setup describes how a node's kubelet is run according to the node's files, and
// how regcred can change it. [Reader.Setup] returns it. Paths do not
// include [Node.Root].
type Setup struct {
	Kind    Kind
	Way     ConfigMethod
	Refusal *ChangeRefusal `json:",omitempty"` // why changes would be lost; nil if they are kept

	Init    InitSystem
	Service string `json:",omitempty"` // name of the service that starts the kubelet, such as "kubelet.service" or "k3s"
	Unit    *Unit  `json:",omitempty"` // nil if systemd does not start the kubelet

	// Flags holds the flags of the kubelet's next start, including regcred's drop-in.
	// For k3s and rke2, these are the configured or default paths.
	Flags

	// Vendor holds the flags without regcred's drop-in.
	Vendor Flags

	Program string // path of the kubelet, k3s or rke2; "" if unknown
	Version Version
	Gates   map[string]bool `json:",omitempty"` // feature gates that flags and configuration files set
	Health  HealthEndpoint
	Running *RunningProcess `json:",omitempty"` // nil if no kubelet is running, or if the node is not this machine

	Nodeadm *Nodeadm `json:",omitempty"` // on EKS AL2023
	Rancher *Rancher `json:",omitempty"` // on k3s and rke2

	Unread []string `json:",omitempty"` // paths this user may not read; the result may be wrong without them
}

// Kind identifies a Kubernetes distribution or the tool that created the node.
type Kind string

// Kinds of nodes.
const (
	Kubeadm      Kind = "kubeadm"    // installed with packages from pkgs.k8s.io or a Linux distribution
	KindNode     Kind = "kind"       // kind's node image
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

// ConfigMethod describes how regcred can set the kubelet's configuration and plugin
// directory.
type ConfigMethod string

const (
	// MethodFiles means that both flags are already set and that changes to their files
	// persist.
	MethodFiles ConfigMethod = "files"
	// MethodDropIn means that a systemd drop-in repeats the unit's command with the
	// flags added.
	MethodDropIn ConfigMethod = "drop-in"
	// MethodDefaultPaths means that k3s or rke2 sets the flags if both default paths
	// exist when its service starts.
	MethodDefaultPaths ConfigMethod = "places"
	// MethodManual means that regcred cannot set the flags.
	MethodManual ConfigMethod = "by hand"
)

// InitSystem identifies an init system.
type InitSystem string

// The init systems.
const (
	InitSystemd InitSystem = "systemd"
	InitOpenRC  InitSystem = "openrc"
	InitUnknown InitSystem = "none"
)

// Flags holds the kubelet's credential provider flags.
type Flags struct {
	Config, BinDir Flag
}

// Flag describes one of the kubelet's credential provider flags.
type Flag struct {
	Place
	Given []FlagOccurrence `json:",omitempty"` // all occurrences in the order the kubelet parses them; the last one wins
}

// IsSet reports whether the flag has a non-empty value.
func (f Flag) IsSet() bool { return f.Path != "" }

// FlagOccurrence is one occurrence of a flag.
type FlagOccurrence struct {
	Value string
	File  string // the unit, drop-in, environment file or configuration file
	Line  int    // from 1
	By    string `json:",omitempty"` // the variable that contains the flag, such as "KUBELET_EXTRA_ARGS"
}

// FileType is the type of file at a path.
type FileType string

// TypeFile types.
const (
	TypeAbsent    FileType = "absent"
	TypeFile      FileType = "file"
	TypeDirectory FileType = "directory"
	TypeOther     FileType = "other"   // device, socket or pipe
	TypeUnknown   FileType = "unknown" // permission denied; see Setup.Unread
)

// Place describes a path on a node.
type Place struct {
	Path  string   `json:",omitempty"` // as given in the kubelet's flag
	Type  FileType `json:",omitempty"`
	Fixed string   `json:",omitempty"` // why files there cannot be written or executed: "/usr is mounted read-only"; "" if they can
}

// Unit describes the systemd unit that starts the kubelet.
type Unit struct {
	Name  string   // "kubelet.service"
	Files []string // the unit and its drop-ins, in the order systemd reads them

	Exec    Command  // the start command, without regcred's drop-in
	Words   []string `json:",omitempty"` // Exec with variables expanded; may contain secrets such as k3s's --token
	Missing []string `json:",omitempty"` // missing environment files that keep the unit from starting

	DropIn string           // path of regcred's drop-in
	Ours   *InstalledDropIn `json:",omitempty"` // regcred's drop-in; nil if it does not exist

	// Problem explains why a drop-in cannot set the kubelet's flags, for example "it
	// starts the kubelet through a shell". It is "" if a drop-in can.
	Problem string `json:",omitempty"`
}

// InstalledDropIn is regcred's drop-in.
type InstalledDropIn struct {
	Stale bool // the unit's own command has changed since the drop-in was written
}

// Command is the command line of a unit.
type Command struct {
	Text string // as written, with variables, on one line
	File string
	Line int
}

// Version is the kubelet's version.
type Version struct {
	Kubelet string `json:",omitempty"` // "1.33.4"; "" if unknown
	Text    string `json:",omitempty"` // as the program prints it, such as "v1.33.4+k3s1"
	Why     string `json:",omitempty"` // why the version is unknown
}

// HealthEndpoint describes the kubelet's health endpoint.
type HealthEndpoint struct {
	URL  string `json:",omitempty"` // "http://127.0.0.1:10248/healthz"; "" if it is disabled
	From string `json:",omitempty"` // the file or flag that sets it, or "the kubelet's default"
}

// RunningProcess describes a running kubelet, or the process that the kubelet is part
// of.
type RunningProcess struct {
	PID   int
	Start uint64 // clock ticks after boot (proc(5), field 22); with PID, identifies the process
	// Flags holds the flags from the command line; nil for k3s.
	Flags *RunningFlags `json:",omitempty"`
}

// RunningFlags holds the flags that a running kubelet was started with. "" means not
// set.
type RunningFlags struct{ Config, BinDir string }

// Nodeadm describes EKS's node agent, which writes the kubelet's files at each boot.
type Nodeadm struct {
	Supported bool   // nodeadm reads the directory of drop-ins (releases since October 2025)
	DropIn    string // path of regcred's drop-in
}

// Rancher describes the configuration of k3s or rke2.
type Rancher struct {
	Files   []string         `json:",omitempty"` // in the order they are read
	Args    []FlagOccurrence `json:",omitempty"` // the two flags in kubelet-arg, which override everything else
	DataDir string
}

// ChangeRefusal explains why changes on a node do not persist. [Setup.ManualInstructions]
// returns what to do instead.
type ChangeRefusal struct {
	Why string // one line
	// Reapplied reports whether install works if it is repeated after each boot or
	// upgrade (--reapplied).
	Reapplied bool
}

// NextFlags returns the flags for the kubelet's next start. k3s and rke2 set both flags
// or neither.
func (s *Setup) NextFlags() RunningFlags {
	if s.Rancher != nil && len(s.Rancher.Args) == 0 && (s.Config.Type != TypeFile || s.BinDir.Type != TypeDirectory) {
		return RunningFlags{}
	}
	return RunningFlags{s.Config.Path, s.BinDir.Path}
}
