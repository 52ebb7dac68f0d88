// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import "os/exec"

func killGroupOnTimeout(*exec.Cmd) {}
