// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import "path/filepath"

// RootDir returns the kubelet's --root-dir. Its config.json is the first Docker
// configuration file that the kubelet looks for, at the first pull.
func (k *Kubelet) RootDir() string { return filepath.Join(k.dir, "root") }
