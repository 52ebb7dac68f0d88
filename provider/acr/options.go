// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/hostpattern"
)

// Options configures a [Provider]. ConfigFile is required, except for [InPod].
type Options struct {
	ConfigFile string // path of the node's cloud configuration azure.json, in JSON or YAML

	// Mirrors lists images that the runtime pulls from an ACR registry, as
	// SOURCE=TARGET[/PATH], such as docker.io=REGISTRY/hub.
	Mirrors []string

	// MirrorOrigin specifies whether the original host of mirrored images may receive the
	// credential. containerd sends it there if it falls back to the original host. Set "none" if
	// the runtime never falls back, or "trusted" if the host may receive the credential. If it is
	// "", New rejects mirrors of hosts outside ACR.
	MirrorOrigin string

	// RegistryMirrors lists mirrors in the upstream plugin's syntax, SOURCE:TARGET, separated by
	// commas. Use SOURCE=TARGET if a host has a port.
	RegistryMirrors []string

	// OtherHosts is the behavior for hosts that are not served: "fail" (default), or
	// "empty" for a response without credentials.
	OtherHosts string

	// AllowHosts lists additional hosts of ACR registries as host[:port]. A * matches within one
	// label.
	AllowHosts []string

	// DefaultClientID and DefaultTenantID are used for service accounts that lack the
	// annotations.
	DefaultClientID string
	DefaultTenantID string

	// Binding configures AKS identity bindings; the zero value disables them.
	Binding Binding

	// FallbackToNode uses the node's identity for pods without a service account, and for service
	// accounts without an identity.
	FallbackToNode bool

	// StaticSecret returns aadClientId and aadClientSecret as the credential instead of
	// a token, as the upstream plugin does.
	StaticSecret bool

	Transport http.RoundTripper // for all requests; nil means a transport with the environment's proxy
	Timeout   time.Duration     // per request; 0 means 14 s
	Backoff   time.Duration     // before the second attempt, doubled for the third; 0 means 250 ms
	Budget    time.Duration     // per call of GetCredentials; 0 means 45 s

	Getenv func(string) string // nil means [os.Getenv]
	Logger *slog.Logger        // receives progress messages (Info) and warnings; nil discards them

	now func() time.Time // nil means time.Now
	pod *podIdentity     // set by InPod
}

// DefaultBindingCA is the CA file of identity bindings on AKS nodes.
const DefaultBindingCA = "/etc/kubernetes/certs/ca.crt"

// Binding configures AKS identity bindings, which get tokens from an endpoint behind
// the API server. The zero value disables them.
type Binding struct {
	SNIName   string // the endpoint's TLS server name
	APIServer string // address or name of the API server, with or without a port

	DefaultClientID string // for service accounts without the annotation
	DefaultTenantID string // for service accounts without the annotation; used only in the exchange

	CAFile string // trusted CAs in PEM; "" means [DefaultBindingCA]
}

func (b Binding) validate() error {
	switch {
	case b.SNIName == "" && b.APIServer != "":
		return errors.New("--ib-apiserver-ip needs --ib-sni-name")
	case b.SNIName == "" && b.DefaultClientID != "":
		return errors.New("--ib-default-client-id needs --ib-sni-name")
	case b.SNIName == "" && b.DefaultTenantID != "":
		return errors.New("--ib-default-tenant-id needs --ib-sni-name")
	case b.SNIName == "":
		return nil
	case b.APIServer == "":
		return errors.New("--ib-sni-name needs --ib-apiserver-ip")
	case !hostpattern.IsHostname(b.SNIName):
		return fmt.Errorf("--ib-sni-name %q must be a host name without a scheme or port", b.SNIName)
	}
	host, port, err := net.SplitHostPort(b.apiServerAddress())
	if _, invalid := strconv.ParseUint(port, 10, 16); err != nil || invalid != nil || net.ParseIP(host) == nil && !hostpattern.IsHostname(host) {
		return fmt.Errorf("--ib-apiserver-ip %q must be an IP address or a host name", b.APIServer)
	}
	return nil
}

// apiServerAddress returns host:port of the API server.
func (b Binding) apiServerAddress() string {
	if _, _, err := net.SplitHostPort(b.APIServer); err == nil {
		return b.APIServer
	}
	return net.JoinHostPort(strings.Trim(b.APIServer, "[]"), "443")
}

// settingHint selects a part of an error message. It returns pod if the settings come from a pod's
// environment, and file if they come from azure.json.
func (o *Options) settingHint(file, pod string) string {
	if o.pod != nil {
		return pod
	}
	return file
}
