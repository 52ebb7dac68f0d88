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
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/kube"
)

// kubeSubject is the pod or service account that images are pulled for, as read from
// the API server.
type kubeSubject struct {
	*cluster
	pod               *kube.Pod // has no name with --service-account
	secrets           []regcred.PullSecret
	unreadableSecrets []regcred.Source // one source for each pull secret that could not be read
}

// findSubject reads the pod or, if no pod is set, the service account from the API
// server.
func (a *app) findSubject(ctx context.Context, o *node.Origin, l *lookupFlags) (*kubeSubject, error) {
	c, err := a.connectKube(ctx, o, l.kubeFlags, nil)
	if err != nil {
		return nil, err
	}
	s := &kubeSubject{cluster: c}
	if l.pod.isSet() {
		s.pod, err = c.Pod(ctx, l.pod.namespace, l.pod.name)
	} else {
		namespace, name := l.serviceAccount.namespace, l.serviceAccount.name
		s.pod = &kube.Pod{Pod: regcred.Pod{Namespace: namespace, ServiceAccount: name}}
		s.pod.PullSecrets, err = c.AccountPullSecrets(ctx, namespace, name)
	}
	if err != nil {
		return nil, withHint(err, doctor.KubeFix(err, o.Config))
	}
	s.secrets, err = c.PullSecrets(ctx, s.pod.Namespace, s.pod.PullSecrets)
	for _, err := range terminal.FlattenErrors(err) {
		name := s.pod.Namespace
		if e, ok := errors.AsType[*kube.Error](err); ok {
			name += "/" + e.Name
		}
		s.unreadableSecrets = append(s.unreadableSecrets, &unreadableSecret{name, err})
	}
	return s, nil
}

// isPod reports whether the subject is a pod, and not only a service account.
func (s *kubeSubject) isPod() bool { return s.pod.Name != "" }

// pullSecretOwner returns the object that references the pull secrets.
func (s *kubeSubject) pullSecretOwner() string {
	if s.isPod() {
		return "the pod" // admission copies the account's pull secrets to the pod
	}
	return "service account " + s.pod.ServiceAccount
}

// podDifferences lists how the kubelet's lookup for a pod can differ from a lookup for only its
// service account.
func (s *kubeSubject) podDifferences() []string {
	if s.isPod() {
		return nil
	}
	return []string{
		"the kubelet's token is bound to the pod and the pod's node; this token is bound to neither, and a node's identity cannot request it",
		"these are the service account's pull secrets; a pod with its own imagePullSecrets uses only those",
		"with cacheType: Token, the kubelet runs the plugin for each pod, because each pod has its own token",
	}
}

// printUnusedImageNote prints a note if the pod does not use the looked-up image.
func (a *app) printUnusedImageNote(cfg *config.Config, s *kubeSubject, repository string) {
	if s == nil || len(s.pod.Images) == 0 {
		return
	}
	has := func(image string) bool {
		return regcred.Explain(cfg, regcred.Request{Image: image}).Repository == repository
	}
	if !slices.ContainsFunc(s.pod.Images, has) {
		a.Note("pod %s/%s has no container with this image; its images are %s", s.pod.Namespace, s.pod.Name, strings.Join(s.pod.Images, ", "))
	}
}

// unreadableSecret is a pull secret that could not be read from the API server. As a
// [regcred.Source], it always returns an error. The kubelet skips a secret that it cannot read and
// records an event. A secret that it cannot parse fails the pull.
type unreadableSecret struct {
	name string // NAMESPACE/NAME
	error
}

func (u *unreadableSecret) Unwrap() error { return u.error }

const unreadableSecretPrefix = "pull secret "

// Name returns the name of the source.
func (u *unreadableSecret) Name() string { return unreadableSecretPrefix + u.name }

// Auths always returns an error.
func (u *unreadableSecret) Auths(context.Context, string) ([]regcred.AuthSet, error) { return nil, u }
