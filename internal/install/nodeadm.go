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

// nodeConfigOf is a drop-in for EKS's nodeadm, which puts flags behind its own.
func nodeConfigOf(args []string) (string, error) {
	list, err := json.Marshal(args)
	if err != nil {
		return "", err
	}
	return "# Made by regcred install; regcred uninstall takes it away.\n" +
		"apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    flags: " + string(list) + "\n", nil
}

// nodeadmEnvironment is where nodeadm writes the kubelet's flags at each boot,
// those of its drop-ins behind its own (awslabs/amazon-eks-ami: nodeadm).
const nodeadmEnvironment = "/etc/eks/kubelet/environment"

// removeNodeadmFlags takes our flags out of what nodeadm wrote at the last boot:
// until the next one, a kubelet would be started with paths that are gone.
// Nodeadm's own flag for the bin dir may be the same as ours, and stays.
func (in *Installer) removeNodeadmFlags(ctx context.Context, l generation.Layout) error {
	if l.NodeConfig == "" {
		return nil
	}
	now, err := in.content(ctx, nodeadmEnvironment)
	if err != nil {
		return err
	}
	next := bytes.Replace(now, []byte(" "+strings.Join(arguments(l), " ")), nil, 1)
	if bytes.Equal(next, now) {
		return nil
	}
	info, err := in.fs().Lstat(nodeadmEnvironment)
	if err != nil {
		return err
	}
	return in.fs().Put(nodeadmEnvironment, bytes.NewReader(next), inroot.Attr{Mode: info.Mode(), Like: info, Label: in.fs().Label(nodeadmEnvironment)})
}
