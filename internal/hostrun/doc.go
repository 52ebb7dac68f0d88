// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package hostrun runs a program on the node from within a pod: as a transient unit
// of the node's systemd, which is asked over its private socket. The program belongs
// to systemd, not to the pod, and goes on when the pod ends.
//
//	r := hostrun.Runner{Unit: "regcred-agent.service"}
//	code, err := r.Run(ctx, hostrun.Command{Path: "/opt/bin/regcred", Args: []string{"status"}}, os.Stdout, os.Stderr)
//
// For that a process needs to be uid 0 of the node, and nothing else: no capability,
// no namespace of the node, and of its files the directory of the socket alone. It
// must be the directory, since the socket is made anew whenever systemd is.
//
// Whoever may do that is root on the node.
package hostrun
