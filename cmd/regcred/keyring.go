// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/lint"
)

// lookupSession is an open keyring with its configuration and origin.
type lookupSession struct {
	*regcred.Keyring
	cfg              *config.Config
	origin           *node.Origin
	subject          *kubeSubject    // nil without --pod and --service-account
	req              regcred.Request // the pod or service account; Image and Registry are not set
	kubeletExitError error           // why the kubelet would not start on this node, or nil

	nodeConfig regcred.Source // the node's docker config; nil with --no-node-config

	printedFindings map[string]bool // texts of the printed findings about the node's docker config
}

// openKeyring finds, loads and validates the configuration. It opens a keyring with the
// sources and the environment of a pull on this node, for the pod that l selects. The
// caller must close the session.
func (a *app) openKeyring(ctx context.Context, l *lookupFlags) (*lookupSession, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	o, err := a.findOrigin(ctx, a.localNode().NewReader(), node.FindOptions{AllowNone: true, NeedBinDir: true})
	if err != nil {
		return nil, err
	}
	cfg, err := a.loadValidConfig(ctx, o)
	if err != nil {
		return nil, err
	}
	s, err := a.newSession(ctx, cfg, o, l)
	if err != nil {
		return nil, err
	}
	if o.NoProviders == nil {
		if err := report.KubeletStopError(lint.BinDir(cfg, o.BinDir)); err != nil {
			s.kubeletExitError = withHint(err, fmt.Sprintf("fix the configuration; \"%s\" lists all problems", a.repeatCommandLine("doctor")))
		}
	}
	a.printSecretFindings(s.req.PullSecrets)
	if s.subject != nil {
		for _, d := range s.subject.podDifferences() {
			a.Note("without a pod: %s", d)
		}
	}
	return s, nil
}

// newSession opens a keyring for a configuration.
func (a *app) newSession(ctx context.Context, cfg *config.Config, o *node.Origin, l *lookupFlags) (*lookupSession, error) {
	s := &lookupSession{cfg: cfg, origin: o, printedFindings: map[string]bool{}}
	opts := regcred.Options{
		BinDir:  o.BinDir,
		Logger:  a.newLogger(),
		Environ: o.Environ, Dir: o.Dir, Timeout: a.timeout,
	}
	var err error
	if l.queriesCluster() {
		if s.subject, err = a.findSubject(ctx, o, l); err != nil {
			return nil, err
		}
		opts.ServiceAccounts = s.subject.Client
		opts.Sources = append(opts.Sources, s.subject.unreadableSecrets...)
	}
	if !l.noNodeConfig {
		s.nodeConfig = regcred.NodeDockerConfig(doctor.DockerConfigPaths(o))
		opts.Sources = append(opts.Sources, s.nodeConfig)
	}
	if s.req, err = l.newRequest(ctx, s.subject); err != nil {
		return nil, err
	}
	if s.subject != nil {
		a.printForeignNamespaces(s.req.PullSecrets, s.subject.pod.Namespace)
	}
	s.Keyring, err = regcred.New(cfg, opts)
	return s, err
}

// lookupTarget looks up credentials for tgt. failed is true if all providers or a pull secret
// failed. In that case err is nil, and the attempts contain the errors. If there are no credentials
// and the node's kubelet would not start, err states why. Such a node cannot pull at all, not even
// anonymously.
func (s *lookupSession) lookupTarget(ctx context.Context, tgt regcred.Request) (res *regcred.Result, failed bool, err error) {
	req := s.req
	req.Image, req.Registry = tgt.Image, tgt.Registry
	res, err = s.Lookup(ctx, req)
	if _, ok := errors.AsType[*regcred.LookupError](err); ok {
		return res, true, nil
	}
	if err == nil && hasFailedPullSecret(res.Attempts) {
		// In the kubelet, MakeDockerKeyring then returns an error, and the pull fails.
		res.Credentials, failed = nil, true
	}
	if err == nil && !failed && len(res.Credentials) == 0 && s.kubeletExitError != nil {
		return nil, false, s.kubeletExitError
	}
	return res, failed, err
}

func failedAttempts(attempts []regcred.Attempt) []regcred.Attempt {
	return slices.DeleteFunc(slices.Clone(attempts), func(at regcred.Attempt) bool { return at.Err == nil })
}

func hasFailedPullSecret(attempts []regcred.Attempt) bool {
	return slices.ContainsFunc(failedAttempts(attempts), func(at regcred.Attempt) bool { return at.Kind == regcred.FromPullSecret })
}

// isPullSecretInvalid reports whether the kubelet would not pull the image, because it cannot use a
// pull secret. It has none of regcred's limits.
func isPullSecretInvalid(attempts []regcred.Attempt) bool {
	return hasFailedPullSecret(slices.DeleteFunc(slices.Clone(attempts), func(at regcred.Attempt) bool { return errors.Is(at.Err, regularfile.ErrLimit) }))
}

// warnFailedAttempts prints a warning for each failed attempt. For a plugin that returned no
// credentials, it prints the last line of the plugin's standard error, which the kubelet discards.
func (a *app) warnFailedAttempts(attempts []regcred.Attempt) {
	for _, at := range failedAttempts(attempts) {
		a.Warn("%v", at.Err)
	}
	for _, at := range attempts {
		if said := strings.TrimSpace(at.Stderr); at.Err == nil && at.Matched == 0 && said != "" {
			a.Note("provider %q has no credentials: %s", at.Provider, said[strings.LastIndexByte(said, '\n')+1:])
		}
	}
}

// newRequest returns a lookup request from the flags and the subject, which may be nil. The caller
// sets the image or registry. As in the kubelet, all pull secrets form one keyring. The pod's own
// secrets come first.
func (l *lookupFlags) newRequest(ctx context.Context, s *kubeSubject) (req regcred.Request, err error) {
	if s != nil {
		req.Pod, req.PullSecrets = &s.pod.Pod, slices.Clone(s.secrets)
	}
	for _, name := range l.pullSecrets {
		secrets, err := readPullSecrets(ctx, name)
		if err != nil {
			return req, fmt.Errorf("--pull-secret: %w", err)
		}
		req.PullSecrets = append(req.PullSecrets, secrets...)
	}
	req.Token, req.Annotations, err = l.identityFlags.readIdentity(ctx)
	return req, err
}

// nodeFindings returns the lint findings for the docker config that the node uses.
func (s *lookupSession) nodeFindings(ctx context.Context, now time.Time) (list []finding.Finding) {
	if s.nodeConfig == nil {
		return nil
	}
	sets, _ := s.nodeConfig.Auths(ctx, "") // unreadable files are reported by the lookup
	for _, set := range sets {
		if found := doctor.DockerConfigFindings(ctx, set.Origin.File, now); found != nil {
			list = append(list, found.Findings...)
		}
	}
	return list
}

// printNodeFindings prints the findings about the node's docker config that can explain the result,
// each finding only once. It prints nothing if only other sources returned credentials.
func (s *lookupSession) printNodeFindings(ctx context.Context, a *app, res *regcred.Result) {
	var matched []string
	for _, c := range res.Credentials {
		if c.Origin.Kind == regcred.FromNode {
			matched = append(matched, c.Match)
		}
	}
	if len(matched) == 0 && len(res.Credentials) > 0 {
		return
	}
	for _, f := range s.nodeFindings(ctx, a.Now()) {
		if text := f.String(); isRelevantToImage(f, matched) && !s.printedFindings[text] {
			a.Note("%s", text)
			s.printedFindings[text] = true
		}
	}
}
