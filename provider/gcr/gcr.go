// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

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
	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/plugin"
)

// The flows, by which a [Provider] gets its answer.
const (
	FlowRegistry     = "gcr"           // an access token
	FlowDockercfg    = "dockercfg"     // the instance attribute google-dockercfg
	FlowDockercfgURL = "dockercfg-url" // what stands at the URL in google-dockercfg-url
)

// The annotations of a service account that count.
const (
	// AnnotationEnable, if it is exactly "true", makes a pod pull as its
	// service account.
	AnnotationEnable = "iam.gke.io/enable-wi-image-pull"
	// AnnotationAccount is the e-mail address of the Google service account to
	// impersonate, see [Options].
	AnnotationAccount = "iam.gke.io/gcp-service-account"
)

// Options says as whom and for which registries to answer. The zero value
// answers as the node, for Google's own registries.
type Options struct {
	Flow string // one of the flows; "" means FlowRegistry

	// IdentityProvider is the issuer of the cluster's tokens, as a workload
	// identity pool of GKE knows it; it makes pods with AnnotationEnable pull
	// as their service account. ProjectID is the project of the pool, and
	// required with it.
	IdentityProvider string
	ProjectID        string

	// STSAudience is the audience of a workload identity provider. With it,
	// every pod pulls as its service account, without an annotation.
	STSAudience string

	// RequireWorkloadIdentity refuses pods that would pull as the node.
	RequireWorkloadIdentity bool

	// Impersonate makes a pod that pulls as its service account go on to
	// the Google service account in AnnotationAccount, if it has one.
	Impersonate bool

	// CredentialsFile is a configuration of workload identity federation, in
	// JSON, whose identity takes the place of the node's: the token in the file
	// that it names is exchanged at STS. "" means none. Other kinds of
	// credentials are refused.
	CredentialsFile string

	// UniverseDomain is that of Google's services; "" means googleapis.com.
	UniverseDomain string

	// AllowHosts are further hosts that get the access token: host[:port],
	// where * stands for text within one label.
	AllowHosts []string

	// AnyHost gives the access token to every host that the plugin is asked
	// for, as the program does whose place it takes.
	AnyHost bool

	// OtherHosts is what to do about the hosts that are none of these.
	OtherHosts string

	// Mirrors are names whose images a runtime pulls from a registry that gets
	// the access token, as SOURCE=TARGET[/PATH], and MirrorOrigin is what is
	// known about the hosts of these names; see package mirror.
	Mirrors      []string
	MirrorOrigin string

	// CacheKeyType and CacheDuration replace those of every answer that holds
	// credentials; "" and nil mean what fits the credential. A type that is
	// wider than the answer is true of counts as the widest that is not.
	CacheKeyType  plugin.CacheKeyType
	CacheDuration *time.Duration

	// MetadataHost is host[:port] of the metadata server; "" means
	// 169.254.169.254, or where there is no way to that, [fd20:ce::254] or
	// metadata.google.internal. The variable GCE_METADATA_HOST is not looked at here.
	MetadataHost string

	// Transport asks everybody but the metadata server, which no proxy may be
	// asked for; nil means one with the proxy of the environment.
	Transport http.RoundTripper

	Timeout time.Duration // of one attempt at an endpoint; 0 means 14 s
	Backoff time.Duration // before the second attempt, doubled for the third; 0 means 250 ms
	Budget  time.Duration // for one answer; 0 means 45 s

	Log *slog.Logger // what is done, and a warning about a host that is not served; nil discards
}

// Provider is a [plugin.Provider] for Google's registries. It is safe for
// concurrent use, and keeps nothing from one request to the next.
type Provider struct {
	opts    Options
	mirrors registry.Mirrors
	local   *remote.Transport // to the metadata server
	server  http.RoundTripper // local, at the address at which the server is
	outside *remote.Transport // to everybody else, unless that was given
	pod     bool              // see InPod
}

// New checks the options. It asks nobody.
func New(opts Options) (*Provider, error) {
	opts.Flow = cmp.Or(opts.Flow, FlowRegistry)
	opts.UniverseDomain = cmp.Or(opts.UniverseDomain, "googleapis.com")
	metadataHosts := metadataHosts()
	if opts.MetadataHost != "" {
		metadataHosts = []string{opts.MetadataHost}
	}
	opts.MetadataHost = metadataHosts[0]
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Budget <= 0 {
		opts.Budget = remote.Budget
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	p := &Provider{opts: opts, local: remote.Wrap(metadataBase()), outside: remote.NewTransport()}
	var err error
	p.mirrors, err = registry.ParseMirrors(opts.Mirrors, registry.MirrorOptions{Own: opts.serves, Owner: "Google", Origin: opts.MirrorOrigin})
	if err != nil {
		return nil, err
	}
	p.server = p.local
	if len(metadataHosts) > 1 {
		p.server = remote.Alternatives(p.local, metadataHosts...)
	}
	if (opts.STSAudience != "" || opts.CredentialsFile != "") && opts.Transport == nil {
		remote.Prepare() // every answer comes over TLS
	}
	return p, nil
}

// metadataHosts are where the server is: on an IPv6-only node, not at the
// first of them. The name ends with a dot, since no search domain has it.
func metadataHosts() []string {
	return []string{"169.254.169.254", "[fd20:ce::254]", "metadata.google.internal."}
}

// metadataBase connects to the metadata server.
func metadataBase() *http.Transport {
	base := remote.Base()
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
	case !hostpattern.IsName(o.UniverseDomain):
		return fmt.Errorf("the universe domain %q is not a domain name", o.UniverseDomain)
	case !isAddress(o.MetadataHost):
		return fmt.Errorf("the metadata server %q must be host[:port]", o.MetadataHost)
	case o.CacheKeyType != "" && !o.CacheKeyType.Valid():
		return fmt.Errorf("the cache key type %q must be %s, %s or %s",
			o.CacheKeyType, plugin.CacheImage, plugin.CacheRegistry, plugin.CacheGlobal)
	case o.CacheDuration != nil && *o.CacheDuration < 0:
		return fmt.Errorf("the cache duration %v is negative", *o.CacheDuration)
	}
	return cmp.Or(checkPatterns(o.AllowHosts), registry.OtherHosts(o.OtherHosts).Validate())
}

// client asks everybody but the metadata server.
func (p *Provider) client() remote.Client {
	c := remote.Client{
		Transport: p.opts.Transport, UserAgent: "regcred auth-provider-gcp",
		Timeout: p.opts.Timeout, Backoff: p.opts.Backoff,
	}
	if c.Transport == nil {
		c.Transport = p.outside
	}
	return c
}
