// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

// Setup describes how a node's files set up the kubelet, and how regcred can change this setup.
// [Reader.Setup] returns it. All paths are paths on the node, without [Node.Root].
type Setup struct {
	Kind    Kind
	Way     ConfigMethod
	Refusal *ChangeRefusal `json:",omitempty"` // why regcred does not change the node; nil if it can

	Init    InitSystem
	Service string `json:",omitempty"` // name of the service that starts the kubelet, such as "kubelet.service" or "k3s"
	Unit    *Unit  `json:",omitempty"` // nil if systemd does not start the kubelet

	// Flags holds the provider flags for the kubelet's next start, including regcred's drop-in.
	// For k3s and rke2, they contain the configured or default paths.
	Flags

	// Vendor holds the provider flags without regcred's drop-in.
	Vendor Flags

	Program string // path of the kubelet, k3s or rke2; "" if unknown
	Version Version
	Gates   map[string]bool `json:",omitempty"` // feature gates in flags and configuration files
	Health  HealthEndpoint
	Pulls   ParallelPulls   `json:",omitzero"`
	Running *RunningProcess `json:",omitempty"` // nil if no kubelet is running or the node is not this machine

	Nodeadm *Nodeadm `json:",omitempty"` // set only on EKS AL2023
	Rancher *Rancher `json:",omitempty"` // set only on k3s and rke2

	Unread []string `json:",omitempty"` // paths that this user has no permission to read; without them, the Setup may be wrong
}

// Kind identifies the Kubernetes distribution of a node, or the tool that created the node.
type Kind string

// Kinds of nodes, as detected by [Reader.Setup].
const (
	Kubeadm      Kind = "kubeadm"    // installed with packages from pkgs.k8s.io or a Linux distribution
	KindNode     Kind = "kind"       // the node image of kind (Kubernetes in Docker)
	EKS2023      Kind = "eks-al2023" // EKS with Amazon Linux 2023, set up by nodeadm
	EKSAL2       Kind = "eks-al2"    // EKS with Amazon Linux 2, set up by bootstrap.sh
	EKSUbuntu    Kind = "eks-ubuntu" // EKS with Ubuntu, whose kubelet is the snap kubelet-eks
	K3sServer    Kind = "k3s-server" // the API server, datastore and kubelet run in one process
	K3sAgent     Kind = "k3s-agent"
	RKE2Server   Kind = "rke2-server" // the kubelet is a child process of rke2
	RKE2Agent    Kind = "rke2-agent"
	Kubespray    Kind = "kubespray"
	OtherSystemd Kind = "kubelet.service" // another node with a kubelet.service
	OtherOpenRC  Kind = "openrc"          // another node on which OpenRC starts the kubelet
	NoKubelet    Kind = "none"            // the machine has no service that starts a kubelet
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

// ConfigMethod identifies a method for setting the kubelet's provider configuration and plugin
// directory.
type ConfigMethod string

const (
	// MethodFiles means that both flags are already set, and that changes to the files at these
	// paths persist.
	MethodFiles ConfigMethod = "files"
	// MethodDropIn means that regcred adds a systemd drop-in. It repeats the unit's start
	// command with the provider flags added.
	MethodDropIn ConfigMethod = "drop-in"
	// MethodDefaultPaths means that k3s or rke2 sets the flags itself if its configuration and
	// plugin directory exist when its service starts.
	MethodDefaultPaths ConfigMethod = "places"
	// MethodManual means that regcred cannot set the flags.
	MethodManual ConfigMethod = "by hand"
)

// InitSystem identifies an init system.
type InitSystem string

// Init systems.
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
	PathStatus
	Given []FlagOccurrence `json:",omitempty"` // all occurrences, in the order in which the kubelet parses them; the last one wins
}

// IsSet reports whether the flag's value is not empty.
func (f Flag) IsSet() bool { return f.Path != "" }

// FlagOccurrence describes where a command line, environment or file sets a flag.
type FlagOccurrence struct {
	Value string
	File  string // path of the unit, drop-in, environment file or configuration file
	Line  int    // from 1
	By    string `json:",omitempty"` // environment variable that contains the flag, such as "KUBELET_EXTRA_ARGS"
}

// FileType is the type of file at a path.
type FileType string

// File types.
const (
	TypeAbsent    FileType = "absent"
	TypeFile      FileType = "file"
	TypeDirectory FileType = "directory"
	TypeOther     FileType = "other"   // device, socket or pipe
	TypeUnknown   FileType = "unknown" // permission denied; see Setup.Unread
)

