// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
)

// TestAutoEndpoint verifies that RuntimeEndpoint finds the only runtime socket, fails if there
// are several, and ignores files that are not sockets.
func TestAutoEndpoint(t *testing.T) {
	const containerd, crio, k3s = "/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/k3s/containerd/containerd.sock"
	for _, tt := range []struct {
		name    string
		sockets []string
		want    string
		err     string
		usage   bool
	}{
		{name: "none", err: "no container runtime found: no socket at " + containerd + ", " + crio},
		{name: "one", sockets: []string{crio}, want: "unix://ROOT" + crio},
		{name: "cri-dockerd", sockets: []string{"/run/cri-dockerd.sock"}, want: "unix://ROOT/run/cri-dockerd.sock"},
		{name: "two", sockets: []string{k3s, crio}, err: "found 2 container runtimes: ROOT" + crio + ", ROOT" + k3s, usage: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := sharedDir(t) // socket paths must be short
			file := filepath.Join(root, containerd)
			must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)))
			for _, name := range tt.sockets {
				path := filepath.Join(root, name)
				must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
				l := must.Get(net.Listen("unix", path))(t)
				defer l.Close()
			}
			got, err := Node{Root: root}.RuntimeEndpoint(AutoEndpoint, &Origin{})
			if want := strings.ReplaceAll(tt.want, "ROOT", root); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if tt.err == "" {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			e, ok := errors.AsType[*HintError](err)
			if !ok || !strings.Contains(e.Error(), strings.ReplaceAll(tt.err, "ROOT", root)) || e.Usage != tt.usage || e.Hint == "" {
				t.Errorf("got %+v, want %q", err, tt.err)
			}
		})
	}
}

// TestKubeletDropIns verifies that configFiles returns only *.conf files, including those in
// subdirectories, sorted by path. The kubelet reads the same files.
func TestKubeletDropIns(t *testing.T) {
	root := newRoot(t, map[string]string{"20.conf": "", "10.conf/50.conf": "", "README": "", "30.conf.bak": "", "40.yaml": ""})
	got := Node{}.newFileCache().newReader(t.Context()).configFiles([]string{"--config-dir", root})
	want := []configFile{{filepath.Join(root, "10.conf/50.conf"), true}, {filepath.Join(root, "20.conf"), true}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(configFile{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestConfigDirLink verifies that a symlink as --config-dir is followed only if the flag ends
// in a slash, as in the kubelet.
func TestConfigDirLink(t *testing.T) {
	root := newRoot(t, map[string]string{"d/1.conf": "imageServiceEndpoint: unix:///s"})
	must.Do(t, os.Symlink("d", filepath.Join(root, "link")))
	for dir, want := range map[string]string{"link": "", "link/": "unix:///s", "d": "unix:///s"} {
		cfg, err := Node{Root: root}.readTrustedConfig([]string{"--config-dir=" + dir}, root)
		if err != nil || cfg.ImageServiceEndpoint != want {
			t.Errorf("%s: got %q, %v; want %q", dir, cfg.ImageServiceEndpoint, err, want)
		}
	}
}

// TestDenied verifies that PermissionError returns only permission errors, with a hint.
func TestDenied(t *testing.T) {
	denied := fmt.Errorf("read: %w", &fs.PathError{Op: "open", Path: "c.yaml", Err: fs.ErrPermission})
	if err := UncheckedError(denied); err == nil || !errors.Is(err, fs.ErrPermission) || err.Error() != denied.Error() {
		t.Errorf("got %v, want %v", err, denied)
	}
	e, _ := errors.AsType[*HintError](UncheckedError(denied))
	if hint := e != nil && e.Hint == "run it as root (sudo)"; hint != (os.Geteuid() != 0) {
		t.Errorf("of user %d: got %+v", os.Geteuid(), e)
	}
	for _, other := range []error{nil, fs.ErrNotExist} {
		if err := UncheckedError(other); err != nil {
			t.Errorf("%v: got %v", other, err)
		}
	}
}
