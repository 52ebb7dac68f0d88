// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package fleet looks at the nodes of a cluster from outside: what the pods of the
// chart (package agent) say of each, and which of them have taken regcred off again.
//
// It knows a node by the last line of its pod's log that is an [agent.Status]. So it
// needs no right to nodes, and none to run anything in a pod: it lists pods and reads
// logs. What else it may see (DaemonSets, nodes) makes the picture fuller.
//
//	client, err := fleet.New(rest)
//	seen, err := client.Look(ctx, fleet.Query{})
//	for _, n := range seen.Nodes {
//		fmt.Println(n.Name, n.State, n.Reason)
//	}
//
// It changes one thing, and only in [Client.Remove]: the state in a ConfigMap.
package fleet
