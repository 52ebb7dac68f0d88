// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Nodeadm does to a machine of package node what EKS's program of that name
// does to a node of Amazon Linux 2023 at each boot: whatever stood there, it
// writes the kubelet's environment and the configuration of its credential
// providers, and restarts the kubelet. Behind its own flags it puts those of the
// NodeConfigs of its --config-source (awslabs/amazon-eks-ami:
// nodeadm/internal/kubelet).
//
//	nodeadm init --config-source file:///etc/eks/nodeadm.d
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// nodeConfig is what is read of a NodeConfig.
type nodeConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Kubelet struct {
			Flags []string `json:"flags"`
		} `json:"kubelet"`
	} `json:"spec"`
}

// template is a directory with what a node is given: flags, and config.json.
const template = "/usr/share/nodeadm"

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "nodeadm:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags, err := os.ReadFile(template + "/flags")
	if err != nil {
		return err
	}
	line := strings.TrimSpace(string(flags))
	for i, arg := range args {
		if dir, ok := strings.CutPrefix(arg, "file://"); ok && args[i-1] == "--config-source" {
			more, err := flagsOf(dir)
			if err != nil {
				return err
			}
			line = strings.Join(append([]string{line}, more...), " ")
		}
	}
	providers, err := os.ReadFile(template + "/config.json")
	if err != nil {
		return err
	}
	for path, content := range map[string]string{
		"/etc/eks/kubelet/environment":                   "NODEADM_KUBELET_ARGS=" + line + "\n",
		"/etc/eks/image-credential-provider/config.json": string(providers),
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	if said, err := exec.Command("systemctl", "restart", "kubelet").CombinedOutput(); err != nil {
		return fmt.Errorf("restart the kubelet: %w: %s", err, said)
	}
	return nil
}

// flagsOf are those of the NodeConfigs of a directory, in the order of their
// names.
func flagsOf(dir string) (flags []string, err error) {
	for _, pattern := range []string{"*.yaml", "*.yml", "*.json"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			var c nodeConfig
			if err := yaml.UnmarshalStrict(data, &c); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			if c.APIVersion != "node.eks.aws/v1alpha1" || c.Kind != "NodeConfig" {
				return nil, fmt.Errorf("%s: it is a %s %s", file, c.APIVersion, c.Kind)
			}
			flags = append(flags, c.Spec.Kubelet.Flags...)
		}
	}
	return flags, nil
}
