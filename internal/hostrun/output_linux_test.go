// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package hostrun

import (
	"os/exec"
	"strings"
	"testing"
)

// TestOutput: what processes write one after another is there once, in order, and no
// more than there is room for.
func TestOutput(t *testing.T) {
	o, err := newOutput(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	var got strings.Builder
	write := func(script string) error {
		t.Helper()
		cmd := exec.Command("sh", "-c", script)
		cmd.Stdout = o.file
		err := cmd.Run()
		if err := o.copyTo(&got); err != nil {
			t.Fatal(err)
		}
		return err
	}
	for _, script := range []string{"echo one; (echo two)", "printf three", "true"} {
		if err := write(script); err != nil {
			t.Fatal(err)
		}
	}
	if got.String() != "one\ntwo\nthree" || o.full() {
		t.Errorf("got %q", &got)
	}
	if err := write("head -c 3000000 /dev/zero"); err == nil || got.Len() != 1<<20 || !o.full() {
		t.Errorf("got %d bytes, %v", got.Len(), err)
	}
}
