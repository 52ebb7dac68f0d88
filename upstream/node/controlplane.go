// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/regcred/regcred/internal/testenv"
)

// ControlPlane runs etcd and an API server, but no controllers. For example, no "default"
// service accounts are created.
type ControlPlane struct {
	URL    string               // base URL of the API server
	Issuer string               // issuer of service account tokens
	Key    *rsa.PublicKey       // public key of service account tokens
	Client kubernetes.Interface // client with all permissions

	listen string // address of the API server
	dir    string
	ca     *certificateAuthority
	etcd   string // address of etcd
	api    *testProcess
}

// StartControlPlane starts etcd and an API server with Node and RBAC
// authorization and the NodeRestriction admission plugin.
func StartControlPlane(t testing.TB) *ControlPlane {
	t.Helper()
	return startControlPlane(t, testenv.FreeAddr(t))
}

// serviceAddresses makes the API server listen on all addresses at the port of the service
// "kubernetes". One of the addresses is the service's.
const serviceAddresses = "0.0.0.0:443"

// startControlPlane starts etcd, and an API server that listens on the given address.
func startControlPlane(t testing.TB, listen string) *ControlPlane {
	t.Helper()
	url := "https://" + listen
	if listen == serviceAddresses {
		url = "https://" + NodeAddress
	}
	c := &ControlPlane{
		URL: url, listen: listen, Issuer: "https://kubernetes.default.svc",
		dir: tempDir(t, "control"), ca: newCertificateAuthority(t),
	}
	c.writeKeys(t)
	c.startEtcd(t)
	c.api = newProcess(t, c.dir, nil, programPath("kube-apiserver"))
	c.Start(t)
	var err error
	if c.Client, err = kubernetes.NewForConfig(c.ClientConfig(t, "admin", "system:masters")); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *ControlPlane) writeKeys(t testing.TB) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	c.Key = &key.PublicKey
	public, err := x509.MarshalPKIXPublicKey(c.Key)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, string(encodeKey(t, key)), c.dir, "sa.key")
	writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})), c.dir, "sa.pub")
	cert, serverKey := c.ca.issueServerCert(t)
	writeFile(t, string(cert), c.dir, "server.crt")
	writeFile(t, string(serverKey), c.dir, "server.key")
	writeFile(t, string(c.ca.pem), c.dir, "ca.crt")
	writeFile(t, auditPolicy, c.dir, "audit.yaml")
}

func (c *ControlPlane) startEtcd(t testing.TB) {
	t.Helper()
	c.etcd = "http://" + testenv.FreeAddr(t)
	p := newProcess(t, c.dir, nil, "etcd")
	p.start(t, "--data-dir", filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", c.etcd, "--advertise-client-urls", c.etcd, "--listen-peer-urls", "http://"+testenv.FreeAddr(t))
	p.waitReady(t, func(ctx context.Context) error {
		_, err := httpGet(ctx, http.DefaultClient, c.etcd+"/health")
		return err
	})
}

// Start starts the API server again after [ControlPlane.Stop].
func (c *ControlPlane) Start(t testing.TB) {
	t.Helper()
	host, port, err := net.SplitHostPort(c.listen)
	if err != nil {
		t.Fatal(err)
	}
	c.api.start(t,
		"--etcd-servers="+c.etcd, "--bind-address="+host, "--secure-port="+port, "--advertise-address="+NodeAddress, "--kubelet-preferred-address-types=InternalIP",
		"--tls-cert-file="+c.filePath("server.crt"), "--tls-private-key-file="+c.filePath("server.key"), "--client-ca-file="+c.filePath("ca.crt"),
		"--service-account-issuer="+c.Issuer, "--service-account-key-file="+c.filePath("sa.pub"), "--service-account-signing-key-file="+c.filePath("sa.key"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--service-cluster-ip-range=10.0.0.0/24",
		"--endpoint-reconciler-type=none", "--audit-policy-file="+c.filePath("audit.yaml"), "--audit-log-path="+c.filePath("audit.log"))
	client, err := rest.HTTPClientFor(c.ClientConfig(t, "admin", "system:masters"))
	if err != nil {
		t.Fatal(err)
	}
	c.api.waitReady(t, func(ctx context.Context) error {
		_, err := httpGet(ctx, client, c.URL+"/readyz")
		return err
	})
}

func (c *ControlPlane) filePath(name string) string { return filepath.Join(c.dir, name) }

// Stop kills the API server. etcd keeps running.
func (c *ControlPlane) Stop() { c.api.stop() }

// ClientConfig returns a client configuration for a user who is a member of groups.
func (c *ControlPlane) ClientConfig(t testing.TB, user string, groups ...string) *rest.Config {
	t.Helper()
	cert, key := c.ca.issueClientCert(t, user, groups...)
	return &rest.Config{Host: c.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.pem, CertData: cert, KeyData: key}}
}

// WriteKubeconfig writes [ControlPlane.ClientConfig] to a kubeconfig file and returns its path.
func (c *ControlPlane) WriteKubeconfig(t testing.TB, user string, groups ...string) (path string) {
	t.Helper()
	path = filepath.Join(tempDir(t, "kubeconfig"), "kubeconfig")
	if err := clientcmd.WriteToFile(c.newKubeconfig(t, user, groups...), path); err != nil {
		t.Fatal(err)
	}
	return path
}

func (c *ControlPlane) newKubeconfig(t testing.TB, user string, groups ...string) clientcmdapi.Config {
	t.Helper()
	config := c.ClientConfig(t, user, groups...)
	file := clientcmdapi.NewConfig()
	file.Clusters["node"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos["node"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	file.Contexts["node"] = &clientcmdapi.Context{Cluster: "node", AuthInfo: "node"}
	file.CurrentContext = "node"
	return *file
}

// WriteNodeKubeconfig writes a kubeconfig with a node's identity and returns its path.
func (c *ControlPlane) WriteNodeKubeconfig(t testing.TB, node string) (path string) {
	t.Helper()
	return c.WriteKubeconfig(t, "system:node:"+node, "system:nodes")
}

// checkRegistered returns an error if the node is not registered.
func (c *ControlPlane) checkRegistered(ctx context.Context, name string) error {
	_, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	return err
}
