// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/regcred/regcred/internal/must"
)

// fakeKubeletEnv is an environment variable that makes the test binary simulate a kubelet
// process. Its value is the first action of runFakeKubelet.
const fakeKubeletEnv = "REGCRED_TEST_KUBELET"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("Kubernetes v1.33.4")
		return
	}
	if what, ok := os.LookupEnv(fakeKubeletEnv); ok {
		if err := runFakeKubelet(what); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func runFakeKubelet(what string) error {
	verb, rest, _ := strings.Cut(what, " ")
	switch verb {
	case "chroot":
		if err := errors.Join(syscall.Chroot(rest), os.Chdir("/")); err != nil {
			return err
		}
	case "mount": // mount A over B in a private mount namespace
		over, at, _ := strings.Cut(rest, " ")
		if err := errors.Join(
			syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
			syscall.Mount(over, at, "", syscall.MS_BIND, "")); err != nil {
			return err
		}
	case "find":
		o, err := Node{Root: rest}.NewReader().Find(context.Background(), FindOptions{NeedBinDir: true})
		if err != nil {
			return err
		}
		fmt.Println(o.From, o.UnreadablePaths)
		return nil
	case "become": // execute the same program with other arguments, repeatedly
		n, _ := strconv.Atoi(rest)
		if n == 0 {
			fmt.Println("ready")
		}
		time.Sleep(100 * time.Microsecond)
		next := strconv.Itoa(n + 1)
		return syscall.Exec("/proc/self/exe", []string{"kubelet", "--kubeconfig=/" + next}, []string{fakeKubeletEnv + "=become " + next, "GORACE=atexit_sleep_ms=0"}) // the process is then named "exe"
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin) // wait until the test ends
	return err
}

// startKubelet starts a copy of the test binary as a process named kubelet. See runFakeKubelet for
// what.
func startKubelet(t *testing.T, what string, attr *syscall.SysProcAttr, args ...string) *exec.Cmd {
	t.Helper()
	self := must.Get(os.Executable())(t)
	dir := sharedDir(t)
	name := filepath.Join(dir, "kubelet")
	must.Do(t, copyFile(self, name))
	return startProgram(t, name, what, attr, args...)
}

func startProgram(t *testing.T, name, what string, attr *syscall.SysProcAttr, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = []string{fakeKubeletEnv + "=" + what}, "/", attr
	stdin := must.Get(cmd.StdinPipe())(t)
	stdout := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() { stdin.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the kubelet said %q: %v", line, err)
	}
	return cmd
}

func copyFile(from, to string) error {
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, raw, 0o755)
}

// sharedDir creates a directory that every user can read.
func sharedDir(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("/tmp", "regcred-node-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must.Do(t, os.Chmod(dir, 0o755))
	return dir
}

// newNodeWithProcesses creates a node whose /proc contains only the given processes.
func newNodeWithProcesses(t *testing.T, list ...*exec.Cmd) Node {
	t.Helper()
	root := sharedDir(t)
	must.Do(t, os.Mkdir(filepath.Join(root, "proc"), 0o755))
	for _, cmd := range list {
		pid := strconv.Itoa(cmd.Process.Pid)
		must.Do(t, os.Symlink("/proc/"+pid, filepath.Join(root, "proc", pid)))
	}
	return Node{Root: root}
}

const otherUser = 12345 // user ID of a user other than root and the caller

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it starts processes of other users, and in other namespaces")
	}
}

