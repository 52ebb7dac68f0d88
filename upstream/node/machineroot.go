// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// createRootFS creates the root filesystem. It is in memory, including changes to /usr.
func (m *Machine) createRootFS(t testing.TB) {
	t.Helper()
	disk := filepath.Join(m.dir, "disk")
	makeDirs(t, disk, "")
	runMount(t, "-t", "tmpfs", "-o", "mode=755", "tmpfs", disk)
	makeDirs(t, disk, "root", "usr", "work")
	makeDirs(t, m.HostPath("/"), "dev", "etc", "opt", "proc", "root", "run", "sys", "tmp", "usr", "var/lib", "var/tmp", "var/log/journal")
	runMount(t, "-t", "overlay", "-o", fmt.Sprintf("lowerdir=/usr,upperdir=%[1]s/usr,workdir=%[1]s/work", disk), "overlay", m.HostPath("/usr"))
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if _, err := os.Stat("/usr/" + name); err == nil {
			m.symlink(t, "/"+name, "usr/"+name)
		}
	}
	m.symlink(t, "/var/run", "../run")
	files := m.systemFiles(t)
	maps.Copy(files, m.nodeFiles(t))
	maps.Copy(files, m.options.Files)
	for path, content := range files {
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			m.symlink(t, path, target)
		} else {
			m.WriteFile(t, path, content, 0o644)
		}
	}
	m.CopyProgram(t, programPath("kubelet"), "/usr/bin/kubelet")
	for path, program := range m.options.Programs {
		m.CopyProgram(t, program, path)
	}
}

// systemFiles returns the files that systemd needs. They mask all installed units that
// would start automatically, except the journal's.
func (m *Machine) systemFiles(t testing.TB) map[string]string {
	t.Helper()
	id := make([]byte, 16)
	rand.Read(id)
	files := map[string]string{
		"/etc/passwd":                            "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
		"/etc/group":                             "root:x:0:\nadm:x:4:\ntty:x:5:\nsystemd-journal:x:101:\nnogroup:x:65534:\n",
		"/etc/nsswitch.conf":                     "passwd: files\ngroup: files\nhosts: files\n",
		"/etc/hosts":                             "127.0.0.1 localhost\n" + m.Address() + " " + m.Name() + "\n",
		"/etc/hostname":                          m.Name() + "\n",
		"/etc/machine-id":                        hex.EncodeToString(id) + "\n",
		"/etc/os-release":                        "-> ../usr/lib/os-release",
		"/etc/systemd/system/default.target":     "-> /usr/lib/systemd/system/multi-user.target",
		"/etc/systemd/system.conf.d/node.conf":   "[Manager]\nDefaultTimeoutStopSec=10s\n",
		"/etc/systemd/journald.conf.d/node.conf": "[Journal]\nStorage=persistent\nReadKMsg=no\nAudit=no\nRateLimitIntervalSec=0\n",
	}
	for _, pattern := range []string{"system/*.target.wants/*", "system-generators/*"} {
		found, err := filepath.Glob("/usr/lib/systemd/" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			kind, _, _ := strings.Cut(strings.TrimPrefix(path, "/usr/lib/systemd/"), "/")
			if name := filepath.Base(path); !strings.HasPrefix(name, "systemd-journal") || name == "systemd-journald-audit.socket" {
				files["/etc/systemd/"+kind+"/"+name] = "-> /dev/null"
			}
		}
	}
	return files
}

// HostPath returns the host path of a path in the machine, without resolving symlinks. It
// does not show filesystems that the machine mounts itself, such as /run.
func (m *Machine) HostPath(path string) string { return filepath.Join(m.dir, "disk", "root", path) }

// HostRoot returns the host path of the machine's root as its processes see it. It is valid
// until the machine is shut down.
func (m *Machine) HostRoot() string { return fmt.Sprintf("/proc/%d/root", m.pid) }

// WriteFile writes a file in the machine and creates its parent directories.
func (m *Machine) WriteFile(t testing.TB, path, content string, mode os.FileMode) {
	t.Helper()
	name := writeFile(t, content, m.HostPath(path))
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

// CopyProgram copies a program into the machine. It replaces the file atomically, so a running
// process keeps its old executable.
func (m *Machine) CopyProgram(t testing.TB, program, path string) {
	t.Helper()
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	m.WriteFile(t, path+".new", string(content), 0o755)
	if err := os.Rename(m.HostPath(path+".new"), m.HostPath(path)); err != nil {
		t.Fatal(err)
	}
}

func (m *Machine) symlink(t testing.TB, path, target string) {
	t.Helper()
	makeDirs(t, m.HostPath(filepath.Dir(path)), "")
	if err := os.Symlink(target, m.HostPath(path)); err != nil {
		t.Fatal(err)
	}
}

func makeDirs(t testing.TB, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func runMount(t testing.TB, args ...string) {
	t.Helper()
	if said, err := exec.Command("mount", args...).CombinedOutput(); err != nil {
		t.Fatalf("mount %q: %v: %s", args, err, said)
	}
}
