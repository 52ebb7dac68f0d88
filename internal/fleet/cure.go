// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"fmt"

	"github.com/regcred/regcred/internal/agent"
)

// byHand is the command that uninstalls regcred on a node.
const byHand = "run sudo regcred uninstall --restart on the node"

// NotRemoved explains in one line why regcred has not been removed from a node of
// [Removal.Missing], and how to fix it.
func (n *Node) NotRemoved() string {
	switch n.State {
	case Away:
		return n.Reason + ": when the node is back, its pod uninstalls regcred if the DaemonSet still exists; otherwise " + byHand
	case NotRunning, NoPod:
		return n.Reason + ": " + byHand
	case State(agent.NotRemoved):
		return fmt.Sprintf("the uninstall failed: %s: fix the cause, or %s", n.Reason, byHand)
	case State(agent.Starting), State(agent.Applying):
		return "its pod is still applying the change (" + string(n.State) + "): wait and run this command again, or " + byHand
	case Silent, Unknown:
		return n.Reason + ": if the state does not change, " + byHand
	}
	return fmt.Sprintf("its pod still reports %s; kubelets propagate the change within about a minute: run this command again, or %s", n.State, byHand)
}
