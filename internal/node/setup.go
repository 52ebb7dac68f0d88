// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

// Setup is how the kubelet of a node is run, as its files say, and how that can
// be changed. [Node.Setup] reads it. All paths are those of the node, without
// [Node.Root].
type Setup struct {
	Kind    Kind
	Way     Way
	Refusal *Refusal `json:",omitempty"` // why the node keeps no change; nil if it does

	Init    Init
	Service string `json:",omitempty"` // what Init calls the service that has the kubelet: "kubelet.service", "k3s"; "" if there is none
	Unit    *Unit  `json:",omitempty"` // nil without a unit of systemd

	// Flags are the two flags of the kubelet's next start: what its files say
	// now, our drop-in among them. Of k3s and rke2 they are the paths that these
	// look at, whether given or the default.
	Flags

	// Vendor is the same without our drop-in.
	Vendor Flags

	Program string // what it runs: the kubelet, k3s or rke2; "" if that is not known
	Version Version
	Gates   map[string]bool `json:",omitempty"` // feature gates that its files set
	Health  Health
	Running *Running `json:",omitempty"` // nil if none runs, or this is not its machine

	Nodeadm *Nodeadm `json:",omitempty"` // of EKS AL2023
	Rancher *Rancher `json:",omitempty"` // of k3s and rke2

	Unread []string `json:",omitempty"` // what could not be read, so that all of this may be wrong
}

// Kind is a way in which nodes are made.
type Kind string

