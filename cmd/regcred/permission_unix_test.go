// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestUnreadableConfig uses a configuration that only root can read. The error must not
// claim that the kubelet rejects it.
func TestUnreadableConfig(t *testing.T) {
	regcred, dir := asUnprivilegedUser(t)
	file := filepath.Join(dir, "c.yaml")
	must.Do(t, os.WriteFile(file, nil, 0))
	closed := filepath.Join(dir, "closed")
	must.Do(t, os.Mkdir(closed, 0))
	for _, config := range []string{file, closed, filepath.Join(closed, "c.yaml")} {
		for _, args := range [][]string{
			{"validate", config},
			{"validate", "-o", "json", config},
			{"explain", "--config", config, "--bin-dir", dir, "nginx"},
			{"explain", "-o", "json", "--config", config, "--bin-dir", dir, "nginx"},
			{"get", "--config", config, "--bin-dir", dir, "nginx"},
		} {
			cmd := regcred(args...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			exitErr, ok := errors.AsType[*exec.ExitError](err)
			if !ok || exitErr.ExitCode() != exitFailed {
				t.Errorf("%q: got %v, want exit code %d", args, err, exitFailed)
			}
			if want := slices.Contains(args, "json"); want != strings.Contains(stdout.String(), `"hint": "run it as root (sudo)"`) || !want && stdout.Len() > 0 {
				t.Errorf("%q: stdout %q", args, stdout.String())
			}
			got := strings.ReplaceAll(stderr.String(), config, "CONFIG")
			if !strings.HasPrefix(got, "error: CONFIG: cannot be ") || !strings.HasSuffix(got, ": permission denied\nhint: run it as root (sudo)\n") {
				t.Errorf("%q: stderr %q", args, got)
			}
		}
	}
}

// TestNotPermitted checks the errors for files that only root can write and a socket that only root
// can connect to.
func TestNotPermitted(t *testing.T) {
	regcred, dir := asUnprivilegedUser(t)
	config := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: CredentialProviderConfig\nproviders:\n" +
		"- {name: p, matchImages: [registry.example], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n"
	closed := filepath.Join(dir, "closed")
	file, list, socket := filepath.Join(closed, "c.yaml"), filepath.Join(closed, "list"), filepath.Join(dir, "s")
	must.Do(t, os.Mkdir(closed, 0o755))
	for path, data := range map[string]string{file: config, list: "registry.example/app:v1\n", filepath.Join(dir, "p"): "#!/bin/false\n"} {
		must.Do(t, os.WriteFile(path, []byte(data), 0o755))
	}
	l := must.Get(net.Listen("unix", socket))(t)
	defer l.Close()
	defer os.Chmod(closed, 0o755) // so that the cleanup can remove it
	must.Do(t, errors.Join(os.Chmod(socket, 0), os.Chmod(closed, 0o555)))
	for _, args := range [][]string{
		{"convert", "--write", file},
		{"convert", file, filepath.Join(closed, "new.yaml")},
		{"convert", file, filepath.Join(closed, "new") + "/"},
		{"prepull", "--config", file, "--bin-dir", dir, "--runtime-endpoint", socket, "-f", list},
	} {
		out, err := regcred(args...).CombinedOutput()
		if exitErr, ok := errors.AsType[*exec.ExitError](err); !ok || exitErr.ExitCode() != exitFailed {
			t.Errorf("%q: got %v, want exit code %d", args, err, exitFailed)
		}
		if got := string(out); !strings.Contains(got, "permission denied") || !strings.HasSuffix(got, "\nhint: run it as root (sudo)\n") {
			t.Errorf("%q: got %q", args, got)
		}
	}
}

// asUnprivilegedUser returns a function that creates commands which run regcred as an
// unprivileged user, and a directory that this user can enter.
func asUnprivilegedUser(t *testing.T) (regcred func(args ...string) *exec.Cmd, dir string) {
	t.Helper()
	binary := must.Get(exec.LookPath("regcred"))(t)
	dir = t.TempDir()
	if os.Geteuid() != 0 {
		return func(args ...string) *exec.Cmd { return exec.Command(binary, args...) }, dir
	}
	// Link the binary into dir, because its own directory can be entered only by root.
	link := filepath.Join(dir, "regcred")
	must.Do(t, os.Link(binary, link))
	for _, d := range []string{filepath.Dir(dir), dir} {
		must.Do(t, os.Chmod(d, 0o755))
	}
	regcred = func(args ...string) *exec.Cmd {
		cmd := exec.Command(link, args...)
		cmd.Dir = "/"
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		return cmd
	}
	if err := regcred("version").Run(); err != nil {
		t.Skipf("an ordinary user cannot run regcred here: %v", err)
	}
	return regcred, dir
}

// TestNoSudoHintForRootLogin checks that no hint suggests sudo for a file that "sudo docker login"
// created.
func TestNoSudoHintForRootLogin(t *testing.T) {
	regcred, dir := asUnprivilegedUser(t)
	path := filepath.Join(dir, "config.json")
	must.Do(t, os.WriteFile(path, []byte("{}"), 0))
	cmd := regcred("helper", "uninstall")
	cmd.Env = append(cmd.Env, "HOME="+dir, "DOCKER_CONFIG="+dir, "REGISTRY_AUTH_FILE="+path)
	out, err := cmd.CombinedOutput()
	if got := string(out); err == nil || !strings.Contains(got, path) || !strings.Contains(got, "\nhint: chown the file and its directory to this user") {
		t.Errorf("%v: %s", err, got)
	}
}

// TestValidateOneUnreadable checks that the output for several files keeps its format if one file
// is unreadable, and that a SARIF log states that it is incomplete.
func TestValidateOneUnreadable(t *testing.T) {
	regcred, dir := asUnprivilegedUser(t)
	good, closed := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "closed.yaml")
	for path, mode := range map[string]os.FileMode{good: 0o644, closed: 0} {
		text := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n" +
			"- {name: good, matchImages: [registry.example], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n"
		must.Do(t, os.WriteFile(path, []byte(text), mode))
	}
	said := `"executionSuccessful": false, "toolExecutionNotifications": [ { "level": "error", "message": { "text": "` + closed + `: cannot be read: permission denied" } } ]`
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-o", "json", good, closed}, `"validations": [ { "path": "` + good + `", "valid": true,`},
		{[]string{"-o", "sarif", good, closed}, said},
		{[]string{"-o", "sarif", closed}, said},
	} {
		var stdout strings.Builder
		cmd := regcred(append([]string{"validate"}, tt.args...)...)
		cmd.Stdout = &stdout
		err := cmd.Run()
		if got := strings.Join(strings.Fields(stdout.String()), " "); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(got, tt.want) {
			t.Errorf("%q: %v, no %s in %s", tt.args, err, tt.want, got)
		}
	}
}
