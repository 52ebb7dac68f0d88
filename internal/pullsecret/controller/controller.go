// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package controller keeps image pull secrets fresh in an API server. Package pullsecret decides what
// they contain.
//
//	err := controller.Run(ctx, restConfig, controller.Options{
//		PullSecrets: "/etc/regcred/pull-secrets.yaml", Providers: "/etc/regcred/providers.yaml",
//		BinDir: "/plugins", LeaderElectionNamespace: "regcred-system", Logger: logger,
//	})
//
// It creates a Secret, empty, as soon as a namespace is selected, and then updates it in place with
// server-side apply. It never deletes a Secret, and never overwrites one that it did not create. It
// lists and watches metadata only, and reads the content of its own Secret only to keep a credential
// that it cannot fetch again.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrl "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/regcred/regcred/internal/pullsecret"
	"github.com/regcred/regcred/plugin"
)

// LeaderElectionID is the name of the Lease.
const LeaderElectionID = "regcred-controller"

// Options configures [Run].
type Options struct {
	PullSecrets string // path of the PullSecretConfig
	Providers   string // path of the CredentialProviderConfig, a file or directory

	// BinDir is the directory of the plugins. Plugin, if not nil, returns what is called instead.
	BinDir string
	Plugin func(provider string) plugin.Provider

	LeaderElectionNamespace string        // "" disables leader election
	LeaseDuration           time.Duration // 0 means 15 seconds
	MetricsAddress          string        // "0" disables the metrics
	HealthAddress           string        // "" disables the probes
	ReloadInterval          time.Duration // how often the files are read again; 0 means 10 seconds

	Logger *slog.Logger
}

// workers is the number of Secrets that are written at the same time.
const workers = 8

var (
	secretKind    = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	accountKind   = schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}
)

func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(kind)
	return o
}

// Run runs the controller until ctx is done. It returns an error if it cannot start or has lost its
// leadership.
func Run(ctx context.Context, cfg *rest.Config, opts Options) error {
	cfg = rest.CopyConfig(cfg)
	if opts.ReloadInterval == 0 {
		opts.ReloadInterval = 10 * time.Second
	}
	plan, files, err := loadFiles(ctx, opts)
	if err != nil {
		return err
	}
	for _, t := range plan.Unmatched() {
		opts.Logger.Warn("no provider matches", "target", t.String())
	}
	log.SetLogger(logr.FromSlogHandler(opts.Logger.Handler()))
	mgr, err := newManager(cfg, plan.File, opts)
	if err != nil {
		return err
	}
	writer, err := metadata.NewForConfigAndClient(cfg, mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	r := &reconciler{
		opts: opts, plan: plan, client: mgr.GetClient(), direct: mgr.GetAPIReader(), namespaces: mgr.GetCache(),
		secrets: map[string]cache.Cache{}, writer: writer.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}),
		events: eventLog{recorder: mgr.GetEventRecorder(pullsecret.ManagedBy)},
	}
	r.exchanger = pullsecret.NewExchanger(plan.Config, pullsecret.ExchangerOptions{
		BinDir: opts.BinDir, Plugin: opts.Plugin, ServiceAccounts: r.accountClient, Notify: r.notify, Observer: observe,
	})
	defer r.exchanger.Close()
	if err := r.addTo(mgr); err != nil {
		return err
	}
	if err := mgr.Add(&reloader{r, files}); err != nil {
		return err
	}
	setConfigInfo(plan.Config)
	unregister, err := registerCollector(r)
	if err != nil {
		return err
	}
	defer unregister()
	return mgr.Start(ctx)
}

func newManager(cfg *rest.Config, f *pullsecret.File, opts Options) (manager.Manager, error) {
	o := manager.Options{
		Metrics:                metricsserver.Options{BindAddress: opts.MetricsAddress},
		HealthProbeBindAddress: opts.HealthAddress,
		LeaderElection:         opts.LeaderElectionNamespace != "", LeaderElectionNamespace: opts.LeaderElectionNamespace,
		LeaderElectionID: LeaderElectionID, LeaderElectionReleaseOnCancel: true,
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			metadataOf(namespaceKind): {Label: labels.SelectorFromSet(labels.Set(f.Namespaces))},
		}},
	}
	if d := opts.LeaseDuration; d > 0 {
		renew, retry := d*2/3, d/6
		o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = &d, &renew, &retry
	}
	mgr, err := manager.New(cfg, o)
	if err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("caches", func(req *http.Request) error {
		if !mgr.GetCache().WaitForCacheSync(req.Context()) {
			return errors.New("the caches are not synced")
		}
		return nil
	})
}

// addTo adds the caches and the controller to a manager.
func (r *reconciler) addTo(mgr manager.Manager) error {
	yes := true
	c, err := ctrl.New("pullsecret", mgr, ctrl.Options{
		Reconciler: r, MaxConcurrentReconciles: workers, SkipNameValidation: &yes, // a process may run two controllers, in tests
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, 5*time.Minute),
	})
	if err != nil {
		return err
	}
	type meta = *metav1.PartialObjectMetadata
	mapTo := func(f func(meta) []reconcile.Request) handler.TypedEventHandler[meta, reconcile.Request] {
		return handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, o meta) []reconcile.Request { return f(o) })
	}
	sources := []source.Source{
		source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			r.queue.Store(&q)
			return nil
		}),
		source.Kind(mgr.GetCache(), metadataOf(namespaceKind), mapTo(func(o meta) []reconcile.Request { return r.requests(o.Name) })),
	}
	for _, name := range r.plan.File.SecretNames() {
		byName, account, err := r.newCache(mgr, name)
		if err != nil {
			return err
		}
		sources = append(sources, source.Kind(byName, metadataOf(secretKind), mapTo(func(o meta) []reconcile.Request {
			return []reconcile.Request{request(o.Namespace, o.Name)}
		})))
		if account != "" {
			sources = append(sources, source.Kind(byName, metadataOf(accountKind), mapTo(func(o meta) []reconcile.Request {
				return []reconcile.Request{request(o.Namespace, name)}
			})))
		}
	}
	for _, s := range sources {
		if err := c.Watch(s); err != nil {
			return err
		}
	}
	return nil
}

// newCache adds a cache with the Secrets of one name in all namespaces, and with the service accounts
// to which they belong. A cache holds one name, because the role and the field selector are by name.
func (r *reconciler) newCache(mgr manager.Manager, name string) (cache.Cache, string, error) {
	account, _ := r.plan.File.Account(name)
	byObject := map[client.Object]cache.ByObject{metadataOf(secretKind): {Field: fields.OneTermEqualSelector("metadata.name", name)}}
	if account != "" {
		byObject[metadataOf(accountKind)] = cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", account)}
	}
	c, err := cache.New(mgr.GetConfig(), cache.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), ByObject: byObject})
	if err != nil {
		return nil, "", fmt.Errorf("cache of %s: %w", name, err)
	}
	r.secrets[name] = c
	return c, account, mgr.Add(c)
}