// PathStatus describes a path that a kubelet flag contains, and the file at that path.
type PathStatus struct {
	Path  string   `json:",omitempty"` // the value of the kubelet's flag
	Type  FileType `json:",omitempty"`
	Fixed string   `json:",omitempty"` // why files at Path cannot be written or executed: "/usr is mounted read-only"; "" if they can
}

// Unit describes the systemd unit that starts the kubelet.
type Unit struct {
	Name  string   // "kubelet.service"
	Files []string // the unit file and its drop-ins, in the order in which systemd reads them

	Exec    Command  // the unit's start command, without regcred's drop-in
	Words   []string `json:",omitempty"` // words of Exec with variables expanded; may contain secrets such as k3s's --token
	Missing []string `json:",omitempty"` // missing environment files without which systemd does not start the unit

	DropIn string           // path of regcred's drop-in
	Ours   *InstalledDropIn `json:",omitempty"` // regcred's drop-in; nil if it does not exist

	// Problem explains why a drop-in cannot set the kubelet's flags, for example "it starts the
	// kubelet through a shell". It is "" if a drop-in can set them.
	Problem string `json:",omitempty"`

	settings *systemdUnit
}

// NoExecReason returns the unit's setting that keeps the kubelet from executing files in a
// directory, with file and line. It returns "" if there is none.
func (u *Unit) NoExecReason(dir string) string {
	if u == nil || u.settings == nil {
		return ""
	}
	return u.settings.noExecReason(dir)
}

// InstalledDropIn describes regcred's drop-in on a node.
type InstalledDropIn struct {
	Stale bool // the unit's start command has changed since regcred wrote the drop-in
}

// Command is the start command of a unit.
type Command struct {
	Text string // as in the unit file, with variables, joined into one line
	File string
	Line int
}

// Version is the kubelet's version.
type Version struct {
	Kubelet string `json:",omitempty"` // "1.33.4"; "" if unknown
	Text    string `json:",omitempty"` // as the kubelet, k3s or rke2 prints it, such as "v1.33.4+k3s1"
	Why     string `json:",omitempty"` // why the version is unknown
}

// ParallelPulls is the kubelet's limit for image pulls at the same time.
type ParallelPulls struct {
	Max  int32  // 0 means no limit
	File string // the file that sets it
}

// HealthEndpoint describes the kubelet's health endpoint.
type HealthEndpoint struct {
	URL  string `json:",omitempty"` // "http://127.0.0.1:10248/healthz"; "" if it is disabled
	From string `json:",omitempty"` // file or flag that sets the endpoint, or "the kubelet's default"
}

// RunningProcess describes a running kubelet, or the process of k3s or another program that
// contains the kubelet.
type RunningProcess struct {
	PID   int
	Start uint64 // start time in clock ticks after boot (proc(5), field 22); PID and Start identify a process
	// Flags holds the provider flags in the command line. It is nil for k3s.
	Flags *RunningFlags `json:",omitempty"`
}

// RunningFlags holds the provider flags of a running kubelet. "" means that a flag is not set.
type RunningFlags struct{ Config, BinDir string }

// Nodeadm describes nodeadm, the EKS node agent that writes the kubelet's files at each boot.
type Nodeadm struct {
	Supported bool   // nodeadm reads drop-ins (releases since October 2025)
	DropIn    string // path of regcred's drop-in
}

// Rancher describes the configuration of k3s or rke2.
type Rancher struct {
	Files   []string         `json:",omitempty"` // configuration files, in the order in which k3s or rke2 reads them
	Args    []FlagOccurrence `json:",omitempty"` // provider flags in kubelet-arg, which override all other settings
	DataDir string
}

// ChangeRefusal explains why regcred does not change a node, usually because changes would be
// lost. [Setup.ManualInstructions] returns what to do instead.
type ChangeRefusal struct {
	Why string // one line
	// Reapplied reports whether regcred install works if it runs again after each boot or
	// upgrade (--reapplied).
	Reapplied bool
}

// NextFlags returns the provider flags for the kubelet's next start. k3s and rke2 set both
// flags or neither.
func (s *Setup) NextFlags() RunningFlags {
	if s.Rancher != nil && len(s.Rancher.Args) == 0 && (s.Config.Type != TypeFile || s.BinDir.Type != TypeDirectory) {
		return RunningFlags{}
	}
	return RunningFlags{s.Config.Path, s.BinDir.Path}
}
