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

// NodeHosts are the names under which a [Node] has the endpoints of clouds.
// They must lead to 127.0.0.1.
func NodeHosts() []string {
	return []string{
		"api.ecr.us-west-2.amazonaws.com", "sts.us-west-2.amazonaws.com", "sts.amazonaws.com",
		"sts.googleapis.com", "login.microsoftonline.com", "team.azurecr.io", nodeSTS,
	}
}

// nodeSTS is a token service of nobody in particular.
const nodeSTS = "sts.example.com"

// Node is where plugins find clouds as they do on a node of the cloud: without
// a proxy, on port 443 of the names that they have in the world, behind a
// certificate store as Debian has it. Metadata servers are close by, as they
// are there. It needs port 443 of a loopback that is not the machine's, and
// names that lead to it: see [NodeHosts]. Close it.
type Node struct {
	net   *testcloud.Net
	store store
	trip  time.Duration
	far   net.Listener // nil at no distance
}

// NewNode makes a node with a round trip to all but the metadata servers.
func NewNode(trip time.Duration) (*Node, error) {
	world, err := testcloud.NewNet()
	if err != nil {
		return nil, err
	}
	n := &Node{net: world, trip: trip}
	if err := errors.Join(n.makeStore(), n.listen(trip)); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

func (n *Node) makeStore() error {
	ca, err := os.ReadFile(n.net.CAFile())
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "plugins-store-")
	if err != nil {
		return err
	}
	n.store, err = makeStore(dir, ca)
	return err
}

func (n *Node) listen(trip time.Duration) error {
	front, err := net.Listen("tcp", "127.0.0.1:443")
	if err != nil {
		return err
	}
	if trip == 0 {
		n.net.ServeTLS(front)
		return nil
	}
	n.far = front
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	n.net.ServeTLS(server)
	go distance{front, server.Addr().String(), trip}.serve()
	return nil
}

// Close ends the node.
func (n *Node) Close() {
	if n.far != nil {
		n.far.Close()
	}
	n.net.Close()
	if n.store.dir != "" {
		os.RemoveAll(n.store.dir)
	}
}

// Strays are the names that were asked for and lead nowhere.
func (n *Node) Strays() []string { return n.net.Strays() }

// environ is a cloud's environment without proxies and without addresses of
// endpoints but the metadata server's.
func (n *Node) environ(of []string) []string {
	kept := slices.DeleteFunc(slices.Clone(of), func(entry string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(entry), "=")
		return strings.HasPrefix(name, "AWS_ENDPOINT_URL") || strings.HasPrefix(name, "SSL_CERT_") || strings.HasSuffix(name, "_PROXY")
	})
	return append(kept, n.store.environ()...)
}

// AWS puts the node into Amazon's cloud, with a role of the instance.
func (n *Node) AWS() (*Cloud, error) {
	a, err := testcloud.NewAWS()
	if err != nil {
		return nil, err
	}
	for _, host := range []string{"api.ecr.us-west-2.amazonaws.com", "sts.us-west-2.amazonaws.com", "sts.amazonaws.com"} {
		n.net.Handle(host, a)
	}
	return &Cloud{
		Server: a.Server, Environ: n.environ(a.Environ()), close: []func(){a.Close},
		Annotations: map[string]string{annotation: role},
	}, nil
}

// Google puts the node into Google's cloud. Pods pull as themselves.
func (n *Node) Google() (*Cloud, error) {
	g, err := testcloud.NewGoogle(n.net)
	if err != nil {
		return nil, err
	}
	return &Cloud{
		Server: g.Server, Environ: n.environ(g.Environ()), close: []func(){g.Close},
		Args: []string{
			"get-credentials", "--v=3",
			"--sts-audience=//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/cluster",
		},
	}, nil
}

// Azure puts the node into Microsoft's cloud, with a managed identity.
func (n *Node) Azure() (*Cloud, error) {
	c, err := newAzure(n.net)
	if err == nil {
		c.Environ = n.environ(c.Environ)
	}
	return c, err
}

// AzureFar is [Node.Azure] with the metadata server as far away as the rest.
func (n *Node) AzureFar() (*Cloud, error) {
	c, err := n.Azure()
	if err == nil {
		c.Inject(testcloud.Fault{Path: "/metadata/identity/", Delay: n.trip, Times: -1})
	}
	return c, err
}

// TokenService gives the node a token service (RFC 8693) in place of a cloud.
func (n *Node) TokenService() (*Cloud, error) {
	s := testcloud.Serve(http.HandlerFunc(exchange))
	n.net.Handle(nodeSTS, s)
	return &Cloud{
		Server: s, Environ: n.environ(nil), close: []func(){s.Close},
		Args: []string{
			"--registry=registry.example.com", "--username=robot",
			"--exchange-url=https://" + nodeSTS + "/token", "--exchange-audience=registry.example.com",
		},
	}, nil
}

// exchange is the token endpoint of RFC 8693.
func exchange(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.PostFormValue("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange" || r.PostFormValue("subject_token") == "" {
		w.WriteHeader(http.StatusBadRequest)
		w.Write([]byte(`{"error":"invalid_request"}`))
		return
	}
	w.Write([]byte(`{"access_token":"open-sesame","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":3600}`))
}
