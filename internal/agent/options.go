// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"cmp"
	"strconv"
	"time"
)

// Options holds the chart's settings for a node's pod. Paths are paths in the pod.
type Options struct {
	Node     string // name of the node
	Owner    string // NAMESPACE/RELEASE
	Revision string // the name of the ConfigMap with the configuration

	Config       string // configuration file or directory
	StateFile    string // file that contains "present" or "absent"
	Plugins      string // a directory with third-party plugins
	ImagePlugins string // a directory with the image's plugins
	WorkDir      string // absolute path of a directory that survives container restarts; partly shared with the node

	RegcredPath    string // path of regcred
	DispatcherPath string // path of regcred-credential-provider

	Install InstallFlags

	Interval time.Duration // time between checks of the node; a minute if 0
}

// InstallFlags holds flags of "regcred install".
type InstallFlags struct {
	DryRun    bool
	Restart   bool
	Probe     string
	Reserve   []string
	AnyImage  bool
	MaxStale  time.Duration // 0 means regcred's default
	Keep      int           // 0 means regcred's default
	Reapplied bool
	StateDir  string        // path on the node; "" means regcred's default
	Timeout   time.Duration // how long a restarted kubelet may take to become healthy; 4 minutes if 0
}

// commandArgs returns the flags. It sets all flags that would otherwise be inherited from the
// current generation.
func (i InstallFlags) commandArgs() []string {
	args := []string{i.timeout(), "--any-image=" + strconv.FormatBool(i.AnyImage)}
	for _, p := range i.Reserve {
		args = append(args, "--reserve="+p)
	}
	for _, f := range []struct {
		arg   string
		isSet bool
	}{
		{"--reserve=", len(i.Reserve) == 0},
		{"--restart", i.Restart},
		{"--reapplied", i.Reapplied},
		{"--probe=" + i.Probe, i.Probe != ""},
		{"--max-stale=" + i.MaxStale.String(), i.MaxStale != 0},
		{"--keep=" + strconv.Itoa(i.Keep), i.Keep != 0},
	} {
		if f.isSet {
			args = append(args, f.arg)
		}
	}
	return args
}

// stateDirArgs returns the flags that select the state directory.
func (i InstallFlags) stateDirArgs() []string {
	if i.StateDir == "" {
		return nil
	}
	return []string{"--state-dir=" + i.StateDir}
}

func (i InstallFlags) timeout() string { return "--timeout=" + i.healthTimeout().String() }

func (i InstallFlags) healthTimeout() time.Duration { return cmp.Or(i.Timeout, 4*time.Minute) }

// ChangeTimeout returns how long a change may take before systemd stops it. The time includes
// copying files, checking plugins, waiting for a healthy kubelet, and a test pull. It also
// includes a rollback, which takes at most 10 minutes.
func (i InstallFlags) ChangeTimeout() time.Duration {
	return 5*time.Minute + 2*i.healthTimeout() + 10*time.Minute
}

// waitTimeout returns how long the pod waits for a change. The change may first have to
// wait for another pod's change.
func (i InstallFlags) waitTimeout() time.Duration { return 2*i.ChangeTimeout() + time.Minute }

// statusTimeout limits how long "regcred status" may take on the node.
const statusTimeout = time.Minute

// statusWaitTimeout is how long the pod waits for "regcred status".
const statusWaitTimeout = 2 * statusTimeout

func (o *Options) interval() time.Duration { return cmp.Or(o.Interval, time.Minute) }
