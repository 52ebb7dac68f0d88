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

// embeddedRegcred is the -kubelet value that selects the kubelet with embedded regcred.
const embeddedRegcred = "inside"

// versionChoice holds the versions of a run's kubelet and API server.
type versionChoice struct {
	kubelet, control string // releases such as "v1.33.13"
	hasRegcred       bool   // the kubelet has regcred embedded
}

// selectedVersions is the choice made by -kubelet.
var selectedVersions = versionChoice{kubelet: kubelet.Version, control: kubelet.Version}

// availableReleases returns one available patch release of each minor release, in ascending order.
// A kubelet runs with the API server of the next minor release, as during a cluster upgrade.
func availableReleases() []string {
	return []string{"v1.32.13", "v1.33.13", "v1.34.4", "v1.35.4", "v1.36.3", "v1.37.2"}
}

// parseChoice parses a -kubelet value. The default release and newer releases get an API server of
// the same release, because packages other than cluster test that release.
func parseChoice(name string) (versionChoice, error) {
	if name == embeddedRegcred {
		return versionChoice{kubelet: kubelet.Version, control: kubelet.Version, hasRegcred: true}, nil
	}
	c := versionChoice{kubelet: "v" + strings.TrimPrefix(name, "v")}
	minor, err := minorVersion(c.kubelet)
	if err != nil {
		return versionChoice{}, fmt.Errorf("-kubelet %s: %w, or %s", name, err, embeddedRegcred)
	}
	if own, _ := minorVersion(kubelet.Version); minor >= own {
		c.control = c.kubelet
		return c, nil
	}
	i := slices.IndexFunc(availableReleases(), func(v string) bool { m, _ := minorVersion(v); return m == minor+1 })
	if i < 0 {
		return versionChoice{}, fmt.Errorf("-kubelet %s: its API server has to be one minor release ahead, and none of 1.%d is known: there are %s",
			name, minor+1, strings.Join(availableReleases(), ", "))
	}
	c.control = availableReleases()[i]
	return c, nil
}

// minorVersion returns the minor version, for example 33 for v1.33.13.
func minorVersion(version string) (int, error) {
	parts := strings.Split(version, ".")
	if len(parts) == 3 && parts[0] == "v1" {
		if minor, err := strconv.Atoi(parts[1]); err == nil {
			return minor, nil
		}
	}
	return 0, fmt.Errorf("not a release of Kubernetes: write it as 1.33.13")
}

// RequireDefaultKubelet skips a test that applies only to the default kubelet.
func RequireDefaultKubelet(t testing.TB, why string) {
	t.Helper()
	if selectedVersions.kubelet != kubelet.Version {
		t.Skipf("with kubelet %s alone: %s", kubelet.Version, why)
	}
}

// KubeletVersion returns the release of the run's kubelets, for example "v1.36.3".
func KubeletVersion() string { return selectedVersions.kubelet }

// ServerVersion returns the release of the run's control planes, for example "v1.36.3". It
// depends on -kubelet.
func ServerVersion() string { return selectedVersions.control }
