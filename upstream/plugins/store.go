// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugins

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// storeCACount is the number of CAs that Debian 12 trusts (ca-certificates).
const storeCACount = 144

// certStore is a certificate store like Debian's /etc/ssl/certs. It consists of a bundle of all
// certificates, and of two symbolic links per certificate, by name and by hash. Go reads the
// bundle, then every link to a file outside of the directory, and the bundle again as a file in the
// directory.
type certStore struct{ dir string }

func (s certStore) bundlePath() string { return filepath.Join(s.dir, "certs", "ca-certificates.crt") }

// environment returns the environment variables that select the store.
func (s certStore) environment() []string {
	return []string{"SSL_CERT_FILE=" + s.bundlePath(), "SSL_CERT_DIR=" + filepath.Dir(s.bundlePath())}
}

// newCertStore creates a store in dir that contains ca, in PEM, and other CAs. The private keys of
// the other CAs are discarded. Their keys and signatures have the types and sizes of Debian's CAs,
// because these determine the time to read them.
func newCertStore(dir string, ca []byte) (certStore, error) {
	s := certStore{dir}
	share := filepath.Join(dir, "share")
	for _, dir := range []string{filepath.Dir(s.bundlePath()), share} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return s, err
		}
	}
	signer, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return s, err
	}
	var bundle bytes.Buffer
	for i := range storeCACount {
		root := ca
		if i != storeCACount/2 {
			if root, err = newCACertificate(i, signer); err != nil {
				return s, err
			}
		}
		bundle.Write(root)
		if err := s.addCertificate(share, fmt.Sprintf("Test_Root_CA_%d", i), root); err != nil {
			return s, err
		}
	}
	return s, os.WriteFile(s.bundlePath(), bundle.Bytes(), 0o644)
}

// addCertificate adds a certificate to the directory.
func (s certStore) addCertificate(share, name string, root []byte) error {
	certs := filepath.Dir(s.bundlePath())
	file := filepath.Join(share, name+".crt")
	if err := os.WriteFile(file, root, 0o644); err != nil {
		return err
	}
	if err := os.Symlink(file, filepath.Join(certs, name+".pem")); err != nil {
		return err
	}
	hash := sha1.Sum([]byte(name)) // unlike OpenSSL's hash of the subject, but with the same length
	return os.Symlink(name+".pem", filepath.Join(certs, fmt.Sprintf("%x.0", hash[:4])))
}

// newCACertificate creates a CA certificate. Of 12 CAs, 5 have 4096-bit RSA keys, 4 have 2048-bit
// RSA keys, and 3 have P-384 keys.
func newCACertificate(i int, signer *rsa.PrivateKey) ([]byte, error) {
	key, err := newCAPublicKey(i)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: new(big.Int).Lsh(big.NewInt(int64(i+1)), 112),
		Subject: pkix.Name{
			Country: []string{"XX"}, Organization: []string{"Test Trust Services Ltd."},
			CommonName: fmt.Sprintf("Test Root Certification Authority - G%d", i),
		},
		NotBefore: time.Now().AddDate(-10, 0, 0), NotAfter: time.Now().AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key, signer)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// newCAPublicKey creates a CA's public key. An RSA modulus is a random number, because finding
// primes takes seconds.
func newCAPublicKey(i int) (crypto.PublicKey, error) {
	bits := 2048
	switch i % 12 {
	case 0, 4, 8:
		key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
		if err != nil {
			return nil, err
		}
		return key.Public(), nil
	case 1, 3, 5, 7, 9:
		bits = 4096
	}
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), uint(bits-1)))
	if err != nil {
		return nil, err
	}
	n.SetBit(n.SetBit(n, bits-1, 1), 0, 1)
	return &rsa.PublicKey{N: n, E: 65537}, nil
}
