// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
)

// smallDisk mounts a file system of 1 MiB and returns its directory.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a tmpfs needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("regcred-test", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mounting a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmounting %s: %v", dir, err)
		}
	})
	return dir
}

func TestDiskFull(t *testing.T) {
	disk := smallDisk(t)
	dir := filepath.Join(disk, "layout")
	reg, image, _ := startRegistryWith(t, testregistry.Options{Auth: testregistry.AuthBasic}, testregistry.Image{})
	creds := []regcred.Credential{goodCredential, devCredential}
	mustPull(t, &Puller{}, image, creds, dir)
	before := readTree(t, dir)["index.json"]
	must.Get(reg.Push("team/app", "big", testregistry.Image{LayerSize: 2 << 20}))(t)

	err := mustFail(t, &Puller{}, strings.Replace(image, ":v1", ":big", 1), creds, dir)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "free up space") {
		t.Errorf("error %q: want ENOSPC, the directory and what to do", err)
	}
	if len(err.Tries) != 1 || err.Untried != 1 {
		t.Errorf("%d tries, %d not made: another credential does not empty a disk", len(err.Tries), err.Untried)
	}
	if diff := cmp.Diff(before, readTree(t, dir)["index.json"]); diff != "" {
		t.Errorf("index.json changed (-before +after):\n%s", diff)
	}
	checkLayout(t, dir)
}
