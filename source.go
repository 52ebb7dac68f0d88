// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/plugin"
)

// Source is a keyring beside the plugins. Implementations must be safe
// for concurrent use and must not outlast ctx. Their errors are shown and
// logged, so they hold no secret.
type Source interface {
	// Name says what it is in Attempts, e.g. "node docker config".
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
// files, in this order, and then /. Empty ones are left out.
type NodePaths struct {
	RootDir string // the kubelet's --root-dir, e.g. /var/lib/kubelet
	WorkDir string // its working directory
	Home    string // its $HOME
}

// NodeDockerConfig returns the keyring of a node's docker config files: the
// first valid config.json, else the first valid .dockercfg
// (pkg/credentialprovider/config.go). Only auths count; helpers are not
// called. Files are read again after five minutes. One that is there but
// cannot be used is passed over, as in the kubelet, and reported as an error.
func NodeDockerConfig(p NodePaths) Source { return &nodeConfig{paths: p} }

type nodeConfig struct {
	paths NodePaths

	mu   sync.Mutex
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
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := time.Now(); now.After(n.next) {
		set, err := n.read(ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err() // which says nothing about the files
		}
		n.set, n.err, n.next = set, err, now.Add(nodeConfigLife)
	}
	return n.set, n.err
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
	var all []configCandidate
	add := func(parse func([]byte) (map[string]plugin.AuthConfig, error), dir string, elem ...string) {
		if dir != "" {
			all = append(all, configCandidate{filepath.Join(append([]string{dir}, elem...)...), parse})
		}
	}
	p := n.paths
	add(dockerconfig.Parse, p.RootDir, "config.json")
	add(dockerconfig.Parse, p.WorkDir, "config.json")
	add(dockerconfig.Parse, p.Home, ".docker", "config.json")
	add(dockerconfig.Parse, "/", ".docker", "config.json")
	add(dockerconfig.ParseLegacy, p.RootDir, ".dockercfg")
	add(dockerconfig.ParseLegacy, p.WorkDir, ".dockercfg")
	add(dockerconfig.ParseLegacy, p.Home, ".dockercfg")
	add(dockerconfig.ParseLegacy, "/", ".dockercfg")
	return all
}
