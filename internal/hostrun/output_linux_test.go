// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package hostrun

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestOutput verifies that copyTo copies the output of consecutive processes in order and without
// duplicates, up to the limit.
func TestOutput(t *testing.T) {
	o := must.Get(newOutput(1 << 20))(t)
	defer o.close()
	var got strings.Builder
	write := func(script string) error {
		t.Helper()
		cmd := exec.Command("sh", "-c", script)
		cmd.Stdout = o.file
		err := cmd.Run()
		must.Do(t, o.copyTo(&got))
		return err
	}
	for _, script := range []string{"echo one; (echo two)", "printf three", "true"} {
		must.Do(t, write(script))
	}
	if got.String() != "one\ntwo\nthree" || o.isFull() {
		t.Errorf("got %q", &got)
	}
	if err := write("head -c 3000000 /dev/zero"); err == nil || got.Len() != 1<<20 || !o.isFull() {
		t.Errorf("got %d bytes, %v", got.Len(), err)
	}
}

// TestKeptOutput verifies that the file contains all output, even output that was written after
// this process closed the file. It also verifies that the target of an existing symlink is not
// changed.
func TestKeptOutput(t *testing.T) {
	dir := t.TempDir()
	name, other := filepath.Join(dir, "answer"), filepath.Join(dir, "other")
	must.Do(t, errors.Join(os.WriteFile(other, []byte("theirs"), 0o600), os.Symlink(other, name)))
	o := must.Get(newFileOutput(name, 1<<20))(t)
	cmd := exec.Command("sh", "-c", "printf one; read line; printf two; head -c 2000000 /dev/zero")
	cmd.Stdout = o.file
	stdin := must.Get(cmd.StdinPipe())(t)
	must.Do(t, cmd.Start())
	o.close()
	stdin.Close()
	must.Do(t, cmd.Wait())
	data, err := os.ReadFile(name)
	if err != nil || len(data) != 2000006 || !strings.HasPrefix(string(data), "onetwo") {
		t.Errorf("%d bytes, %.10q, %v", len(data), data, err)
	}
	if theirs, err := os.ReadFile(other); err != nil || string(theirs) != "theirs" {
		t.Errorf("the file that a link named has %.20q, %v", theirs, err)
	}
	if o, err = newFileOutput(name, 4); err != nil {
		t.Fatal(err)
	}
	defer o.close()
	var got strings.Builder
	must.Get(o.file.WriteString("123456"))(t)
	if err := o.copyTo(&got); err != nil || got.String() != "1234" || !o.isFull() {
		t.Errorf("got %q, %v", &got, err)
	}
}
