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
	"github.com/regcred/regcred/internal/dockerjson"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/plugin"
)

// Source provides credentials in addition to the plugins. Implementations must be safe
// for concurrent use. When ctx is done, the keyring stops waiting and discards the
// result. Errors are displayed and logged, so they must not contain secrets.
type Source interface {
	// Name is used in Attempts, for example "node docker config". [New] calls it once.
	Name() string
	// Auths returns the credentials for a repository, by auth key. In a registry lookup,
	// repository is a host. Auths may return credentials together with an error.
	Auths(ctx context.Context, repository string) ([]AuthSet, error)
}

// AuthSet holds the credentials from one origin.
type AuthSet struct {
	Origin Origin
	Auths  map[string]plugin.AuthConfig
}

// PullSecret is a Kubernetes secret of type kubernetes.io/dockerconfigjson or
// kubernetes.io/dockercfg. Other types are ignored, as in the kubelet
// (MakeDockerKeyring in pkg/credentialprovider/secrets).
type PullSecret struct {
	Namespace, Name, UID string
	Type                 string
	Data                 map[string][]byte
}

// fullName returns namespace and name. A secret from a file may have no namespace.
func (s *PullSecret) fullName() string {
	if s.Namespace == "" {
		return s.Name
	}
	return s.Namespace + "/" + s.Name
}

// parse parses the secret. ok is false if the secret has another type, or no data for its type.
func (s *PullSecret) parse() (a Attempt, resp *response, ok bool) {
	format, data := dockerconfig.ConfigJSON, s.Data[dockerjson.SecretKeyConfigJSON]
	if s.Type == dockerjson.SecretTypeDockercfg {
		format, data = dockerconfig.DockerCfg, s.Data[dockerjson.SecretKeyDockercfg]
	} else if s.Type != dockerjson.SecretTypeConfigJSON {
		return a, nil, false
	}
	if len(data) == 0 {
		return a, nil, false
	}
	a = Attempt{Kind: FromPullSecret, Provider: s.fullName(), Index: -1}
	auths, err := dockerconfig.Parse(data, format)
	if err != nil {
		// kubelet: a pull secret that cannot be parsed fails the whole pull.
		a.setError(newStageError(StageSource, "pull secret %s: %w", s.fullName(), err))
		return a, nil, true
	}
	ref := &ObjectRef{Namespace: s.Namespace, Name: s.Name, UID: s.UID}
	resp = newResponse(auths, &responseOrigin{source: Origin{Kind: FromPullSecret, PullSecret: ref}})
	a.Keys = resp.keys
	return a, resp, true
}

// NodePaths lists the directories in which the kubelet looks for docker config files,
// in this order. The kubelet then looks in /. RootDir and Home may be relative to
// WorkDir. An empty RootDir or WorkDir is skipped; an empty Home means WorkDir.
type NodePaths struct {
	RootDir string // the kubelet's --root-dir, e.g. /var/lib/kubelet
	WorkDir string // the kubelet's working directory
	Home    string // the kubelet's $HOME; "" if unset, as under systemd
}

// NodeDockerConfig returns a source that reads a node's docker config files: the first valid
// config.json or, if none exists, the first valid .dockercfg
// (pkg/credentialprovider/config.go). It uses only the field auths and does not call credential
// helpers. An unusable file is skipped, as in the kubelet, and reported as an error. Files are
// read again after five minutes.
func NodeDockerConfig(p NodePaths) Source { return &nodeDockerConfig{paths: p} }

// Files returns the paths in the order in which the kubelet reads them. The paths are
// absolute if the directories are.
func (p NodePaths) Files() []string {
	var paths []string
	for _, c := range (&nodeDockerConfig{paths: p}).candidates() {
		if !slices.Contains(paths, c.path) { // two of the directories may be the same
			paths = append(paths, c.path)
		}
	}
	return paths
}

type nodeDockerConfig struct {
	paths NodePaths

	mu      sync.Mutex
	last    *dockerConfigRead // nil before the first read
	pending *dockerConfigRead // nil if no goroutine is reading the files
}

// dockerConfigRead is the result of one read of the files.
type dockerConfigRead struct {
	done     chan struct{} // closed when the other fields are set
	authSets []AuthSet
	err      error
	nextRead time.Time // when to read the files again
}

const (
	nodeConfigTTL       = 5 * time.Minute
	maxDockerConfigSize = 16 << 20 // per file, in bytes
)

func (n *nodeDockerConfig) Name() string { return "node docker config" }

func (n *nodeDockerConfig) Auths(ctx context.Context, _ string) ([]AuthSet, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	files := n.latestRead(time.Now())
	select {
	case <-files.done:
		return files.authSets, files.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// latestRead returns the read in progress or the last result. If the last result is too old, it
// starts a new read. Therefore at most one goroutine waits for a file system that hangs.
func (n *nodeDockerConfig) latestRead(now time.Time) *dockerConfigRead {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.pending != nil:
		return n.pending
	case n.last != nil && !now.After(n.last.nextRead):
		return n.last
	}
	files := &dockerConfigRead{done: make(chan struct{})}
	n.pending = files
	go func() {
		files.authSets, files.err = n.readFirstValid(context.Background())
		files.nextRead = now.Add(nodeConfigTTL)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.last, n.pending = files, nil
		close(files.done)
	}()
	return files
}

// readFirstValid returns the credentials in the first valid file, and the errors of the files
// before it.
func (n *nodeDockerConfig) readFirstValid(ctx context.Context) ([]AuthSet, error) {
	var errs []error
	for _, c := range n.candidates() {
		data, err := regularfile.Read(ctx, c.path, maxDockerConfigSize)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var auths map[string]plugin.AuthConfig
		if err == nil {
			auths, err = dockerconfig.Parse(data, c.format)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.path, regularfile.BareError(err)))
			continue
		}
		return []AuthSet{{Origin{Kind: FromNode, File: c.path}, auths}}, errors.Join(errs...)
	}
	return nil, errors.Join(errs...)
}

type configCandidate struct {
	path   string
	format dockerconfig.Format
}

func (n *nodeDockerConfig) candidates() []configCandidate {
	var all []configCandidate
	add := func(format dockerconfig.Format, dir string, elem ...string) {
		if dir == "" && n.paths.WorkDir == "" {
			return
		}
		if dir == "" || !filepath.IsAbs(dir) && !os.IsPathSeparator(dir[0]) { // on Windows, \dir is not absolute, but it must not be joined
			dir = filepath.Join(n.paths.WorkDir, dir)
		}
		all = append(all, configCandidate{filepath.Join(append([]string{dir}, elem...)...), format})
	}
	// kubelet: if there is no home directory, it reads the files from the working
	// directory instead.
	places := func(format dockerconfig.Format, name string, below ...string) {
		if n.paths.RootDir != "" {
			add(format, n.paths.RootDir, name)
		}
		add(format, "", name)
		add(format, n.paths.Home, append(below, name)...)
		add(format, "/", append(below, name)...)
	}
	places(dockerconfig.ConfigJSON, "config.json", ".docker")
	places(dockerconfig.DockerCfg, ".dockercfg")
	return all
}
