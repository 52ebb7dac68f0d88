// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"github.com/regcred/regcred/internal/must"
)

// TestDoctorReadsFilesOnce verifies that one run of "regcred doctor" opens each file of the kubelet's service once.
func TestDoctorReadsFilesOnce(t *testing.T) {
	root := nodeTree(t, "kubeadm-deb")
	watched := []string{
		"usr/lib/systemd/system/kubelet.service",
		"usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf",
		"var/lib/kubelet/kubeadm-flags.env",
		"etc/default/kubelet",
		"var/lib/kubelet/config.yaml",
	}
	opens := countOpens(t, root, watched)
	var out, errOut bytes.Buffer
	a := newApp(nil, &out, &errOut, nil)
	a.root = root
	a.run(t.Context(), []string{"doctor"})
	for i, n := range opens() {
		if n != 1 {
			t.Errorf("%s was opened %d times, want once", watched[i], n)
		}
	}
	if t.Failed() {
		t.Logf("%s%s", out.String(), errOut.String())
	}
}

// countOpens returns a function that returns how often files have been opened for reading.
func countOpens(t *testing.T, root string, names []string) func() []int {
	t.Helper()
	fd := must.Get(syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC))(t)
	t.Cleanup(func() { syscall.Close(fd) })
	index := map[int32]int{}
	for i, name := range names {
		// With both events, two opens are never merged into one event.
		wd := must.Get(syscall.InotifyAddWatch(fd, filepath.Join(root, name), syscall.IN_OPEN|syscall.IN_CLOSE))(t)
		index[int32(wd)] = i
	}
	return func() []int {
		counts, buf := make([]int, len(names)), make([]byte, 64<<10)
		n := must.Get(syscall.Read(fd, buf))(t)
		for at := 0; at < n; {
			event := (*syscall.InotifyEvent)(unsafe.Pointer(&buf[at]))
			if event.Mask&syscall.IN_OPEN != 0 {
				counts[index[event.Wd]]++
			}
			at += syscall.SizeofInotifyEvent + int(event.Len)
		}
		return counts
	}
}
