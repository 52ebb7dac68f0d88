// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package hostrun runs a program on the node from within a pod: as a transient unit
// of the node's systemd, through its private socket. The program belongs to systemd,
// not to the pod, and continues when the pod ends.
//
//	r := hostrun.Runner{Unit: "regcred-agent.service"}
//	code, err := r.Run(ctx, hostrun.Command{Path: "/opt/bin/regcred", Args: []string{"status"}}, os.Stdout, os.Stderr)
//
// The process must have uid 0 on the node, and the directory of the socket must be
// mounted. It needs no capability, no namespace of the node and no other file. Mounting
// only the socket is not enough, because systemd recreates it when it re-executes itself.
//
// A process that can do this has root access to the node.
package hostrun
