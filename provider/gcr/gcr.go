// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package gcr gets credentials for Google Artifact Registry and Container Registry. For the node's
// identity, it gets an access token from the metadata server. For the pod's service account, it
// gets one from the Security Token Service. It also supports docker configs in the instance's
// metadata.
//
//	provider, err := gcr.New(gcr.Options{})
//	if err != nil {
//		return err
//	}
//	plugin.Main(provider)
//
// The package does not search for application default credentials, key files or gcloud. This
// prevents the use of an unintended identity. For workload identity federation of a program in a
// pod, see [InPod].
//
// cmd/auth-provider-gcp is a plugin that replaces the plugin in kubernetes/cloud-provider-gcp.
package gcr

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/plugin"
)

// The values of [Options.Flow].
const (
	FlowRegistry     = "gcr"           // an access token
	FlowDockercfg    = "dockercfg"     // the docker config in the instance attribute google-dockercfg
	FlowDockercfgURL = "dockercfg-url" // the docker config at the URL in google-dockercfg-url
)

// Service account annotations that a [Provider] uses.
const (
	// AnnotationEnable, if its value is "true", makes a pod pull as its service
	// account.
	AnnotationEnable = "iam.gke.io/enable-wi-image-pull"
	// AnnotationAccount is the e-mail address of the Google service account to
	// impersonate; see [Options.Impersonate].
	AnnotationAccount = "iam.gke.io/gcp-service-account"
)

// Options configures a [Provider]. The zero value uses the node's identity and serves
// only Google's registries.
type Options struct {
	Flow string // "" means [FlowRegistry]

	// IdentityProvider is the issuer of the cluster's tokens, as configured in the workload
	// identity pool. If it is set, pods with [AnnotationEnable] pull as their service account. It
	// requires ProjectID, the pool's project.
	IdentityProvider string
	ProjectID        string

	// STSAudience is the audience of a workload identity provider. If it is set, all pods pull as
	// their service account, even without an annotation.
	STSAudience string

	// RequireWorkloadIdentity rejects requests that would use the node's identity.
	RequireWorkloadIdentity bool

	// Impersonate makes a pod that pulls as its service account impersonate the Google
	// service account in [AnnotationAccount], if the annotation is set.
	Impersonate bool

	// CredentialsFile is the path of a workload identity federation configuration in JSON. It is
	// used instead of the node's identity. Other types of credentials are rejected.
	CredentialsFile string

	// UniverseDomain is the domain of Google's services; "" means googleapis.com.
	UniverseDomain string

	// AllowHosts lists additional hosts that receive the access token, as host[:port]. A * matches
	// within one label.
	AllowHosts []string

	// AnyHost sends the access token to every requested host, as the upstream
	// plugin does.
	AnyHost bool

	// OtherHosts is the behavior for hosts that are not served: "fail" (default), or
	// "empty" for a response without credentials.
	OtherHosts string

	// Mirrors lists images that the runtime pulls from a registry that receives the
	// access token, as SOURCE=TARGET[/PATH], such as docker.io=REGISTRY/hub.
	Mirrors []string

	// MirrorOrigin specifies whether the original host of mirrored images may receive the
	// credential. containerd sends it there if it falls back to the original host. Set "none" if
	// the runtime never falls back, or "trusted" if the host may receive the credential. If it is
	// "", New rejects mirrors of hosts that are not Google's.
	MirrorOrigin string

	// CacheKeyType and CacheDuration override the values in responses with credentials. "" and nil
	// keep these values. A type that is wider than the scope of the response is narrowed.
	CacheKeyType  plugin.CacheKeyType
	CacheDuration *time.Duration

	// MetadataHost is the metadata server as host[:port]. If it is "", the provider tries
	// 169.254.169.254, [fd20:ce::254] and metadata.google.internal. [Options.ReadEnviron] sets it
	// from GCE_METADATA_HOST.
	MetadataHost string

	// Transport sends all requests except those to the metadata server. nil means a transport with
	// the environment's proxy.
	Transport http.RoundTripper

	Timeout time.Duration // per request; 0 means 14 s
	Backoff time.Duration // before the second attempt, doubled for the third; 0 means 250 ms
	Budget  time.Duration // per call of GetCredentials; 0 means 45 s

	Getenv func(string) string // used by [InPod] and [Options.ReadEnviron]; nil means [os.Getenv]
	Logger *slog.Logger        // receives progress messages (Info) and warnings; nil discards them
}

// Provider is a [plugin.Provider] for Google's registries. It is safe for concurrent
// use and does not cache responses.
type Provider struct {
	opts                 Options
	mirrors              registry.Mirrors
	metadataTransport    *remote.Transport // to the metadata server
	metadataRoundTripper http.RoundTripper // wraps metadataTransport and tries all addresses of the metadata server
	externalTransport    *remote.Transport // to other hosts, unless Options.Transport is set
	inPod                bool              // set by InPod
}

