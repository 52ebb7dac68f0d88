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

// Options configure a [Provider]. ConfigFile is required, but for [InPod].
type Options struct {
	ConfigFile string // the node's cloud configuration, azure.json: JSON or YAML

	// Mirrors are "SOURCE=TARGET[/PATH]": images that begin with SOURCE, a host
	// or a host and a path, are pulled from the registry TARGET by way of the
	// container runtime. MirrorOrigin, "none" or "trusted", is what the host of
	// a SOURCE may see of its credential; "" refuses sources of strangers.
	Mirrors      []string
	MirrorOrigin string

	// RegistryMirrors are Mirrors in the syntax of upstream, "SOURCE:TARGET",
	// several separated by commas; or with "=", if one has a port.
	RegistryMirrors []string

	// OtherHosts says what to do about a host that is none of ACR's: "fail",
	// which "" means too, or "empty".
	OtherHosts string

	// AllowHosts are further hosts that are registries of ACR: host[:port],
	// where * stands for text within one label.
	AllowHosts []string

	// DefaultClientID and DefaultTenantID serve for service accounts that lack
	// the annotation.
	DefaultClientID string
	DefaultTenantID string

	// Binding says where identity bindings are; the zero value is for nowhere.
	Binding Binding

	// FallbackToNode lets pods without a service account, or whose service
	// account names no identity, use that of the node. It is about the two
	// ways in which pods can have an identity of their own.
	FallbackToNode bool

	// StaticSecret hands aadClientId and aadClientSecret themselves to whoever
	// asks, as upstream does, instead of a token that they are exchanged for.
	StaticSecret bool

	Getenv func(string) string // nil means [os.Getenv]
	Log    *slog.Logger        // nil discards
	Now    func() time.Time    // nil means [time.Now]

	Transport http.RoundTripper // of every request; nil means [remote.NewTransport]
	Budget    time.Duration     // for one answer; 0 means [remote.Budget]
	Timeout   time.Duration     // of one attempt at a request; 0 means that of [remote.Client]
	Backoff   time.Duration     // before the second attempt; 0 means that of [remote.Client]

	pod *podIdentity // see InPod
}

// DefaultBindingCA is the authority of identity bindings on the nodes of AKS.
const DefaultBindingCA = "/etc/kubernetes/certs/ca.crt"

// Binding says where AKS hands out tokens for identity bindings: behind the
// API server, under a name of its own. The zero value is for nowhere.
type Binding struct {
	SNIName   string // the name that it is asked by
	APIServer string // where that is: address or name of the API server, with a port or without

	DefaultClientID string // for service accounts without the annotation
	DefaultTenantID string // likewise; for the exchange alone

	CAFile string // whom to trust, in PEM; "" means [DefaultBindingCA]
}

func (b Binding) check() error {
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
	case !hostpattern.IsName(b.SNIName):
		return fmt.Errorf("--ib-sni-name %q must be a host name without a scheme or port", b.SNIName)
	}
	host, port, err := net.SplitHostPort(b.address())
	if _, invalid := strconv.ParseUint(port, 10, 16); err != nil || invalid != nil || net.ParseIP(host) == nil && !hostpattern.IsName(host) {
		return fmt.Errorf("--ib-apiserver-ip %q must be an IP address or a host name", b.APIServer)
	}
	return nil
}

// address is where to connect to.
func (b Binding) address() string {
	if _, _, err := net.SplitHostPort(b.APIServer); err == nil {
		return b.APIServer
	}
	return net.JoinHostPort(strings.Trim(b.APIServer, "[]"), "443")
}

// told is what an error says where settings are those of azure.json, or of a
// pod's environment.
func (o *Options) told(file, pod string) string {
	if o.pod != nil {
		return pod
	}
	return file
}
