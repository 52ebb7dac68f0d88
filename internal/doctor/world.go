// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/probe"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/route"
	"github.com/regcred/regcred/internal/service"
	"github.com/regcred/regcred/kube"
)

// Input holds everything to check: a node and, optionally, a cluster and an image. Use each
// Input for only one [Run].
type Input struct {
	Kubelet
	OriginErr error         // why there is no Origin
	Environ   []string      // this process's environment
	Cluster   *Cluster      // nil: do not check the cluster
	Image     *Image        // nil: do not trace an image
	Rules     report.Filter // selects lint findings

	target    node.TargetKubelet
	configErr error
	runtime   *Runtime
}

// Kubelet is the kubelet of a node with its configuration.
type Kubelet struct {
	Node    *node.Reader
	Setup   *node.Setup      // nil on a system that runs no kubelet
	Service *service.Service // the kubelet's service; nil if it cannot be queried

	Origin       *node.Origin   // source of the configuration; nil if none was found
	CallerOrigin *node.Origin   // sets the docker config directories if Origin is nil; may be nil
	Config       *config.Config // nil if invalid; empty if there are no credential providers
}

// Cluster is a cluster to check, and the client to use.
type Cluster struct {
	Client       *kube.Client
	ConfigSource string     // source of the client's configuration
	Err          error      // why there is no Client
	Skipped      string     // why the cluster is not checked
	Clock        *ClockSkew // observes the responses to Client
	Namespace    string     // namespace of the pod
	PodName      string     // "" if no pod is checked; then no token is requested

	config     *config.Config // never nil
	configPath string

	user         kube.User
	userErr      error
	identified   bool
	pod          *kube.Pod
	podErr       error
	tokenResults []tokenRequestResult
}

// tokenRequestResult is the result of a TokenRequest in dry-run mode.
type tokenRequestResult struct {
	audience string
	skipped  string // reason for skipping; "" if the request was made
	err      error
}

// Image is an image whose pull is traced up to the request for the manifest.
type Image struct {
	Reference string
	// Lookup finds credentials as the kubelet does. refused means that the kubelet
	// would not pull at all. If Lookup is nil, no plugins are run.
	Lookup   func(context.Context) (result *regcred.Result, refused bool, err error)
	ForPod   bool          // whether Lookup is for a pod
	Platform string        // such as linux/amd64
	Offline  bool          // contact no host
	Timeout  time.Duration // total for all hosts

	config        *config.Config // nil unless it is valid
	fixForAttempt func(regcred.Attempt) string
	route         func(route.Image) (*route.Route, error)
	prober        probe.Prober

	findings  *checkResults
	result    *ImageResult
	keyEdit   string // the edit after which a pull secret's key matches; "" if no edit helps
	unmatched int    // 1 + the index in findings.list of the finding that no provider matches; 0 if one matches
}

// dockerConfigOrigin returns the origin with the directories of docker config files, or nil.
func (k *Kubelet) dockerConfigOrigin() *node.Origin { return cmp.Or(k.Origin, k.CallerOrigin) }

// loadConfig loads and validates the configuration.
func (w *Input) loadConfig(ctx context.Context) {
	switch o := w.Origin; {
	case o == nil:
	case o.NoProviders != nil:
		w.Config = &config.Config{}
	default:
		cfg, err := config.Load(o.Config)
		if err == nil {
			w.target, err = w.Node.ValidateConfig(ctx, o, cfg)
		}
		if w.configErr = err; err != nil {
			cfg = nil
		}
		w.Config = cfg
	}
	if w.Cluster != nil {
		w.Cluster.config = w.configOrEmpty()
		if w.Origin != nil {
			w.Cluster.configPath = w.Origin.Config
		}
	}
}

// configOrEmpty returns the configuration, or an empty configuration if it is not valid.
func (w *Input) configOrEmpty() *config.Config { return cmp.Or(w.Config, &config.Config{}) }

// findRuntime finds the container runtime, and caches the result.
func (w *Input) findRuntime(ctx context.Context) *Runtime {
	if w.runtime == nil {
		w.runtime = FindRuntime(ctx, w.Node, w.Origin)
	}
	return w.runtime
}

// generationStore returns the directory that "regcred install" uses.
func (w *Input) generationStore() generation.Store {
	return generation.Store{FS: inroot.FS{Root: w.Node.Root}, Dir: generation.DefaultDir}
}

// ProviderNames returns the names of the providers, which are also their executables' names.
func ProviderNames(cfg *config.Config) []string {
	var list []string
	for _, p := range cfg.Providers {
		list = append(list, p.Name)
	}
	return list
}

// Audiences returns the audience of each provider with tokenAttributes, without
// duplicates, in configuration order.
func Audiences(cfg *config.Config) []string {
	var list []string
	for _, p := range cfg.Providers {
		if t := p.TokenAttributes; t != nil && !slices.Contains(list, t.ServiceAccountTokenAudience) {
			list = append(list, t.ServiceAccountTokenAudience)
		}
	}
	return list
}

func isSamePath(a, b string) bool {
	if a == b {
		return true
	}
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}

// ClockSkew compares an API server's clock with this machine's.
type ClockSkew struct {
	Now      func() time.Time
	next     http.RoundTripper
	first    sync.Once
	skew     time.Duration // how far the server's clock is ahead
	measured bool
}

// WrapTransport returns a transport that reads the server's time from the first
// response. The transport is safe for concurrent use.
func (s *ClockSkew) WrapTransport(next http.RoundTripper) http.RoundTripper {
	s.next = next
	return s
}

// RoundTrip sends the request, and measures the clock skew with the first response. It
// compares the Date header with the time halfway between the request and the response.
func (s *ClockSkew) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := s.Now()
	resp, err := s.next.RoundTrip(req)
	if err == nil {
		s.first.Do(func() {
			date, err := http.ParseTime(resp.Header.Get("Date"))
			if s.measured = err == nil; s.measured {
				s.skew = date.Sub(sent.Add(s.Now().Sub(sent) / 2))
			}
		})
	}
	return resp, err
}
