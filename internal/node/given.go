// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Variable finds a variable in the environment of the kubelet's next start, and
// where it is set; false if no file sets it.
func (n Node) Variable(ctx context.Context, name string) (Given, bool) {
	v, ok := newReading(ctx, n).find().vars[name]
	return Given{Value: v.value, File: n.host(v.file), Line: v.line}, ok
}

// Given finds a flag in the command of the kubelet's next start: wherever it is
// given, without its value, in the order in which the kubelet sees it.
func (n Node) Given(ctx context.Context, flag string) (list []Given) {
	r := newReading(ctx, n)
	flag = strings.ReplaceAll(strings.TrimLeft(flag, "-"), "_", "-")
	for _, g := range givenIn(r.command(r.find()), flag)[flag] {
		list = append(list, Given{File: n.host(g.File), Line: g.Line, By: g.By})
	}
	return list
}

// Host is where a path of the node is found on this machine.
func (n Node) Host(p string) string { return n.host(p) }

// Here reports whether the node is this machine, so that who starts its services
// can be asked.
func (n Node) Here() bool { return filepath.Clean(n.host("/")) == "/" }

// Began is when a process of this machine started, to a hundredth of a second;
// zero if that cannot be told.
func (n Node) Began(r *Running) time.Time {
	now := time.Now()
	data, err := read(n.host(proc + "/uptime"))
	up, _, _ := strings.Cut(string(data), " ")
	seconds, parseErr := strconv.ParseFloat(up, 64)
	if err != nil || parseErr != nil || seconds > math.MaxInt32 {
		return time.Time{}
	}
	const hertz = 100 // USER_HZ, of every architecture that has nodes
	age := time.Duration(seconds*float64(time.Second)) - time.Duration(r.Start)*(time.Second/hertz)
	return now.Add(-age)
}
