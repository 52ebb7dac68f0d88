// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package hostrun runs a program on the node from within a pod: as a transient unit
// of the node's systemd, which is asked over its private socket. The program belongs
// to systemd, not to the pod, and goes on when the pod ends.
package hostrun
