// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/regcred/regcred/internal/pullsecret"
)

// reconciler writes Secrets. A request names a Secret that may not exist yet.
type reconciler struct {
	opts       Options
	client     client.Client
	direct     client.Reader // reads from the API server
	namespaces cache.Cache
	secrets    map[string]cache.Cache // by name; also the service accounts
	writer     metadata.Getter
	exchanger  *pullsecret.Exchanger
	events     eventLog
	queue      atomic.Pointer[workqueue.TypedRateLimitingInterface[reconcile.Request]]

	mu   sync.RWMutex
	plan *pullsecret.Plan
}

func (r *reconciler) currentPlan() *pullsecret.Plan {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.plan
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// requests returns the requests for all Secrets of a namespace.
func (r *reconciler) requests(namespace string) (list []reconcile.Request) {
	for _, name := range r.currentPlan().File.SecretNames() {
		list = append(list, request(namespace, name))
	}
	return list
}

// notify makes the controller look at a Secret again.
func (r *reconciler) notify(w pullsecret.Waiter) {
	if q := r.queue.Load(); q != nil {
		(*q).Add(request(w.Namespace, w.Secret))
	}
}

// notYet is the delay after which a Secret that cannot be written is tried again. A change of the
// Secret is noticed earlier.
const notYet = 10 * time.Minute

// Reconcile implements [reconcile.Reconciler].
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s, err := r.load(ctx, req)
	if err != nil || s == nil {
		return reconcile.Result{}, err
	}
	delay, err := s.reconcile(ctx)
	if err != nil {
		return s.handleError(err)
	}
	return reconcile.Result{RequeueAfter: delay}, nil
}

// target is a Secret that the controller keeps fresh.
type target struct {
	*reconciler
	namespace string
	plan      pullsecret.SecretPlan
	grace     time.Duration
	regarding client.Object                 // for events: the namespace or the service account
	object    *metav1.PartialObjectMetadata // nil if the Secret does not exist
}