// TestAsKubelet verifies that --as-kubelet rejects untrusted processes, both with a process ID
// and with "auto".
func TestAsKubelet(t *testing.T) {
	needRoot(t)
	dir := sharedDir(t)
	config, other, bin := filepath.Join(dir, "c.yaml"), filepath.Join(dir, "other.yaml"), filepath.Join(dir, "bin")
	must.Do(t, errors.Join(os.WriteFile(config, nil, 0o644), os.WriteFile(other, nil, 0o644), os.Mkdir(bin, 0o755)))
	jail := sharedDir(t)
	asRoot := &syscall.SysProcAttr{}
	stranger := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
	for _, tt := range []struct {
		name, what string
		attr       *syscall.SysProcAttr
		mode       fs.FileMode // file mode of the program
		says       string
		hidden     bool // "auto" ignores the process
	}{
		{name: "root's", attr: asRoot, mode: 0o755},
		{name: "a stranger's", attr: stranger, mode: 0o755, says: "belongs to user 12345, who controls its flags and environment", hidden: true},
		{name: "root's by set-user-ID, of a stranger", attr: stranger, mode: 0o755 | fs.ModeSetuid, says: "belongs to user 12345", hidden: true},
		{name: "all root's, by a set-user-ID program", attr: asRoot, mode: 0o755 | fs.ModeSetuid, says: "runs a set-user-ID program", hidden: true},
		{name: "in a chroot", what: "chroot " + jail, attr: asRoot, mode: 0o755, says: "has a different root directory"},
		{
			name: "with mounts of its own", what: "mount " + other + " " + config, mode: 0o755,
			attr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}, says: "sees different content at " + config,
		},
		{
			name: "in a namespace with the same mounts", mode: 0o755,
			attr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			program := filepath.Join(sharedDir(t), "kubelet")
			self := must.Get(os.Executable())(t)
			must.Do(t, errors.Join(copyFile(self, program), os.Chmod(program, tt.mode)))
			cmd := startProgram(t, program, tt.what, tt.attr, "--"+configFlag+"="+config, "--"+binDirFlag, bin)
			n := newNodeWithProcesses(t, cmd)
			for which, hidden := range map[string]bool{strconv.Itoa(cmd.Process.Pid): false, "auto": tt.hidden} {
				o, err := n.NewReader().Find(t.Context(), FindOptions{AsKubelet: which, NeedBinDir: true})
				says := tt.says
				if hidden {
					says = "no process named kubelet is running as root or as this user"
				}
				if says != "" {
					e, ok := errors.AsType[*HintError](err)
					if !ok || !strings.Contains(err.Error(), says) || e.Hint == "" {
						t.Errorf("%s: got %v, want %q and a hint", which, err, says)
					}
					continue
				}
				want := &Origin{
					Config: config, BinDir: bin, From: fmt.Sprintf("kubelet process %d", cmd.Process.Pid), KubeletPID: cmd.Process.Pid,
					Environ: []string{fakeKubeletEnv + "="}, Dir: "/", RootDir: DefaultRootDir, Discovered: true,
				}
				if diff := cmp.Diff(want, o, cmpopts.IgnoreUnexported(Origin{})); err != nil || diff != "" {
					t.Errorf("%s: got %v, -want +got\n%s", which, err, diff)
				}
			}
		})
	}
}

// TestAsKubeletIgnoresContainers verifies that --as-kubelet=auto prefers this node's kubelet to
// kubelets in containers, such as kind nodes.
func TestAsKubeletIgnoresContainers(t *testing.T) {
	needRoot(t)
	kind := startKubelet(t, "chroot "+sharedDir(t), nil)
	kind2 := startKubelet(t, "chroot "+sharedDir(t), nil)
	ours := startKubelet(t, "", nil)
	if o, err := newNodeWithProcesses(t, kind, ours, kind2).NewReader().FindEnvironment(t.Context(), FindOptions{AsKubelet: "auto"}); err != nil || o.KubeletPID != ours.Process.Pid {
		t.Errorf("got %+v, %v, want process %d", o, err, ours.Process.Pid)
	}
	if _, err := newNodeWithProcesses(t, kind).NewReader().FindEnvironment(t.Context(), FindOptions{AsKubelet: "auto"}); err == nil || !strings.Contains(err.Error(), "a different root directory") {
		t.Errorf("got %v, want that it has a different root directory", err)
	}
	if _, err := newNodeWithProcesses(t, kind, kind2).NewReader().FindEnvironment(t.Context(), FindOptions{AsKubelet: "auto"}); err == nil || !strings.Contains(err.Error(), "2 kubelets are running") {
		t.Errorf("got %v, want that there are two", err)
	}
}

// TestAsKubeletUnprivileged verifies that a user without privileges can read its own kubelet
// process.
func TestAsKubeletUnprivileged(t *testing.T) {
	cmd := startKubelet(t, "", nil)
	k, err := newNodeWithProcesses(t, cmd).readKubelet(cmd.Process.Pid)
	if err != nil || k.dir != "/" {
		t.Errorf("got %+v, %v", k, err)
	}
}

