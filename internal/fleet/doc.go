// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package fleet reads the state of a cluster's nodes from the API server, and uninstalls
// regcred from all of them.
//
// A node's state is the last [agent.Status] in the log of its pod. So fleet only needs
// the permission to list pods and read logs. DaemonSets and nodes add details.
//
//	client, err := fleet.New(rest)
//	seen, err := client.Look(ctx, fleet.Query{})
//	for _, n := range seen.Nodes {
//		fmt.Println(n.Name, n.State, n.Reason)
//	}
//
// It changes nothing except, in [Client.Remove], the state in a ConfigMap.
package fleet
