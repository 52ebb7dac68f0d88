// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// certificateAuthority is the CA of a cluster.
type certificateAuthority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte // the CA certificate
}

func newCertificateAuthority(t testing.TB) *certificateAuthority {
	t.Helper()
	key := newKey(t)
	a := &certificateAuthority{key: key, cert: &x509.Certificate{
		Subject: pkix.Name{CommonName: "node"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}}
	var der []byte
	der, a.pem = a.signCertificate(t, a.cert, key)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *certificateAuthority) signCertificate(t testing.TB, template *x509.Certificate, key *ecdsa.PrivateKey) (der, certPEM []byte) {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	if der, err = x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key); err != nil {
		t.Fatal(err)
	}
	return der, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// issueClientCert issues a client certificate for a user who is a member of groups.
func (a *certificateAuthority) issueClientCert(t testing.TB, user string, groups ...string) (certPEM, keyPEM []byte) {
	t.Helper()
	key := newKey(t)
	_, certPEM = a.signCertificate(t, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, key)
	return certPEM, encodeKey(t, key)
}

// kubernetesServiceIP is the cluster IP of the service "kubernetes".
const kubernetesServiceIP = "10.0.0.1"

// issueServerCert issues the API server's certificate.
func (a *certificateAuthority) issueServerCert(t testing.TB) (certPEM, keyPEM []byte) {
	t.Helper()
	key := newKey(t)
	_, certPEM = a.signCertificate(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(NodeAddress), net.ParseIP(kubernetesServiceIP)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, key)
	return certPEM, encodeKey(t, key)
}

func encodeKey(t testing.TB, key crypto.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
