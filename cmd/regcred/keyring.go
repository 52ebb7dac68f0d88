// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/lint"
)

// session is an open keyring with its configuration and origin.
type session struct {
	*regcred.Keyring
	cfg     *config.Config
	origin  *node.Origin
	subject *kubeSubject    // nil without --pod and --service-account
	req     regcred.Request // pod or service account; the target is not set
	exits   error           // why the kubelet would not start on this node; nil if it would

	nodeConfig regcred.Source // nil if disabled

	mu      sync.Mutex
	printed map[string]bool // findings about the node's docker config
}

// openKeyring finds, loads and validates the configuration and opens a keyring with the
// sources and the environment of a pull on this node, for the pod that l selects. The
// caller must close it.
func (a *app) openKeyring(ctx context.Context, l *lookupFlags) (*session, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	o, err := a.resolveOrNone(ctx, a.node().Read(), true)
	if err != nil {
		return nil, err
	}
	cfg, err := a.loadOrNone(ctx, o)
	if err != nil {
		return nil, err
	}
	s, err := a.newSession(ctx, cfg, o, l)
	if err != nil {
		return nil, err
	}
	if s.exits = kubeletExits(cfg, o); s.exits != nil {
		s.exits = withHint(s.exits, fmt.Sprintf("fix the configuration; \"%s\" lists all problems", a.again("doctor")))
	}
	a.noteSecrets(s.req.PullSecrets)
	if s.subject != nil {
		for _, d := range s.subject.differences() {
			a.Note("without a pod: %s", d)
		}
	}
	return s, nil
}

// kubeletExits returns an error if the kubelet would not start because executables are
// missing.
func kubeletExits(cfg *config.Config, o *node.Origin) error {
	if o.NoProviders != nil {
		return nil
	}
	return report.KubeletExits(lint.BinDir(cfg, o.BinDir))
}

// newSession opens a keyring for a configuration.
func (a *app) newSession(ctx context.Context, cfg *config.Config, o *node.Origin, l *lookupFlags) (*session, error) {
	s := &session{cfg: cfg, origin: o}
	opts := regcred.Options{
		BinDir:  o.BinDir,
		Logger:  a.logger(),
		Environ: o.Environ, Dir: o.Dir, Timeout: a.timeout,
	}
	var err error
	if l.asksCluster() {
		if s.subject, err = a.findSubject(ctx, o, l); err != nil {
			return nil, err
		}
		opts.ServiceAccounts = s.subject.Client
		opts.Sources = append(opts.Sources, s.subject.unread...)
	}
	if !l.noNodeConfig {
		s.nodeConfig = regcred.NodeDockerConfig(doctor.DockerPaths(o))
		opts.Sources = append(opts.Sources, s.nodeConfig)
	}
	if s.req, err = l.request(ctx, s.subject); err != nil {
		return nil, err
	}
	if s.subject != nil {
		a.noteNamespaces(s.req.PullSecrets, s.subject.pod.Namespace)
	}
	s.Keyring, err = regcred.New(cfg, opts)
	return s, err
}

// lookup looks up a target. failed reports that all providers or a pull secret failed;
// the reasons are in the attempts, not in err. It is an error if there are no
// credentials on a node whose kubelet does not start, because that node pulls nothing,
// not even anonymously.
func (s *session) lookup(ctx context.Context, tgt target) (res *regcred.Result, failed bool, err error) {
	req := s.req
	req.Image, req.Registry = tgt.image, tgt.registry
	res, err = s.Lookup(ctx, req)
	if _, ok := errors.AsType[*regcred.LookupError](err); ok {
		return res, true, nil
	}
	if err == nil && pullSecretFailed(res.Attempts) {
		// kubelet: MakeDockerKeyring fails as a whole, and so does the pull.
		res.Credentials, failed = nil, true
	}
	if err == nil && !failed && len(res.Credentials) == 0 && s.exits != nil {
		return nil, false, s.exits
	}
	return res, failed, err
}

func failedOf(attempts []regcred.Attempt) []regcred.Attempt {
	return slices.DeleteFunc(slices.Clone(attempts), func(at regcred.Attempt) bool { return at.Err == nil })
}

func pullSecretFailed(attempts []regcred.Attempt) bool {
	return slices.ContainsFunc(failedOf(attempts), func(at regcred.Attempt) bool { return at.Kind == regcred.FromPullSecret })
}

// warnFailed warns about failed attempts if others succeeded, and prints why a plugin
// has no credentials, which the kubelet drops.
func (a *app) warnFailed(attempts []regcred.Attempt) {
	for _, at := range failedOf(attempts) {
		a.Warn("%v", at.Err)
	}
	for _, at := range attempts {
		if said := strings.TrimSpace(at.Stderr); at.Err == nil && at.Matched == 0 && said != "" {
			a.Note("provider %q has no credentials: %s", at.Provider, said[strings.LastIndexByte(said, '\n')+1:])
		}
	}
}
