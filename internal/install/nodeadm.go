// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/inroot"
)

// nodeadmDropIn returns a drop-in for EKS's nodeadm, which appends the drop-in's flags.
func nodeadmDropIn(args []string) string {
	list, _ := json.Marshal(args) // cannot fail for strings
	return "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    flags: " + string(list) + "\n"
}

// nodeadmEnvFile is the file to which nodeadm writes the kubelet's flags at each boot:
// first its own, then the drop-ins' (awslabs/amazon-eks-ami: nodeadm).
const nodeadmEnvFile = "/etc/eks/kubelet/environment"

// removeNodeadmFlags removes regcred's flags from the file that nodeadm wrote at the
// last boot. Otherwise the kubelet would be started with paths that no longer exist. If
// nodeadm itself sets an identical bin dir flag, that flag is kept.
func (in *Installer) removeNodeadmFlags(ctx context.Context, l generation.KubeletLayout) error {
	if l.NodeConfig == "" {
		return nil
	}
	now, err := in.readIfExists(ctx, nodeadmEnvFile)
	if err != nil {
		return err
	}
	next := bytes.Replace(now, []byte(" "+strings.Join(kubeletFlags(l), " ")), nil, 1)
	if bytes.Equal(next, now) {
		return nil
	}
	info, err := in.fs().Lstat(nodeadmEnvFile)
	if err != nil {
		return err
	}
	return in.fs().WriteFile(nodeadmEnvFile, bytes.NewReader(next), inroot.FileAttr{Mode: info.Mode(), Like: info, Label: in.fs().SELinuxLabel(nodeadmEnvFile)})
}
