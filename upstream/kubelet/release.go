// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"runtime/debug"
	"strings"
)

// Version is the kubelet release that go.mod pins.
const Version = "v1.36.3"

// CheckRelease returns an error if a program was built with other library versions than the kubelet
// release. The versions matter because the decoding libraries affect behavior. regcred requires
// newer versions, so go.mod replaces them with the release's versions.
func CheckRelease(info *debug.BuildInfo) error {
	release, err := requiredModules()
	if err != nil {
		return fmt.Errorf("the libraries of Kubernetes %s: %w", Version, err)
	}
	known := false
	for _, m := range append(info.Deps, &info.Main) {
		if m.Replace != nil {
			m = m.Replace
		}
		want, ok := release[m.Path]
		if ok && m.Version != want {
			return fmt.Errorf("built with %s %s, where Kubernetes %s has %s: replace it in go.mod", m.Path, m.Version, Version, want)
		}
		known = known || ok
	}
	if !known {
		return errors.New("built without any library of Kubernetes")
	}
	return nil
}

// requiredModules returns the module versions that the release requires, including its own.
func requiredModules() (map[string]string, error) {
	path, err := exec.Command("go", "list", "-m", "-f", "{{.GoMod}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return nil, err
	}
	data, err := exec.Command("go", "mod", "edit", "-json", strings.TrimSpace(string(path))).Output()
	if err != nil {
		return nil, err
	}
	var mod struct{ Require []debug.Module }
	if err := json.Unmarshal(data, &mod); err != nil {
		return nil, err
	}
	versions := map[string]string{"k8s.io/kubernetes": Version}
	for _, m := range mod.Require {
		if m.Version == "v0.0.0" { // staging modules are released together with Kubernetes
			m.Version = strings.Replace(Version, "v1.", "v0.", 1)
		}
		versions[m.Path] = m.Version
	}
	return versions, nil
}