// load returns nil if nothing is to be done: the namespace is not selected or is being deleted, or the
// Secret's service account does not exist.
func (r *reconciler) load(ctx context.Context, req reconcile.Request) (*target, error) {
	plan := r.currentPlan()
	byName, ok := r.secrets[req.Name]
	if !ok {
		return nil, nil
	}
	account, _ := plan.File.Account(req.Name)
	forget := func() (*target, error) {
		if account != "" {
			r.exchanger.Forget(pullsecret.Account{Namespace: req.Namespace, Name: account})
		}
		r.events.forget(req)
		return nil, nil
	}
	namespace := metadataOf(namespaceKind)
	err := r.namespaces.Get(ctx, types.NamespacedName{Name: req.Namespace}, namespace)
	if apierrors.IsNotFound(err) || err == nil && namespace.DeletionTimestamp != nil {
		return forget()
	}
	if err != nil {
		return nil, err
	}
	t := &target{reconciler: r, namespace: req.Namespace, grace: plan.File.RemovalGracePeriod}
	if t.plan, ok = plan.Secret(namespace.Labels, req.Name); !ok {
		return forget()
	}
	namespace.Namespace = req.Namespace // so that the event is in the namespace
	t.regarding = namespace
	if account != "" {
		sa := metadataOf(accountKind)
		if err := byName.Get(ctx, types.NamespacedName{Namespace: req.Namespace, Name: account}, sa); apierrors.IsNotFound(err) {
			return forget()
		} else if err != nil {
			return nil, err
		}
		t.regarding = sa
	}
	secret := metadataOf(secretKind)
	switch err := byName.Get(ctx, req.NamespacedName, secret); {
	case err == nil:
		t.object = secret
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	return t, nil
}

// reconcile writes the Secret if necessary, and returns when to look at it again.
func (s *target) reconcile(ctx context.Context) (time.Duration, error) {
	if s.object == nil {
		// The watch reports the new Secret. Its UID is needed for tokens.
		return 0, s.create(ctx)
	}
	if s.object.DeletionTimestamp != nil {
		return 0, nil
	}
	if s.object.Labels[pullsecret.LabelManagedBy] != pullsecret.ManagedBy {
		s.warn("ForeignSecret", fmt.Sprintf("Secret %s exists and the controller did not create it; it is not changed: rename or delete it", s.plan.Name))
		return notYet, nil
	}
	status := pullsecret.ParseStatus(s.object.Annotations)
	intact := s.ownsData()
	now := time.Now()
	if len(s.plan.Providers) == 0 && len(status.Entries) == 0 && status.ConfigHash == s.plan.Hash && intact {
		return 0, nil
	}
	if intact && status.IsFresh(now, s.plan.Hash, s.exchanger.Replaced) {
		return status.Refresh.Sub(now), nil
	}
	return s.refresh(ctx, status, intact, now)
}

func (s *target) refresh(ctx context.Context, old pullsecret.Status, intact bool, now time.Time) (time.Duration, error) {
	in := pullsecret.ContentInput{
		Plan: s.plan, Outcomes: map[string]pullsecret.Outcome{}, Old: old, GracePeriod: s.grace, Now: now,
		Previous: func() ([]byte, error) { return s.readData(ctx) },
	}
	var next time.Time
	pending := false
	for _, pt := range s.plan.Providers {
		o := s.getCredentials(pt)
		in.Outcomes[pt.Provider] = o
		pending = pending || o.Pending
		if !o.Retry.IsZero() && (next.IsZero() || o.Retry.Before(next)) {
			next = o.Retry
		}
	}
	content, err := pullsecret.NewContent(in)
	if err != nil {
		return 0, err
	}
	s.report(in, content)
	if pending && !content.HasNew(old) {
		return 0, nil // the end of the round is notified
	}
	if !intact || !content.Status.Equal(old) {
		if err := s.apply(ctx, content); err != nil {
			return 0, err
		}
	}
	if r := content.Status.Refresh; !r.IsZero() && (next.IsZero() || r.Before(next)) {
		next = r
	}
	if pending || next.IsZero() {
		return 0, nil
	}
	return max(time.Until(next), time.Second), nil
}

// getCredentials gets a provider's credentials for the Secret. For the controller's identity, it asks
// for all targets of the file, so that one run of the provider serves every namespace.
func (s *target) getCredentials(pt pullsecret.ProviderTargets) pullsecret.Outcome {
	w := pullsecret.Waiter{Namespace: s.namespace, Secret: s.plan.Name}
	if s.plan.Account != "" {
		return s.exchanger.Get(pullsecret.Account{Namespace: s.namespace, Name: s.plan.Account}, pt.Provider, pt.Targets, w)
	}
	all := s.exchanger.Get(pullsecret.Account{}, pt.Provider, s.currentPlan().SharedTargets(pt.Provider), w)
	return all.Only(pt.Targets)
}

// report records events for failures and for removed providers.
func (s *target) report(in pullsecret.ContentInput, c *pullsecret.Content) {
	if errs := in.Errors(); len(errs) > 0 {
		text := errors.Join(errs...).Error()
		countFailures(in)
		if c.Status.Missing > 0 {
			text = fmt.Sprintf("Secret %s lacks credentials for %d registries or images: %s", s.plan.Name, c.Status.Missing, text)
		} else {
			text = fmt.Sprintf("Secret %s keeps its credentials until %s: %s", s.plan.Name, c.Status.Expires().Format(time.RFC3339), text)
		}
		s.warn("RefreshFailed", text)
		return
	}
	if len(c.Removed) > 0 {
		e := c.Removed[0]
		s.warn("RegistryRemoved", fmt.Sprintf("Secret %s keeps removed registries: %s of provider %s and %d more are no longer configured; the credentials are removed after %s",
			s.plan.Name, e.Key, e.Provider, len(c.Removed)-1, e.Removed.Add(s.grace).Format(time.RFC3339)))
		return
	}
	s.events.clear(request(s.namespace, s.plan.Name))
}

func (s *target) warn(reason, text string) {
	if s.events.warn(request(s.namespace, s.plan.Name), s.regarding, reason, text) {
		s.opts.Logger.Warn("pull secret", "namespace", s.namespace, "secret", s.plan.Name, "reason", reason, "cause", text)
	}
}

// handleError decides what to do after a failed request. The text of a response to a write could
// contain a value of the Secret, so it is cut before the first value.
func (s *target) handleError(err error) (reconcile.Result, error) {
	var status apierrors.APIStatus
	isStatus := errors.As(err, &status)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		s.warn("WriteRejected", fmt.Sprintf("Secret %s is not written: the API server rejected the request: %s", s.plan.Name, withoutValues(status.Status().Message)))
		return reconcile.Result{RequeueAfter: notYet/2 + rand.N(notYet/2)}, nil
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: time.Second + rand.N(time.Second)}, nil
	}
	if large, ok := errors.AsType[*pullsecret.TooLargeError](err); ok {
		s.warn("TooLarge", fmt.Sprintf("Secret %s keeps its previous content: %s", s.plan.Name, large))
		return reconcile.Result{RequeueAfter: notYet}, nil
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		return reconcile.Result{RequeueAfter: time.Duration(seconds)*time.Second + rand.N(time.Second)}, nil
	}
	if isStatus {
		err = errors.New(withoutValues(status.Status().Message))
	}
	return reconcile.Result{}, fmt.Errorf("write Secret %s/%s: %w", s.namespace, s.plan.Name, err)
}

// withoutValues cuts an API server's message before a quoted value.
func withoutValues(message string) string {
	before, _, cut := strings.Cut(message, "Invalid value:")
	if cut {
		before += "invalid value"
	}
	return before
}
