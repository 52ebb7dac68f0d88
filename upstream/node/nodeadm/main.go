// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Nodeadm imitates EKS's nodeadm on a machine of package node. At each boot of an Amazon
// Linux 2023 node, EKS's nodeadm overwrites the kubelet's environment and credential
// provider configuration and restarts the kubelet. It appends the kubelet flags from the
// NodeConfigs in --config-source (awslabs/amazon-eks-ami: nodeadm/internal/kubelet).
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

// nodeConfig contains the NodeConfig fields that nodeadm reads.
type nodeConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Kubelet struct {
			Flags []string `json:"flags"`
		} `json:"kubelet"`
	} `json:"spec"`
}

// templateDir is the directory with the initial kubelet flags ("flags") and config.json.
const templateDir = "/usr/share/nodeadm"

func main() {
	if err := writeKubeletConfig(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "nodeadm:", err)
		os.Exit(1)
	}
}

func writeKubeletConfig(args []string) error {
	flags, err := os.ReadFile(templateDir + "/flags")
	if err != nil {
		return err
	}
	line := strings.TrimSpace(string(flags))
	for i, arg := range args {
		if dir, ok := strings.CutPrefix(arg, "file://"); ok && args[i-1] == "--config-source" {
			more, err := kubeletFlags(dir)
			if err != nil {
				return err
			}
			line = strings.Join(append([]string{line}, more...), " ")
		}
	}
	providers, err := os.ReadFile(templateDir + "/config.json")
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

// kubeletFlags returns the kubelet flags of the NodeConfigs in a directory, sorted by file
// name within each extension.
func kubeletFlags(dir string) (flags []string, err error) {
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
