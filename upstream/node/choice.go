// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/regcred/regcred/upstream/kubelet"
)

// withRegcred is the -kubelet that has regcred in it.
const withRegcred = "inside"

// choice is the kubelet of a run, and the API server that it is run with.
type choice struct {
	kubelet, control string // releases: "v1.33.13"
	inside           bool   // the kubelet has regcred in it
}

// chosen is what -kubelet says.
var chosen = choice{kubelet: kubelet.Version, control: kubelet.Version}

// releases are one of each minor release that can be had, in order. Kubelets are run
// with the next one's API server, as while a cluster is upgraded.
func releases() []string {
	return []string{"v1.32.13", "v1.33.13", "v1.34.4", "v1.35.4", "v1.36.3", "v1.37.2"}
}

// choose is what a value of -kubelet means. The API server of the default, and of
// what is newer, is of the kubelet's own release: packages other than cluster are
// about that one.
func choose(name string) (choice, error) {
	if name == withRegcred {
		return choice{kubelet: kubelet.Version, control: kubelet.Version, inside: true}, nil
	}
	c := choice{kubelet: "v" + strings.TrimPrefix(name, "v")}
	minor, err := minorOf(c.kubelet)
	if err != nil {
		return choice{}, fmt.Errorf("-kubelet %s: %w, or %s", name, err, withRegcred)
	}
	if own, _ := minorOf(kubelet.Version); minor >= own {
		c.control = c.kubelet
		return c, nil
	}
	i := slices.IndexFunc(releases(), func(v string) bool { m, _ := minorOf(v); return m == minor+1 })
	if i < 0 {
		return choice{}, fmt.Errorf("-kubelet %s: its API server has to be one minor release ahead, and none of 1.%d is known: there are %s",
			name, minor+1, strings.Join(releases(), ", "))
	}
	c.control = releases()[i]
	return c, nil
}

// minorOf is the 33 of v1.33.13.
func minorOf(version string) (int, error) {
	parts := strings.Split(version, ".")
	if len(parts) == 3 && parts[0] == "v1" {
		if minor, err := strconv.Atoi(parts[1]); err == nil {
			return minor, nil
		}
	}
	return 0, fmt.Errorf("not a release of Kubernetes: write it as 1.33.13")
}

// Default skips a test that is about the default kubelet alone.
func Default(t testing.TB, why string) {
	t.Helper()
	if chosen.kubelet != kubelet.Version {
		t.Skipf("with kubelet %s alone: %s", kubelet.Version, why)
	}
}

// KubeletVersion is the release of the run's kubelets: "v1.36.3".
func KubeletVersion() string { return chosen.kubelet }

// ServerVersion is the release of the run's control planes: "v1.36.3", or what goes
// with -kubelet.
func ServerVersion() string { return chosen.control }