// New validates the options and returns a provider. It sends no request.
func New(opts Options) (*Provider, error) {
	opts.Flow = cmp.Or(opts.Flow, FlowRegistry)
	opts.UniverseDomain = cmp.Or(opts.UniverseDomain, "googleapis.com")
	// IPv6-only nodes cannot reach the first address of the metadata server. The trailing dot
	// prevents the use of search domains.
	metadataHosts := []string{"169.254.169.254", "[fd20:ce::254]", "metadata.google.internal."}
	if opts.MetadataHost != "" {
		metadataHosts = []string{opts.MetadataHost}
	}
	opts.MetadataHost = metadataHosts[0]
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	opts.Budget = cmp.Or(max(opts.Budget, 0), remote.RequestTimeout)
	if err := opts.validate(); err != nil {
		return nil, err
	}
	p := &Provider{opts: opts, metadataTransport: remote.WrapTransport(newMetadataTransport()), externalTransport: remote.NewTransport()}
	var err error
	p.mirrors, err = registry.ParseMirrors(opts.Mirrors, registry.MirrorOptions{IsServed: opts.receivesToken, Owner: "Google", Origin: opts.MirrorOrigin})
	if err != nil {
		return nil, err
	}
	p.metadataRoundTripper = p.metadataTransport
	if len(metadataHosts) > 1 {
		p.metadataRoundTripper = remote.NewFailover(p.metadataTransport, metadataHosts...)
	}
	if (opts.STSAudience != "" || opts.CredentialsFile != "") && opts.Transport == nil {
		remote.PreloadRoots() // every request uses TLS
	}
	return p, nil
}

// newMetadataTransport returns a transport for the metadata server.
func newMetadataTransport() *http.Transport {
	base := remote.NewBaseTransport()
	base.Proxy = nil
	// The server is on the node itself or one hop away.
	base.DialContext = (&net.Dialer{Timeout: 2 * time.Second}).DialContext
	return base
}

func (o Options) validate() error {
	federated := o.IdentityProvider != "" || o.STSAudience != ""
	switch {
	case o.Flow != FlowRegistry && o.Flow != FlowDockercfg && o.Flow != FlowDockercfgURL:
		return fmt.Errorf("the flow %q must be %s, %s or %s", o.Flow, FlowRegistry, FlowDockercfg, FlowDockercfgURL)
	case o.IdentityProvider != "" && o.ProjectID == "" && (o.STSAudience == "" || o.Flow == FlowRegistry):
		return errors.New("an identity provider requires a project; set --project-id")
	case o.RequireWorkloadIdentity && (!federated || o.Flow != FlowRegistry):
		return errors.New("workload identity is required but not configured; set --identity-provider and --project-id, " +
			"or --sts-audience, and in either case use the flow " + FlowRegistry)
	case o.CredentialsFile != "" && o.Flow != FlowRegistry:
		return errors.New("a credentials file requires the flow " + FlowRegistry)
	case len(o.Mirrors) > 0 && o.Flow != FlowRegistry:
		return errors.New("--mirror requires the flow " + FlowRegistry)
	case o.Impersonate && !federated:
		return errors.New("--impersonate requires a pod identity; set --identity-provider and --project-id, or --sts-audience")
	case !hostpattern.IsHostname(o.UniverseDomain):
		return fmt.Errorf("the universe domain %q is not a domain name", o.UniverseDomain)
	case !isHostPort(o.MetadataHost):
		return fmt.Errorf("the metadata server %q must be host[:port]", o.MetadataHost)
	case o.CacheKeyType != "" && !protocol.IsValidCacheKeyType(string(o.CacheKeyType)):
		return fmt.Errorf("the cache key type %q must be %s, %s or %s",
			o.CacheKeyType, plugin.CacheImage, plugin.CacheRegistry, plugin.CacheGlobal)
	case o.CacheDuration != nil && *o.CacheDuration < 0:
		return fmt.Errorf("the cache duration %v is negative", *o.CacheDuration)
	}
	return cmp.Or(checkPatterns(o.AllowHosts), registry.OtherHosts(o.OtherHosts).Validate())
}

// newClient returns a client for all hosts except the metadata server.
func (p *Provider) newClient() remote.Client {
	c := remote.Client{
		Transport: p.opts.Transport, UserAgent: "regcred auth-provider-gcp",
		Timeout: p.opts.Timeout, Backoff: p.opts.Backoff,
	}
	if c.Transport == nil {
		c.Transport = p.externalTransport
	}
	return c
}
