// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package testkube is a small Kubernetes API server on loopback, for tests. Unlike
// a real API server, it can produce faults on request: errors, hangs and slow
// responses. upstream/cluster tests with a real API server.
//
//	api, err := testkube.New(testkube.Options{})
//	defer api.Close()
//	api.AddServiceAccount(testkube.ServiceAccount{Namespace: "ci", Name: "builder"})
//	err = api.Kubeconfig(path, testkube.Admin)
//	// a client reads the file and sends its requests
//	if got := api.CountRequests("create", "serviceaccounts/token"); got != 1 {
//
// It supports service accounts (get, and tokens), pods and secrets (get), lists of
// pods, nodes and DaemonSets, pod logs, patches of ConfigMaps, and
// SelfSubjectReviews.
//
// A client's bearer token determines its user. [Admin] has all permissions, and
// system:node:NAME has the permissions of that node's kubelet. [Server.Grant] adds
// permissions. Messages are copied from kube-apiserver 1.36.
package testkube

import (
	"context"
	"fmt"
	"time"

	"github.com/regcred/regcred/internal/canary"
)

// New starts an API server. Call [Server.Close] to stop it.
func New(opts Options) (*Server, error) {
	if opts.Secret == "" {
		opts.Secret = canary.TokenSecret
	}
	if opts.TokenLifetime == 0 {
		opts.TokenLifetime = time.Hour
	}
	s := &Server{opts: opts, addr: "127.0.0.1:0", store: newStore(), release: make(chan struct{}), stopped: true}
	s.mux = s.newMux()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.Start(); err != nil {
		return nil, fmt.Errorf("starting an API server on loopback: %w", err)
	}
	return s, nil
}