// The kinds of nodes. All from GKE on have a [Refusal].
const (
	Kubeadm      Kind = "kubeadm"    // packages of pkgs.k8s.io or of a distribution
	KindNode     Kind = "kind"       // node image of kind
	EKS2023      Kind = "eks-al2023" // nodeadm
	EKSAL2       Kind = "eks-al2"    // bootstrap.sh
	K3sServer    Kind = "k3s-server" // with API server and datastore in the same process
	K3sAgent     Kind = "k3s-agent"
	RKE2Server   Kind = "rke2-server" // the kubelet is a child
	RKE2Agent    Kind = "rke2-agent"
	Kubespray    Kind = "kubespray"
	PlainUnit    Kind = "kubelet.service" // of anybody else
	OpenRCUnit   Kind = "openrc"          // a kubelet under OpenRC
	NoKubelet    Kind = "none"            // nothing here starts a kubelet
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

// Way is how the kubelet of a node comes to a configuration and a directory of ours.
type Way string

const (
	// ByFiles: the kubelet has both flags without us, and what they name can be
	// changed and stays.
	ByFiles Way = "files"
	// ByDropIn: a drop-in of systemd repeats the unit's command with the flags.
	ByDropIn Way = "drop-in"
	// ByPlaces: no flags; k3s and rke2 give them to the kubelet if both paths
	// are there when their service starts.
	ByPlaces Way = "places"
	// ByHand: nothing that regcred does would bring the flags there.
	ByHand Way = "by hand"
)

// Init is what starts services.
type Init string

// The init systems.
const (
	Systemd Init = "systemd"
	OpenRC  Init = "openrc"
	NoInit  Init = "none"
)

// Flags are the two flags that matter here.
type Flags struct {
	Config, BinDir Flag
}

// Flag is one of the kubelet's two flags.
type Flag struct {
	Place
	Given []Given `json:",omitempty"` // wherever it is given, in the order in which the kubelet sees them: the last wins
}

// Set reports whether the flag is given, and not empty.
func (f Flag) Set() bool { return f.Path != "" }

// Given is a flag where it stands.
type Given struct {
	Value string
	File  string // the unit, drop-in, environment file or configuration
	Line  int    // from 1
	By    string `json:",omitempty"` // the variable that it comes by: "KUBELET_EXTRA_ARGS"
}

// PlaceType is what a path leads to.
type PlaceType string

// What a path leads to.
const (
	Absent    PlaceType = "absent"
	File      PlaceType = "file"
	Directory PlaceType = "directory"
	Other     PlaceType = "other"   // a device, a socket, a pipe
	Unknown   PlaceType = "unknown" // it cannot be looked at: see Setup.Unread
)

// Place is a path of a node.
type Place struct {
	Path  string    `json:",omitempty"` // as the kubelet has it; "" if there is none
	Real  string    `json:",omitempty"` // without links, as far as it exists; "" if it is the same
	Type  PlaceType `json:",omitempty"`
	Fixed string    `json:",omitempty"` // why nothing can be written there, or run from there: "/usr is mounted read-only"; "" if it can
	Owner string    `json:",omitempty"` // whose it is, if a package manager's or an image's: "the system image", "rpm or deb packages"
}

// Unit is the unit of systemd that starts a kubelet.
type Unit struct {
	Name   string   // "kubelet.service"
	Files  []string // the unit and its drop-ins, in the order in which systemd reads them
	Masked bool     `json:",omitempty"` // a link to /dev/null

	Exec     Command  // what it runs, without our drop-in
	Words    []string `json:",omitempty"` // what comes of Exec, with the variables as they are now: perhaps with secrets, as k3s' --token
	Missing  []string `json:",omitempty"` // environment files that it must have and has not: it does not start
	Type     string   `json:",omitempty"` // as written; "" is systemd's default
	KillMode string   `json:",omitempty"`
	Restart  string   `json:",omitempty"`
	Watchdog string   `json:",omitempty"` // WatchdogSec

	DropIn string  // where our drop-in is, or would be
	Ours   *OurOwn `json:",omitempty"` // our drop-in; nil if there is none

	// Problem is why a drop-in of ours could not give the kubelet its flags: "it
	// starts the kubelet by a shell", or a later drop-in that replaces the
	// command; "" if it could.
	Problem string `json:",omitempty"`
}

// OurOwn is a drop-in of ours.
type OurOwn struct {
	Exec  string // its command as written
	Stale bool   // it does not begin with the command that the unit has without it
}

// Command is a command line of a unit.
type Command struct {
	Text string // as written, with variables, in one line
	File string
	Line int
}

// Version is the kubelet's.
type Version struct {
	Kubelet string `json:",omitempty"` // "1.33.4"; "" if it cannot be told
	Text    string `json:",omitempty"` // as the program says it: "v1.33.4+k3s1"
	Why     string `json:",omitempty"` // why it cannot be told
}

// Health is where a kubelet says that it is well.
type Health struct {
	URL  string `json:",omitempty"` // "http://127.0.0.1:10248/healthz"; "" if that is off
	From string `json:",omitempty"` // the file or "the kubelet's default"
}

// Running is a kubelet that runs, or the program that has it inside.
type Running struct {
	PID   int
	Start uint64 // clock ticks after boot (proc(5), field 22), which with PID tells it from any other process
	// Flags are those on its command line; nil of k3s, which has the kubelet inside.
	Flags *RunningFlags `json:",omitempty"`
	// Differs: the files say something else by now, so that a restart changes it.
	Differs bool `json:",omitempty"`
}

// RunningFlags are the two flags that a kubelet was started with; "" is not given.
type RunningFlags struct{ Config, BinDir string }

// Nodeadm is EKS's agent, which writes a kubelet's files anew at each boot.
type Nodeadm struct {
	Dir       string // where it reads NodeConfig drop-ins
	Supported bool   // it reads that directory (releases since October 2025)
	DropIn    string // where ours is, or would be
}

// Rancher is what k3s and rke2 are told.
type Rancher struct {
	Files []string `json:",omitempty"` // their configuration, in the order in which it is read
	Args  []Given  `json:",omitempty"` // kubelet-arg of the two flags, which go before all else
	// DataDir is where they keep what is theirs; below it, in agent, that of the kubelet.
	DataDir string
}

// Refusal is why a node keeps no change, and what it wants instead.
type Refusal struct {
	Why string // one line
	// Reapplied: install can do it nevertheless, if something does it again after
	// each boot or upgrade (--reapplied).
	Reapplied bool
	// Instead returns what the system of the node wants, complete, to be pasted. It
	// ends with a line end.
	Instead func(Wish) string `json:"-"`
}

// Wish is what a node should have.
type Wish struct {
	Config     string // a CredentialProviderConfig in YAML, complete: what the node has already, too
	ConfigPath string // where install would have it
	BinDir     string // likewise
	Providers  []WishedProvider
}

// WishedProvider is a provider as far as a system with fields of its own can have it.
type WishedProvider struct {
	Name          string // of its executable
	MatchImages   []string
	CacheDuration string // "10m0s"
	Env           map[string]string
	Args          []string
	Tokens        bool // it has tokenAttributes
}