// TestProcessEnds verifies that reading an open process that has ended fails, and does not read
// a later process with the same ID.
func TestProcessEnds(t *testing.T) {
	cmd := startKubelet(t, "", nil)
	p, err := Node{}.openProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait()
	_, err = p.readKubelet()
	for what, err := range map[string]error{"kubelet": err, "checkRoot": p.checkRoot(), "checkOwner": p.checkOwner(0)} {
		if e, ok := errors.AsType[*HintError](err); !ok || !strings.HasPrefix(e.Hint, "no such process") {
			t.Errorf("%s: got %v, want that there is no such process", what, err)
		}
	}
}

// TestExecWhileReading verifies that readKubelet never combines the flags of a program with the
// environment of the program that replaces it in the same process.
func TestExecWhileReading(t *testing.T) {
	cmd := startKubelet(t, "become 0", nil)
	n := newNodeWithProcesses(t, cmd)
	read, became := 0, 0
	for end := time.Now().Add(30 * time.Second); (read == 0 || became == 0) && time.Now().Before(end); {
		k, err := n.readKubelet(cmd.Process.Pid)
		if err != nil && strings.Contains(err.Error(), "was replaced by another program") {
			became++
		}
		if err != nil {
			continue
		}
		read++
		flag, env := k.flags[KubeconfigFlag], Getenv(k.environ, fakeKubeletEnv)
		if flag != "" && "become "+strings.TrimPrefix(flag, "/") != env {
			t.Fatalf("the flag says %s, the environment %s", flag, env)
		}
	}
	if became == 0 {
		t.Errorf("%d times read, and never refused", read)
	}
}

// TestFindUnprivileged verifies that Find continues after a path that this user cannot read,
// and that it reports the path.
func TestFindUnprivileged(t *testing.T) {
	needRoot(t)
	program := filepath.Join(sharedDir(t), "find")
	self := must.Get(os.Executable())(t)
	must.Do(t, copyFile(self, program))
	const flags = "KUBELET_EXTRA_ARGS=--" + configFlag + "=/c --" + binDirFlag + "=/b"
	for _, there := range []bool{true, false} {
		root := sharedDir(t)
		kubelet := filepath.Join(root, "/var/lib/kubelet")
		if err := errors.Join(os.MkdirAll(filepath.Join(root, "/etc/default"), 0o755), os.MkdirAll(kubelet, 0o755), os.Chmod(kubelet, 0o700)); err != nil {
			t.Fatal(err)
		}
		closed := kubelet + "/credential-provider-config.yaml"
		flagsFile := filepath.Join(root, "/etc/default/kubelet")
		want := fmt.Sprintf("no node configuration found: this user cannot read %s/kubeadm-flags.env, %s", kubelet, closed)
		if there {
			must.Do(t, os.WriteFile(flagsFile, []byte(flags), 0o644))
			want = fmt.Sprintf("the kubelet flags in %s [%s/kubeadm-flags.env]", flagsFile, kubelet)
		}
		cmd := exec.Command(program)
		cmd.Env, cmd.Dir = []string{fakeKubeletEnv + "=find " + root, "GORACE=atexit_sleep_ms=0"}, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
		if out, _ := cmd.Output(); strings.TrimSpace(string(out)) != want {
			t.Errorf("got %q, want %q", out, want)
		}
	}
}

// TestProcIncomplete verifies that readKubelet fails if it cannot read one of the process's
// files in /proc.
func TestProcIncomplete(t *testing.T) {
	uid := os.Geteuid()
	files := map[string]string{
		"comm": "kubelet\n", "cmdline": "kubelet\x00", "environ": "A=B\x00",
		"status": fmt.Sprintf("Name:\tkubelet\nUid:\t%d\t%d\t%d\t%d\nGid:\t0\n", uid, uid, uid, uid),
	}
	links := map[string]string{"root": "/", "cwd": "/", "exe": "/proc/self/exe"}
	for _, missing := range []string{"", "cmdline", "environ", "status", "root", "cwd", "exe"} {
		t.Run("without "+missing, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "proc", "17")
			must.Do(t, os.MkdirAll(dir, 0o755))
			for name, text := range files {
				if name != missing {
					must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
				}
			}
			for name, to := range links {
				if name != missing {
					must.Do(t, os.Symlink(to, filepath.Join(dir, name)))
				}
			}
			_, err := Node{Root: root}.readKubelet(17)
			if (err == nil) != (missing == "") || err != nil && !strings.Contains(err.Error(), filepath.Join(dir, missing)) {
				t.Errorf("got %v", err)
			}
		})
	}
}
