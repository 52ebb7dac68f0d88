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

// withRegcred is the -kubelet value that selects the kubelet with embedded regcred.
const withRegcred = "inside"

// choice holds the versions of a run's kubelet and API server.
type choice struct {
	kubelet, control string // releases such as "v1.33.13"
	inside           bool   // the kubelet has regcred embedded
}

// chosen is the choice made by -kubelet.
var chosen = choice{kubelet: kubelet.Version, control: kubelet.Version}

// releases returns one available patch release of each minor release, in ascending order.
// A kubelet runs with the API server of the next minor release, as during a cluster upgrade.
func releases() []string {
	return []string{"v1.32.13", "v1.33.13", "v1.34.4", "v1.35.4", "v1.36.3", "v1.37.2"}
}

// choose parses a -kubelet value. The default release and newer ones get an API server
// of the same release, because packages other than cluster test that release.
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

// minorOf returns the minor version, for example 33 for v1.33.13.
func minorOf(version string) (int, error) {
	parts := strings.Split(version, ".")
	if len(parts) == 3 && parts[0] == "v1" {
		if minor, err := strconv.Atoi(parts[1]); err == nil {
			return minor, nil
		}
	}
	return 0, fmt.Errorf("not a release of Kubernetes: write it as 1.33.13")
}

// Default skips a test that applies only to the default kubelet.
func Default(t testing.TB, why string) {
	t.Helper()
	if chosen.kubelet != kubelet.Version {
		t.Skipf("with kubelet %s alone: %s", kubelet.Version, why)
	}
}

// KubeletVersion returns the release of the run's kubelets, for example "v1.36.3".
func KubeletVersion() string { return chosen.kubelet }

// ServerVersion returns the release of the run's control planes, for example "v1.36.3". It
// depends on -kubelet.
func ServerVersion() string { return chosen.control }
