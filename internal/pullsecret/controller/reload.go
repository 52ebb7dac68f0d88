// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/pullsecret"
	"github.com/regcred/regcred/internal/regularfile"
)

// fileState identifies the content of the configuration files.
type fileState struct {
	pullSecrets []byte
	providers   string // hash
}

const maxFileSize = 1 << 20

func loadFiles(ctx context.Context, opts Options) (*pullsecret.Plan, fileState, error) {
	data, err := regularfile.Read(ctx, opts.PullSecrets, maxFileSize)
	if err != nil {
		return nil, fileState{}, fmt.Errorf("read %s: %w", opts.PullSecrets, regularfile.BareError(err))
	}
	f, err := pullsecret.Parse(opts.PullSecrets, data)
	if err != nil {
		return nil, fileState{}, err
	}
	c, err := config.Load(opts.Providers)
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return nil, fileState{}, err
	}
	return pullsecret.NewPlan(f, c), fileState{data, c.Hash()}, nil
}

var _ manager.LeaderElectionRunnable = (*reloader)(nil)

// reloader reads the files again and keeps the last valid configuration. It implements
// [manager.LeaderElectionRunnable].
type reloader struct {
	*reconciler
	loaded fileState
}

// NeedLeaderElection makes every replica read the files. A new leader with an old configuration would
// write every Secret twice.
func (l *reloader) NeedLeaderElection() bool { return false }

// Start implements [manager.Runnable].
func (l *reloader) Start(ctx context.Context) error {
	tick := time.NewTicker(l.opts.ReloadInterval)
	defer tick.Stop()
	reported := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		text := ""
		if err := l.reload(ctx); err != nil {
			text = err.Error()
		}
		if text != "" && text != reported {
			reloads.WithLabelValues("error").Inc()
			l.opts.Logger.Error("reload failed; the last valid configuration stays in use", "cause", text)
		}
		reported = text
	}
}

func (l *reloader) reload(ctx context.Context) error {
	plan, files, err := loadFiles(ctx, l.opts)
	if err != nil {
		return err
	}
	if files.providers == l.loaded.providers && bytes.Equal(files.pullSecrets, l.loaded.pullSecrets) {
		return nil
	}
	old := l.currentPlan().File
	if old.SecretName != plan.File.SecretName || !maps.Equal(old.Namespaces, plan.File.Namespaces) || !slices.Equal(old.ServiceAccounts, plan.File.ServiceAccounts) {
		return errors.New("secretName, namespaces and serviceAccounts cannot change without a restart, because roles and policies depend on them")
	}
	l.mu.Lock()
	l.plan = plan
	l.mu.Unlock()
	l.exchanger.Reload(plan.Config)
	l.loaded = files
	setConfigInfo(plan.Config)
	reloads.WithLabelValues("success").Inc()
	l.opts.Logger.Info("configuration reloaded")
	return l.notifyAll(ctx)
}

// notifyAll makes the controller look at every Secret again.
func (l *reloader) notifyAll(ctx context.Context) error {
	names, err := l.listNamespaces(ctx)
	for _, namespace := range names {
		for _, secret := range l.currentPlan().File.SecretNames() {
			l.notify(pullsecret.Waiter{Namespace: namespace, Secret: secret})
		}
	}
	return err
}
