// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugins

import (
	"errors"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/testcloud"
)

// NodeHosts returns the host names of the clouds' endpoints on a [Node]. They must
// resolve to 127.0.0.1.
func NodeHosts() []string {
	return []string{
		"api.ecr.us-west-2.amazonaws.com", "sts.us-west-2.amazonaws.com", "sts.amazonaws.com",
		"sts.googleapis.com", "login.microsoftonline.com", "team.azurecr.io", tokenServiceHost,
	}
}

// tokenServiceHost is the host name of a generic token service.
const tokenServiceHost = "sts.example.com"

// Node lets plugins reach clouds as on a real node: without a proxy, on port 443 of the
// public host names, and with Debian's certificate store. Metadata servers have no
// latency. It needs port 443 on loopback in its own network namespace, and host names
// that resolve to it: see [NodeHosts]. The caller must close it.
type Node struct {
	net             *testcloud.FakeNetwork
	store           certStore
	roundTrip       time.Duration
	latencyListener net.Listener // nil without latency
}

// NewNode starts a node with latency to all servers except the metadata servers.
func NewNode(trip time.Duration) (*Node, error) {
	fakeNet, err := testcloud.NewFakeNetwork()
	if err != nil {
		return nil, err
	}
	n := &Node{net: fakeNet, roundTrip: trip}
	if err := errors.Join(n.createStore(), n.listenTLS(trip)); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

func (n *Node) createStore() error {
	ca, err := os.ReadFile(n.net.CAFile())
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "plugins-store-")
	if err != nil {
		return err
	}
	n.store, err = newCertStore(dir, ca)
	return err
}

func (n *Node) listenTLS(trip time.Duration) error {
	front, err := net.Listen("tcp", "127.0.0.1:443")
	if err != nil {
		return err
	}
	if trip == 0 {
		n.net.ServeTLS(front)
		return nil
	}
	n.latencyListener = front
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	n.net.ServeTLS(server)
	go latencyProxy{front, server.Addr().String(), trip}.acceptLoop()
	return nil
}

// Close stops the node.
func (n *Node) Close() {
	if n.latencyListener != nil {
		n.latencyListener.Close()
	}
	n.net.Close()
	if n.store.dir != "" {
		os.RemoveAll(n.store.dir)
	}
}

// UnknownHosts returns the unknown host names to which requests were sent.
func (n *Node) UnknownHosts() []string { return n.net.UnknownHosts() }

// nodeEnvironment returns a cloud's environment without proxies and without endpoints, except the
// metadata server's endpoint.
func (n *Node) nodeEnvironment(of []string) []string {
	kept := slices.DeleteFunc(slices.Clone(of), func(entry string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(entry), "=")
		return strings.HasPrefix(name, "AWS_ENDPOINT_URL") || strings.HasPrefix(name, "SSL_CERT_") || strings.HasSuffix(name, "_PROXY")
	})
	return append(kept, n.store.environment()...)
}

// AWS simulates a node in AWS, with an instance role.
func (n *Node) AWS() (*Cloud, error) {
	a, err := testcloud.NewAWS()
	if err != nil {
		return nil, err
	}
	for _, host := range []string{"api.ecr.us-west-2.amazonaws.com", "sts.us-west-2.amazonaws.com", "sts.amazonaws.com"} {
		n.net.Handle(host, a)
	}
	return &Cloud{
		Server: a.Server, Environ: n.nodeEnvironment(a.Environ()), close: []func(){a.Close},
		Annotations: map[string]string{roleAnnotation: roleARN},
	}, nil
}

// Google simulates a node in Google's cloud. Pods pull with their own identity.
func (n *Node) Google() (*Cloud, error) {
	g, err := testcloud.NewGoogle(n.net)
	if err != nil {
		return nil, err
	}
	return &Cloud{
		Server: g.Server, Environ: n.nodeEnvironment(g.Environ()), close: []func(){g.Close},
		Args: []string{
			"get-credentials", "--v=3",
			"--sts-audience=//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/cluster",
		},
	}, nil
}

// Azure simulates a node in Azure, with a managed identity.
func (n *Node) Azure() (*Cloud, error) {
	c, err := newAzureIn(n.net)
	if err == nil {
		c.Environ = n.nodeEnvironment(c.Environ)
	}
	return c, err
}

// AzureWithDistantMetadata is like [Node.Azure], but the metadata server has the same latency as the
// other servers.
func (n *Node) AzureWithDistantMetadata() (*Cloud, error) {
	c, err := n.Azure()
	if err == nil {
		c.Inject(testcloud.Fault{Path: "/metadata/identity/", Delay: n.roundTrip, Times: -1})
	}
	return c, err
}

// TokenService simulates a node with a token service (RFC 8693) instead of a cloud.
func (n *Node) TokenService() (*Cloud, error) {
	s := testcloud.NewServer(http.HandlerFunc(serveTokenExchange))
	n.net.Handle(tokenServiceHost, s)
	return &Cloud{
		Server: s, Environ: n.nodeEnvironment(nil), close: []func(){s.Close},
		Args: []string{
			"--registry=registry.example.com", "--username=robot",
			"--exchange-url=https://" + tokenServiceHost + "/token", "--exchange-audience=registry.example.com",
		},
	}, nil
}

// serveTokenExchange handles the token endpoint of RFC 8693.
func serveTokenExchange(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.PostFormValue("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange" || r.PostFormValue("subject_token") == "" {
		w.WriteHeader(http.StatusBadRequest)
		w.Write([]byte(`{"error":"invalid_request"}`))
		return
	}
	w.Write([]byte(`{"access_token":"open-sesame","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":3600}`))
}
