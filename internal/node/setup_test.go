// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package node

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/internal/must"
)

// twoProviders returns a configuration with two providers.
func twoProviders() DesiredConfig {
	return DesiredConfig{
		Config: "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: ecr\n  matchImages: [\"*.dkr.ecr.*.amazonaws.com\"]\n" +
			"  defaultCacheDuration: 10m0s\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n",
		ConfigPath: "/var/lib/regcred/current/config.yaml",
		BinDir:     "/var/lib/regcred/bin",
		Providers: []DesiredProvider{
			{Name: "ecr", MatchImages: []string{"*.dkr.ecr.*.amazonaws.com", "public.ecr.aws"}, CacheDuration: "10m0s", Env: map[string]string{"B": `say "x"`, "A": "1"}},
			{Name: "token", MatchImages: []string{"registry.example.com"}, Args: []string{"--v"}, Tokens: true},
		},
	}
}

// TestInstructions compares the manual instructions for each kind of node that regcred does not
// change with golden files.
func TestInstructions(t *testing.T) {
	seen := map[Kind]bool{}
	for file, archive := range loadNodeTrees(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		if strings.HasPrefix(name, "bad-") && name != "bad-shell" {
			continue
		}
		s := must.Get(Node{Root: createNode(t, archive), Foreign: true}.NewReader().Setup(t.Context()))(t)
		if s.Refusal == nil {
			continue
		}
		seen[s.Kind] = true
		t.Run(name, func(t *testing.T) {
			text := must.Get(s.ManualInstructions(twoProviders()))(t)
			got := s.Refusal.Why + "\n---\n" + text
			checkInstructionsSyntax(t, s.Kind, text)
			golden := filepath.Join("testdata/manual", name+".txt")
			if *update {
				must.Do(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want := must.Get(os.ReadFile(golden))(t)
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
	for _, k := range kindTable() {
		if k.refusalReason != "" && !seen[k.kind] {
			t.Errorf("no tree of %s", k.kind)
		}
	}
}

// checkInstructionsSyntax fails the test if the instructions for a kind of node have invalid syntax.
func checkInstructionsSyntax(t *testing.T, kind Kind, text string) {
	t.Helper()
	switch kind {
	case GKE, AKS, KOps, OpenShift, Talos:
		for doc := range strings.SplitSeq(text, "\n---\n") {
			var m map[string]any
			if err := yaml.UnmarshalStrict([]byte(doc), &m); err != nil || len(m) == 0 {
				t.Errorf("%v: %s", err, doc)
			}
		}
	case Bottlerocket:
		var m map[string]any
		if err := toml.Unmarshal([]byte(text), &m); err != nil || len(m) != 1 {
			t.Errorf("%v: %v", err, m)
		}
	}
}

// TestCommandWith verifies that Command.With adds each argument as one word and does not change
// other words.
func TestCommandWith(t *testing.T) {
	args := []string{"--x=/a b", `--y=%n $HOME ${A} "q" 'p' \n`, "", ";", "--z=ä\n", "$A", "--plain=/x"}
	for _, text := range []string{`/usr/bin/kubelet $A "${B}" %n \x41`, "-/usr/bin/kubelet", ":/usr/bin/kubelet $A"} {
		s := &systemdUnit{name: "kubelet.service"}
		vars := map[string]envVariable{"A": {value: "1 2"}, "B": {value: "3"}, "HOME": {value: "/root"}}
		before := wordTexts(commandWords(s, unitSetting{value: text}, vars))
		after := wordTexts(commandWords(s, unitSetting{value: Command{Text: text}.With(args...)}, vars))
		if diff := cmp.Diff(slices.Concat(before, args), after); diff != "" {
			t.Errorf("%s: -want +got\n%s", text, diff)
		}
	}
}

// FuzzCommandWith verifies that systemd's word splitting returns each argument that
// Command.With has quoted.
func FuzzCommandWith(f *testing.F) {
	f.Add("--x=%h$HOME \\ \"'", true)
	f.Add("$$", false)
	f.Fuzz(func(t *testing.T, arg string, literal bool) {
		if strings.ContainsRune(arg, 0) {
			return // arguments cannot contain NUL
		}
		text := map[bool]string{true: ":/k", false: "/k"}[literal]
		got := wordTexts(commandWords(&systemdUnit{name: "k.service"}, unitSetting{value: Command{Text: text}.With(arg)}, nil))
		if diff := cmp.Diff([]string{"/k", arg}, got); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}

// FuzzEnvironmentFile verifies that parsing any environment file ends, and that the names and
// line numbers are valid.
func FuzzEnvironmentFile(f *testing.F) {
	f.Add("A=\"x\\\ny\" 'z\nB=\\\n")
	f.Fuzz(func(t *testing.T, text string) {
		for name, v := range parseEnvironmentFile(text, "") {
			if !isVariableName(name) || v.line < 1 || v.line > strings.Count(text, "\n")+strings.Count(text, "\r")+1 {
				t.Errorf("%q in line %d", name, v.line)
			}
		}
	})
}

// TestEnvironmentFile verifies that environment files are parsed as in systemd.exec(5) and
// systemd's parser.
func TestEnvironmentFile(t *testing.T) {
	for text, want := range map[string]string{
		`A=b`:              "b",
		`  A = b c  `:      "b c",
		`A="b c" `:         "b c",
		`A='b\n'`:          `b\n`,
		`A="b\n\"\$\\"`:    `b\n"$\`,
		`A=b\ c\  `:        "b c ",
		`A=--x="y z" w`:    `--x="y z" w`,
		"A=b\\\nc":         "bc",
		"A='b\nc'":         "b\nc",
		`A="b"'c'd`:        "bcd",
		"A=b\nA=c":         "c",
		"#A=b":             "",
		"; A=b":            "",
		"A=b # no comment": "b # no comment",
		"export A=b":       "",
		"A=b\r\nB=c\r\n":   "b",
		"B='\nA=b":         "",
	} {
		if got := parseEnvironmentFile(text, "")["A"].value; got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestSetupRunning verifies that Setup returns the flags of the running kubelet, even if the
// node's files have other flags.
func TestSetupRunning(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may look at another root directory of a process")
	}
	root := createNode(t, txtar.Parse([]byte("-- /etc/systemd/system/kubelet.service --\n[Service]\nExecStart=/usr/bin/kubelet --image-credential-provider-config=/new --image-credential-provider-bin-dir=/b\n")))
	must.Do(t, os.MkdirAll(filepath.Join(root, "proc"), 0o755))
	flags := []string{"--image-credential-provider-config", "/old", "--image-credential-provider-bin-dir=/b"}
	cmd := startKubelet(t, "chroot "+root, nil, flags...)
	startKubelet(t, "", nil) // another kubelet, which has a different root directory
	must.Do(t, os.Symlink(fmt.Sprintf("/proc/%d", cmd.Process.Pid), filepath.Join(root, "proc", fmt.Sprint(cmd.Process.Pid))))
	s := must.Get(Node{Root: root, Foreign: true}.NewReader().Setup(t.Context()))(t)
	want := &RunningProcess{PID: cmd.Process.Pid, Flags: &RunningFlags{"/old", "/b"}}
	if s.Running == nil || s.Running.Start == 0 {
		t.Fatalf("got %+v", s.Running)
	}
	want.Start = s.Running.Start
	if diff := cmp.Diff(want, s.Running); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestSetupRunningByUnit verifies that a kubelet process with another name is found through its
// unit, and that child processes of the kubelet are ignored.
func TestSetupRunningByUnit(t *testing.T) {
	const text = "-- /etc/systemd/system/kubelet.service --\n[Service]\nExecStart=/opt/start-kubelet\n" +
		"-- /proc/20/comm --\nplugin\n-- /proc/20/cgroup --\n0::/system.slice/kubelet.service\n-- /proc/20/stat --\n20 (plugin) S 30 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 77 0\n" +
		"-- /proc/30/comm --\nkubelet-1.36\n-- /proc/30/cgroup --\n1:name=systemd:/system.slice/kubelet.service\n0::/\n-- /proc/30/stat --\n30 (a ) b) S 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 55 0\n"
	archive := txtar.Parse([]byte(text))
	root := createNode(t, archive)
	for pid, flags := range map[string]string{"20": "plugin", "30": "kubelet\x00--image-credential-provider-config=/c\x00--image-credential-provider-bin-dir=/b\x00"} {
		dir := filepath.Join(root, "proc", pid)
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "cmdline"), []byte(flags), 0o600),
			os.WriteFile(filepath.Join(dir, "status"), []byte("Name:\tx\nUid:\t0\t0\t0\t0\n"), 0o600), os.Symlink(root, filepath.Join(dir, "root")), os.Symlink(root, filepath.Join(dir, "exe"))); err != nil {
			t.Fatal(err)
		}
	}
	s := must.Get(Node{Root: root}.NewReader().Setup(t.Context()))(t)
	if diff := cmp.Diff(&RunningProcess{PID: 30, Start: 55, Flags: &RunningFlags{"/c", "/b"}}, s.Running); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestReadOnlyMounts verifies that Setup reports read-only and noexec file systems.
func TestReadOnlyMounts(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		self := must.Get(os.Executable())(t)
		cmd := exec.Command(self, "-test.run=^TestReadOnlyMounts$", "-test.v")
		cmd.Env = append(os.Environ(), inNamespace+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		if os.Geteuid() != 0 {
			t.Skip("only root may mount")
		}
		if err != nil || !bytes.Contains(out, []byte("--- PASS: TestReadOnlyMounts")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	root := createNode(t, txtar.Parse([]byte("-- /etc/systemd/system/kubelet.service --\n[Service]\nExecStart=/usr/bin/kubelet --image-credential-provider-config=/ro/c.yaml --image-credential-provider-bin-dir=/noexec/new/bin\n-- /ro/x --\n-- /noexec/x --\n")))
	must.Do(t, syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	mountTmpfs(t, filepath.Join(root, "ro"), syscall.MS_RDONLY)
	mountTmpfs(t, filepath.Join(root, "noexec"), syscall.MS_NOEXEC)
	got := fixedReasons(t, root)
	if diff := cmp.Diff([]string{"/ro: read-only file system", "/noexec is mounted noexec", "drop-in", ""}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	must.Do(t, os.MkdirAll(filepath.Join(root, "/etc/systemd/system/kubelet.service.d"), 0o755))
	mountTmpfs(t, filepath.Join(root, "etc/systemd/system/kubelet.service.d"), syscall.MS_RDONLY)
	got = fixedReasons(t, root)
	if diff := cmp.Diff([]string{"by hand", "/etc/systemd/system/kubelet.service.d: read-only file system"}, got[2:]); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func mountTmpfs(t *testing.T, dir string, flags uintptr) {
	t.Helper()
	must.Do(t, syscall.Mount("x", dir, "tmpfs", flags, ""))
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
}

// fixedReasons returns why the configuration and the plugin directory cannot be changed, the
// resulting ConfigMethod, and why a drop-in cannot be used.
func fixedReasons(t *testing.T, root string) []string {
	t.Helper()
	s := must.Get(Node{Root: root, Foreign: true}.NewReader().Setup(t.Context()))(t)
	return []string{s.Config.Fixed, s.BinDir.Fixed, string(s.Way), s.Unit.Problem}
}

const inNamespace = "REGCRED_TEST_MOUNTS"

// TestSetupUnread verifies that Setup reports files that this user cannot read.
func TestSetupUnread(t *testing.T) {
	const unit = "-- /etc/systemd/system/kubelet.service --\n[Service]\nEnvironmentFile=-/env\nExecStart=/usr/bin/kubelet $A\n-- closed /env --\nA=--v=1\n"
	root := createNode(t, txtar.Parse([]byte(unit)))
	self := must.Get(os.Executable())(t)
	if os.Getenv(unprivilegedEnv) == "" && os.Geteuid() == 0 {
		name := filepath.Join(sharedDir(t), "survey")
		must.Do(t, copyFile(self, name))
		cmd := exec.Command(name, "-test.run=^TestSetupUnread$", "-test.v")
		cmd.Env, cmd.Dir = []string{unprivilegedEnv + "=1", "TMPDIR=" + sharedTemp(t)}, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, NoSetGroups: true}}
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestSetupUnread")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	s := must.Get(Node{Root: root, Foreign: true}.NewReader().Setup(t.Context()))(t)
	if diff := cmp.Diff([]string{filepath.Join(root, "env")}, s.Unread); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

const unprivilegedEnv = "REGCRED_TEST_SURVEY"

// sharedTemp creates a directory in which every user can create files.
func sharedTemp(t *testing.T) string {
	t.Helper()
	dir := sharedDir(t)
	must.Do(t, os.Chmod(dir, 0o777))
	return dir
}

// TestVersionTime verifies that kubeletVersion kills a program that hangs.
func TestVersionTime(t *testing.T) {
	root := createNode(t, txtar.Parse([]byte("-- exec /usr/bin/kubelet --\n#!/bin/sh\nexec sleep 1000\n")))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	v := Node{Root: root, Foreign: true}.kubeletVersion(ctx, "/usr/bin/kubelet")
	if want := "/usr/bin/kubelet --version: context deadline exceeded"; v.Why != want || v.Kubelet != "" {
		t.Errorf("got %+v", v)
	}
}

// TestVersionChild verifies that kubeletVersion also kills the program's child processes.
func TestVersionChild(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	root := createNode(t, txtar.Parse([]byte("-- exec /usr/bin/kubelet --\n#!/bin/sh\nsh -c 'echo up; exec sleep 1000' >"+fifo+"\n")))
	must.Do(t, syscall.Mkfifo(fifo, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan Version, 1)
	go func() { done <- Node{Root: root, Foreign: true}.kubeletVersion(ctx, "/usr/bin/kubelet") }()
	child := must.Get(os.OpenFile(fifo, os.O_RDONLY, 0))(t)
	defer child.Close()
	up := make([]byte, 3)
	must.Get(io.ReadFull(child, up))(t)
	cancel()
	if v := <-done; v.Kubelet != "" || v.Why == "" {
		t.Errorf("got %+v", v)
	}
	ended := make(chan error, 1)
	go func() { _, err := child.Read(up); ended <- err }()
	select {
	case err := <-ended:
		if err != io.EOF {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("its child lives")
	}
}

// TestVersionLeftRunning verifies that kubeletVersion returns the same result if a child
// process keeps the program's output open.
func TestVersionLeftRunning(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	must.Do(t, syscall.Mkfifo(fifo, 0o600))
	held := must.Get(os.OpenFile(fifo, os.O_RDWR, 0))(t)
	defer held.Close() // closing the pipe ends the child process
	for code, want := range map[string]Version{
		"0": {Kubelet: "1.33.4", Text: "v1.33.4"},
		"3": {Why: "/usr/bin/kubelet --version: exit status 3"},
	} {
		root := createNode(t, txtar.Parse([]byte("-- exec /usr/bin/kubelet --\n#!/bin/sh\necho Kubernetes v1.33.4\ncat "+fifo+" &\nexit "+code+"\n")))
		if got := (Node{Root: root, Foreign: true}).kubeletVersion(t.Context(), "/usr/bin/kubelet"); got != want {
			t.Errorf("exit %s: got %+v, want %+v", code, got, want)
		}
	}
}

// TestVersionEndless verifies that limitedBuffer keeps only the start of a long output.
func TestVersionEndless(t *testing.T) {
	out := &limitedBuffer{left: 4}
	n, err := io.Copy(out, io.LimitReader(rand.Reader, 1<<20))
	if err != nil || n != 1<<20 || len(out.kept) != 4 {
		t.Errorf("%v; %d bytes read, %d kept", err, n, len(out.kept))
	}
}

// TestParseVersion verifies that parseVersion finds the version in the output of kubelet and
// k3s programs.
func TestParseVersion(t *testing.T) {
	for text, want := range map[string]Version{
		"Kubernetes v1.33.4\n": {Kubelet: "1.33.4", Text: "v1.33.4"},
		"k3s version v1.33.4+k3s1 (148243c4)\ngo version go1.24.5\n": {Kubelet: "1.33.4", Text: "v1.33.4+k3s1"},
		"Kubernetes v1.36.0-rc.1":                                    {Kubelet: "1.36.0", Text: "v1.36.0-rc.1"},
		"":                                                           {Why: "/k --version: printed no version"},
		"Kubernetes v0.0.0-master+$Format:%H$":                       {Why: "/k --version: printed no version"},
		"v1.2":                                                       {Why: "/k --version: printed no version"},
		"\nKubernetes v1.33.4":                                       {Why: "/k --version: printed no version"},
	} {
		if diff := cmp.Diff(want, parseVersion("/k", text)); diff != "" {
			t.Errorf("%q: -want +got\n%s", text, diff)
		}
	}
}

// TestKubeletBelowOtherRoot verifies that kubeletVersion runs a program below another root
// directory only if Foreign is set.
func TestKubeletBelowOtherRoot(t *testing.T) {
	root := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(root, "usr/bin"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(root, "usr/bin/kubelet"), []byte("#!/bin/sh\necho Kubernetes v1.36.3\n"), 0o755))
	for _, foreign := range []bool{false, true} {
		v := Node{Root: root, Foreign: foreign}.kubeletVersion(t.Context(), "/usr/bin/kubelet")
		if (v.Kubelet == "1.36.3") != foreign || (v.Why == "") != foreign {
			t.Errorf("foreign %v: %+v", foreign, v)
		}
	}
}
