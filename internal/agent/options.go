// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"strconv"
	"time"
)

// Options are what the chart says to the pod of a node. Paths are those in the pod.
type Options struct {
	Node     string // its name
	Owner    string // NAMESPACE/RELEASE
	Revision string // the name of the ConfigMap with the configuration

	Config       string // a file or directory, as a kubelet reads it
	State        string // a file that says "present" or "absent"
	Plugins      string // a directory with plugins of others
	ImagePlugins string // a directory with those of the image
	Work         string // the directory that is handed over in part, and that a restart of the container keeps; absolute

	Executable string // of regcred
	Dispatcher string // of regcred-credential-provider

	Install Install

	Interval time.Duration // between two looks at the node; a minute if 0
}

// Install says how the node is changed: these are flags of "regcred install".
type Install struct {
	DryRun    bool // nothing is changed
	Restart   bool
	Probe     string
	Reserve   []string
	AnyImage  bool
	MaxStale  time.Duration // 0 is regcred's own default
	Keep      int           // 0 likewise
	Reapplied bool
	StateDir  string        // of the node, for its generations; "" is regcred's own default
	Timeout   time.Duration // until a restarted kubelet is healthy; 4 minutes if 0
}

// args are the flags. What the node was told before has no say: what is not given is
// taken back.
func (i Install) args() []string {
	args := []string{i.timeout(), "--any-image=" + strconv.FormatBool(i.AnyImage)}
	for _, p := range i.Reserve {
		args = append(args, "--reserve="+p)
	}
	if len(i.Reserve) == 0 {
		args = append(args, "--reserve=")
	}
	if i.Restart {
		args = append(args, "--restart")
	}
	if i.Reapplied {
		args = append(args, "--reapplied")
	}
	if i.Probe != "" {
		args = append(args, "--probe="+i.Probe)
	}
	if i.MaxStale != 0 {
		args = append(args, "--max-stale="+i.MaxStale.String())
	}
	if i.Keep != 0 {
		args = append(args, "--keep="+strconv.Itoa(i.Keep))
	}
	return args
}

// where are the flags, of every command, that say where the generations are.
func (i Install) where() []string {
	if i.StateDir == "" {
		return nil
	}
	return []string{"--state-dir=" + i.StateDir}
}

func (i Install) timeout() string { return "--timeout=" + i.health().String() }

func (i Install) health() time.Duration {
	if i.Timeout > 0 {
		return i.Timeout
	}
	return 4 * time.Minute
}

// Limit is how long a change may take on the node before systemd ends it: the files
// that are copied and the plugins that are tried, a kubelet that becomes healthy and
// a test pull, and going back from that, for which regcred takes 10 minutes at most.
func (i Install) Limit() time.Duration { return 5*time.Minute + 2*i.health() + 10*time.Minute }

// within is how long a change is waited for: for the one of a pod before, and for ours.
func (i Install) within() time.Duration { return 2*i.Limit() + time.Minute }

// lookLimit is how long a look at the node may take there.
const lookLimit = time.Minute

// lookWithin is how long it is waited for.
const lookWithin = 2 * lookLimit

func (o *Options) interval() time.Duration {
	if o.Interval > 0 {
		return o.Interval
	}
	return time.Minute
}
