// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package plugin

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestLeftovers: of many plugins that leave a child behind, the last keep their
// pipes; descriptors and goroutines are bounded.
func TestLeftovers(t *testing.T) {
	const more = 8
	f := newFIFOs(t)
	c := testCommand(t, "fork-writer", append(f.env, testStdout+"="+goodResponse)...)
	before := openFiles(t)
	var runs sync.WaitGroup
	for range maxLeftovers + more {
		runs.Go(func() {
			if x, err := c.Run(t.Context(), testRequest()); err != nil || !x.Lingering {
				t.Errorf("lingering %v, error %v", x.Lingering, err)
			}
		})
	}
	for range maxLeftovers + more {
		f.pids(t, 1)
	}
	runs.Wait()
	for end := time.Now().Add(patience); reading() > 2*maxLeftovers; {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines read pipes, want %d", reading(), 2*maxLeftovers)
		}
		runtime.Gosched()
	}
	if n := openFiles(t) - before; n > 2*maxLeftovers+1 { // and the report
		t.Errorf("%d files are open, want two for each of %d", n, maxLeftovers)
	}
	f.goOn(t)
	got := map[string]int{}
	for line, ok := f.next(t); ok; line, ok = f.next(t) {
		got[line]++
	}
	if diff := cmp.Diff(map[string]int{"wrote everything": maxLeftovers, "cut off": more}, got); diff != "" {
		t.Errorf("what the children say, -want +got:\n%s", diff)
	}
}

// TestLeftoversThatEnded: what has ended by itself takes nobody's place.
func TestLeftoversThatEnded(t *testing.T) {
	var l leftovers
	add := func(ended bool) (w *os.File) {
		var p pipes
		p.settled = make(chan struct{})
		if ended {
			close(p.settled)
		}
		for _, s := range []**stream{&p.stdout, &p.stderr} {
			var r *os.File
			var err error
			if r, w, err = os.Pipe(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { w.Close() })
			*s = newStream(r, nil)
		}
		l.add(&p)
		return w
	}
	alive := add(false)
	for range maxLeftovers {
		add(true)
	}
	if _, err := alive.WriteString("x"); err != nil {
		t.Error(err)
	}
	for range maxLeftovers {
		add(false)
	}
	if _, err := alive.WriteString("x"); err == nil {
		t.Errorf("%d live, and the pipes of the oldest are not closed", maxLeftovers+1)
	}
}

// TestLeftoversGiveWay: with few descriptors, plugins run whatever others have left.
func TestLeftoversGiveWay(t *testing.T) {
	f := newFIFOs(t)
	c := testCommand(t, "fork-writer", append(f.env, testStdout+"="+goodResponse)...)
	limitFiles(t, 14) // of which one run takes some ten, and what it leaves two
	for i := range 6 {
		if x, err := c.Run(t.Context(), testRequest()); err != nil || !x.Lingering {
			t.Fatalf("run %d: lingering %v, error %v", i, x.Lingering, err)
		}
		f.pids(t, 1)
	}
	f.goOn(t)
}

// limitFiles leaves this process so many free descriptors.
func limitFiles(t *testing.T, free int) {
	var former syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &former); err != nil {
		t.Fatal(err)
	}
	few := former
	few.Cur = min(few.Cur, 256)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Skip("no limit on descriptors: ", err)
	}
	var taken []*os.File
	t.Cleanup(func() {
		for _, f := range taken {
			f.Close()
		}
		syscall.Setrlimit(syscall.RLIMIT_NOFILE, &former)
	})
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		taken = append(taken, f)
	}
	for _, f := range taken[len(taken)-free:] {
		f.Close()
	}
	taken = taken[:len(taken)-free]
}

// reading is how many goroutines read a pipe of a plugin.
func reading() int {
	buf := make([]byte, 4<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "plugin.(*stream).read(")
}

func openFiles(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc: ", err)
	}
	return len(entries)
}
