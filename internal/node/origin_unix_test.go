// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/regcred/regcred/internal/must"
)

// newRoot creates a node's root directory with the given files.
func newRoot(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil { // do not depend on the umask
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return root
}

func TestFind(t *testing.T) {
	const eks = "/etc/eks/image-credential-provider"
	units := map[string]string{"/etc/default/kubelet": "KUBELET_EXTRA_ARGS=--image-credential-provider-config=/c --image-credential-provider-bin-dir=/b"}
	tests := []struct {
		name  string
		files map[string]string
		want  FindOptions
		got   Origin // ROOT stands for the root directory
		err   string
		usage bool
	}{
		{name: "given", want: FindOptions{Config: "/c.yaml", BinDir: "/b", NeedBinDir: true}, got: Origin{Config: "/c.yaml", BinDir: "/b", From: "flags"}},
		{
			name: "well-known", files: map[string]string{eks + "/config.json": "{}"}, want: FindOptions{NeedBinDir: true},
			got: Origin{Config: "ROOT" + eks + "/config.json", BinDir: "ROOT" + eks, From: "the EKS node configuration", Discovered: true,
				DiscoveredFlags: []string{"--config ROOT" + eks + "/config.json", "--bin-dir ROOT" + eks}},
		},
		{
			name: "flags in a file, beside what was given", files: units, want: FindOptions{Config: "/mine", NeedBinDir: true},
			got: Origin{Config: "/mine", BinDir: "ROOT/b", From: "the kubelet flags in ROOT/etc/default/kubelet", Discovered: true,
				DiscoveredFlags: []string{"--bin-dir ROOT/b"}, SourceFiles: []string{"ROOT/etc/default/kubelet"}},
		},
		{name: "no bin dir needed", files: units, want: FindOptions{Config: "/mine"}, got: Origin{Config: "/mine", From: "flags"}},
		{name: "nowhere", want: FindOptions{NeedBinDir: true}, err: "no credential provider configuration was given, and none was found in the usual places"},
		{
			name: "half", want: FindOptions{Config: "/c", NeedBinDir: true}, usage: true,
			err: "--config is set, but --bin-dir is not set and was not found in a node configuration; the kubelet needs both",
		},
		{name: "no process id", want: FindOptions{AsKubelet: "x"}, usage: true, err: "--as-kubelet=x: not a process ID"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := newRoot(t, tt.files)
			got, err := Node{Root: root}.NewReader().Find(t.Context(), tt.want)
			if tt.err != "" {
				e, ok := errors.AsType[*HintError](err)
				if !ok || e.Error() != tt.err || e.Usage != tt.usage {
					t.Errorf("got %v (%v), want %s", err, ok, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			tt.got.RootDir = DefaultRootDir
			want := inRoot(root, tt.got)
			if diff := cmp.Diff(&want, got, cmpopts.IgnoreUnexported(Origin{})); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// inRoot replaces ROOT in an Origin's paths with a root directory.
func inRoot(root string, o Origin) Origin {
	put := func(s string) string { return strings.ReplaceAll(s, "ROOT", root) }
	o.Config, o.BinDir, o.From = put(o.Config), put(o.BinDir), put(o.From)
	for _, list := range [][]string{o.DiscoveredFlags, o.SourceFiles} {
		for i := range list {
			list[i] = put(list[i])
		}
	}
	return o
}

// TestCheckTrust verifies that a configuration is rejected if other users can change it, its
// executables, or a file that refers to it.
func TestCheckTrust(t *testing.T) {
	for name, open := range map[string]string{"nothing": "", "config": "c.yaml", "executable": "bin/p", "directory": "bin", "what names it": "kubelet.env"} {
		t.Run(name, func(t *testing.T) {
			root := newRoot(t, map[string]string{"c.yaml": "", "bin/p": "", "kubelet.env": ""})
			o := &Origin{From: "here", Config: filepath.Join(root, "c.yaml"), BinDir: filepath.Join(root, "bin"), SourceFiles: []string{filepath.Join(root, "kubelet.env")}}
			path := filepath.Join(root, open)
			if open != "" {
				must.Do(t, os.Chmod(path, 0o777))
			}
			err := Node{Root: root}.CheckTrust(o, []string{"p", "missing"})
			found, ok := errors.AsType[*UntrustedPathError](err)
			switch {
			case open == "" && err != nil:
				t.Errorf("got %v", err)
			case open != "" && (!ok || *found != UntrustedPathError{"here", path, "writable by all users", "chmod go-w " + path}):
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestFixIsShellQuoted verifies that the suggested chmod command quotes the file name for a
// shell.
func TestFixIsShellQuoted(t *testing.T) {
	const name = "10 $(touch pwned);.yaml"
	root := newRoot(t, map[string]string{"c/" + name: ""})
	must.Do(t, os.Chmod(filepath.Join(root, "c", name), 0o666))
	err := Node{Root: root}.CheckTrust(&Origin{From: "here", Config: filepath.Join(root, "c")}, nil)
	found, ok := errors.AsType[*UntrustedPathError](err)
	if want := "chmod go-w '" + filepath.Join(root, "c", name) + "'"; !ok || found.Fix != want {
		t.Errorf("got %+v, want %s", found, want)
	}
}

// TestKubeletConfigTrust verifies that a kubelet configuration is rejected if other users can
// change it. These users could send credentials to their own socket.
func TestKubeletConfigTrust(t *testing.T) {
	for _, open := range []string{"", "c.yaml", "conf.d", "conf.d/a.conf", "conf.d/b/c.conf"} {
		root := newRoot(t, map[string]string{"c.yaml": "", "conf.d/a.conf": "{imageServiceEndpoint: unix:///s, containerRuntimeEndpoint: unix:///t}", "conf.d/b/c.conf": "containerRuntimeEndpoint: null"})
		path := filepath.Join(root, open)
		if open != "" {
			must.Do(t, os.Chmod(path, 0o777))
		}
		cfg, err := Node{Root: root}.readTrustedConfig([]string{"--config=c.yaml", "--config-dir=conf.d"}, root)
		found, ok := errors.AsType[*UntrustedPathError](err)
		switch {
		case open == "" && (err != nil || cfg.ImageServiceEndpoint != "unix:///s" || cfg.ContainerRuntimeEndpoint != ""):
			t.Errorf("got %v, %+v", err, cfg)
		case open != "" && (!ok || found.Path != path):
			t.Errorf("%s: got %v", open, err)
		}
	}
	// Other users can add files to this directory.
	dir := filepath.Join(newRoot(t, nil), "conf.d")
	must.Do(t, errors.Join(os.Mkdir(dir, 0o755), syscall.Chmod(dir, 0o1777)))
	_, err := Node{Root: filepath.Dir(dir)}.readTrustedConfig([]string{"--config-dir=conf.d"}, filepath.Dir(dir))
	if found, ok := errors.AsType[*UntrustedPathError](err); !ok || found.Path != dir {
		t.Errorf("an empty directory for everybody: got %v", err)
	}
}

// TestPipes verifies that regcred does not block on named pipes without a writer.
func TestPipes(t *testing.T) {
	root := newRoot(t, map[string]string{"/etc/default/else": "", "/kubelet/else": ""})
	env, config := filepath.Join(root, "/etc/default/kubelet"), filepath.Join(root, "/kubelet/c.yaml")
	must.Do(t, errors.Join(syscall.Mkfifo(env, 0o644), syscall.Mkfifo(config, 0o644)))
	if loc, unread, err := (Node{Root: root}).NewReader().findLocation(t.Context()); loc != nil || unread != nil || err != nil {
		t.Errorf("flags in a pipe: got %v, %v, %v", loc, unread, err)
	}
	if _, err := (Node{}).readTrustedConfig([]string{"--config=kubelet/c.yaml"}, root); err == nil || err.Error() != "read "+config+": is a named pipe, not a regular file" {
		t.Errorf("a kubelet's configuration: got %v", err)
	}
}

// TestClosedToThisUser verifies that no hint suggests a path that this user cannot read.
func TestClosedToThisUser(t *testing.T) {
	n := Node{ConfigSetting: "REGCRED_CONFIG", BinDirSetting: "REGCRED_BIN_DIR"}
	for unread, want := range map[string]string{
		DefaultConfig: "run it as root (sudo), or set both REGCRED_CONFIG and REGCRED_BIN_DIR",
		"/etc/eks/it": "run it as root (sudo), or set both REGCRED_CONFIG and REGCRED_BIN_DIR, or put the files at /etc/regcred/credential-providers.yaml and /etc/regcred/bin",
	} {
		e, _ := errors.AsType[*HintError](n.notDiscoveredError(&Origin{UnreadablePaths: []string{unread}}, true))
		if e == nil || e.Hint != want {
			t.Errorf("%s: got %+v, want the hint %q", unread, e, want)
		}
	}
}
