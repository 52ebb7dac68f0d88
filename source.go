// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/plugin"
)

// Source is a keyring beside the plugins. Implementations must be safe
// for concurrent use. One that outlasts ctx is left behind, and what it then
// returns is dropped. Their errors are shown and logged, so they hold no secret.
type Source interface {
	// Name says what it is in Attempts, e.g. "node docker config". [New] asks for it.
	Name() string
	// Auths returns credentials by auth key for the repository, or the host
	// of a registry lookup. It may return what it has beside an error.
	Auths(ctx context.Context, repository string) ([]AuthSet, error)
}

// AuthSet is the credentials of one place.
type AuthSet struct {
	Origin Origin
	Auths  map[string]plugin.AuthConfig
}

// PullSecret is a Kubernetes secret of type kubernetes.io/dockerconfigjson or
// kubernetes.io/dockercfg. Others are ignored, as in the kubelet
// (MakeDockerKeyring in pkg/credentialprovider/secrets).
type PullSecret struct {
	Namespace, Name, UID string
	Type                 string
	Data                 map[string][]byte
}

// The types of pull secrets, and the key of Data under which each has its file.
const (
	secretTypeDockerConfigJSON = "kubernetes.io/dockerconfigjson"
	secretKeyDockerConfigJSON  = ".dockerconfigjson"
	secretTypeDockercfg        = "kubernetes.io/dockercfg"
	secretKeyDockercfg         = ".dockercfg"
)

// title is the secret's namespace and name. One from a file may have no namespace.
func (s *PullSecret) title() string {
	if s.Namespace == "" {
		return s.Name
	}
	return s.Namespace + "/" + s.Name
}

// attempt parses the secret; ok is false if it is not one with credentials.
func (s *PullSecret) attempt() (a Attempt, ans *answer, ok bool) {
	parse, data := dockerconfig.Parse, s.Data[secretKeyDockerConfigJSON]
	if s.Type == secretTypeDockercfg {
		parse, data = dockerconfig.ParseLegacy, s.Data[secretKeyDockercfg]
	} else if s.Type != secretTypeDockerConfigJSON {
		return a, nil, false
	}
	if len(data) == 0 {
		return a, nil, false
	}
	a = Attempt{Kind: FromPullSecret, Provider: s.title(), Index: -1}
	auths, err := parse(data)
	if err != nil {
		// The kubelet fails the whole pull here.
		a.fail(failAt(StageSource, "pull secret %s: %w", s.title(), err))
		return a, nil, true
	}
	ref := &ObjectRef{Namespace: s.Namespace, Name: s.Name, UID: s.UID}
	ans = newAnswer(auths, &origin{source: Origin{Kind: FromPullSecret, PullSecret: ref}})
	a.Keys = ans.keys
	return a, ans, true
}

// NodePaths are the directories in which a kubelet looks for docker config
// files, in this order, and then /. RootDir and Home may be relative to WorkDir.
// Empty ones are left out, but for Home where there is a WorkDir.
type NodePaths struct {
	RootDir string // the kubelet's --root-dir, e.g. /var/lib/kubelet
	WorkDir string // its working directory
	Home    string // its $HOME; "" if it has none, as under systemd: then WorkDir stands for it
}

// NodeDockerConfig returns the keyring of a node's docker config files: the
// first valid config.json, else the first valid .dockercfg
// (pkg/credentialprovider/config.go). Only auths count; helpers are not
// called. Files are read again after five minutes. One that is there but
// cannot be used is passed over, as in the kubelet, and reported as an error.
func NodeDockerConfig(p NodePaths) Source { return &nodeConfig{paths: p} }

// Files returns the paths of the files, absolute where the directories are, in
// the order in which a kubelet looks for them.
func (p NodePaths) Files() []string {
	var paths []string
	for _, c := range (&nodeConfig{paths: p}).candidates() {
		if !slices.Contains(paths, c.path) { // where two of the directories are one
			paths = append(paths, c.path)
		}
	}
	return paths
}

type nodeConfig struct {
	paths NodePaths

	mu      sync.Mutex
	last    *nodeFiles // nil if never read
	reading *nodeFiles // by a goroutine of its own; nil if none does
}

// nodeFiles is what one reading of the files found.
type nodeFiles struct {
	done chan struct{} // closed when the following is set
	set  []AuthSet
	err  error
	next time.Time // when to read again
}

const (
	nodeConfigLife   = 5 * time.Minute
	maxDockerConfig  = 16 << 20 // bytes of one file
	nodeConfigSource = "node docker config"
)

func (n *nodeConfig) Name() string { return nodeConfigSource }

func (n *nodeConfig) Auths(ctx context.Context, _ string) ([]AuthSet, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	files := n.current(time.Now())
	select {
	case <-files.done:
		return files.set, files.err
	case <-ctx.Done():
		return nil, ctx.Err() // which says nothing about the files
	}
}

// current returns what was read, or is being read. A file system that does not
// answer keeps one reader, however many wait for it, and they for their
// contexts alone.
func (n *nodeConfig) current(now time.Time) *nodeFiles {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.reading != nil:
		return n.reading
	case n.last != nil && !now.After(n.last.next):
		return n.last
	}
	files := &nodeFiles{done: make(chan struct{})}
	n.reading = files
	go func() {
		files.set, files.err = n.read(context.Background())
		files.next = now.Add(nodeConfigLife)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.last, n.reading = files, nil
		close(files.done)
	}()
	return files
}

// read returns the first valid file, and what was wrong with those before it.
func (n *nodeConfig) read(ctx context.Context) ([]AuthSet, error) {
	var errs []error
	for _, c := range n.candidates() {
		data, err := regularfile.Read(ctx, c.path, maxDockerConfig)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var auths map[string]plugin.AuthConfig
		if err == nil {
			auths, err = c.parse(data)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.path, regularfile.Cause(err)))
			continue
		}
		return []AuthSet{{Origin{Kind: FromNode, File: c.path}, auths}}, errors.Join(errs...)
	}
	return nil, errors.Join(errs...)
}

type configCandidate struct {
	path  string
	parse func([]byte) (map[string]plugin.AuthConfig, error)
}

func (n *nodeConfig) candidates() []configCandidate {
	type parser = func([]byte) (map[string]plugin.AuthConfig, error)
	var all []configCandidate
	add := func(parse parser, dir string, elem ...string) {
		if dir == "" && n.paths.WorkDir == "" {
			return
		}
		if dir == "" || !filepath.IsAbs(dir) && !os.IsPathSeparator(dir[0]) { // C:\ and \ on Windows
			dir = filepath.Join(n.paths.WorkDir, dir)
		}
		all = append(all, configCandidate{filepath.Join(append([]string{dir}, elem...)...), parse})
	}
	// kubelet: without a home, the files of the home are looked for in the working directory.
	places := func(parse parser, name string, below ...string) {
		if n.paths.RootDir != "" {
			add(parse, n.paths.RootDir, name)
		}
		add(parse, "", name)
		add(parse, n.paths.Home, append(below, name)...)
		add(parse, "/", append(below, name)...)
	}
	places(dockerconfig.Parse, "config.json", ".docker")
	places(dockerconfig.ParseLegacy, ".dockercfg")
	return all
}
