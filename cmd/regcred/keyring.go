// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/plugin"
)

// session is an open keyring, and what it was opened with.
type session struct {
	*regcred.Keyring
	cfg     *config.Config
	origin  *node.Origin
	subject *kubeSubject // nil without --pod and --service-account
}

// openKeyring finds, loads and validates the configuration and makes a
// keyring of it, with the sources and in the environment of a pull on this
// node, for the pod that l names. The caller closes it.
func (a *app) openKeyring(ctx context.Context, l *lookupFlags) (*session, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	o, err := a.resolve("", true)
	if err != nil {
		return nil, err
	}
	cfg, err := a.loadValid(o)
	if err != nil {
		return nil, err
	}
	s, err := a.newSession(ctx, cfg, o, l)
	if err != nil {
		return nil, err
	}
	if s.subject != nil {
		a.noteSubject(s.subject)
	}
	return s, nil
}

// newSession makes a keyring of a configuration that was loaded.
func (a *app) newSession(ctx context.Context, cfg *config.Config, o *node.Origin, l *lookupFlags) (*session, error) {
	s := &session{cfg: cfg, origin: o}
	opts := regcred.Options{
		BinDir:  o.BinDir,
		Logger:  a.logger(),
		Command: plugin.Command{Environ: o.Environ, Dir: o.Dir, Timeout: a.timeout},
	}
	var err error
	if l.pod.given() || l.serviceAccount.given() {
		if s.subject, err = a.findSubject(ctx, o, l.kubeFlags, l.pod, l.serviceAccount); err != nil {
			return nil, err
		}
		opts.ServiceAccounts = s.subject.Client
		opts.Sources = append(opts.Sources, s.subject.unread...)
	}
	if !l.noNodeConfig {
		opts.Sources = append(opts.Sources, nodeDockerConfig(o))
	}
	s.Keyring, err = regcred.New(cfg, opts)
	return s, err
}

// lookup asks k. A failure of everything, or of a pull secret, is no error
// here: it is returned as failure, beside the result that says what happened.
func lookup(ctx context.Context, k *regcred.Keyring, req regcred.Request, repository string) (res *regcred.Result, failure *regcred.LookupError, err error) {
	res, err = k.Lookup(ctx, req)
	if errors.As(err, &failure) {
		return res, failure, nil
	}
	if err == nil && pullSecretFailed(res.Attempts) {
		// kubelet: MakeDockerKeyring fails as a whole, and the pull with it.
		res.Credentials = nil
		failure = &regcred.LookupError{Image: repository, Failed: failedOf(res.Attempts)}
	}
	return res, failure, err
}

func failedOf(attempts []regcred.Attempt) []regcred.Attempt {
	return slices.DeleteFunc(slices.Clone(attempts), func(at regcred.Attempt) bool { return at.Err == nil })
}

func pullSecretFailed(attempts []regcred.Attempt) bool {
	return slices.ContainsFunc(failedOf(attempts), func(at regcred.Attempt) bool { return at.Kind == regcred.SourcePullSecret })
}

// warnFailed tells of what failed beside something that answered, and passes
// on what a plugin had to say of having no credentials: a kubelet drops that.
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
