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

// storeRoots is how many authorities Debian 12 trusts (ca-certificates).
const storeRoots = 144

// store is a certificate store as Debian's /etc/ssl/certs: all certificates in
// one bundle, and each of them under a name and a hash that are links. Go
// reads the bundle, every link that leads out of the directory, and the bundle
// once more, since it is in the directory.
type store struct{ dir string }

func (s store) bundle() string { return filepath.Join(s.dir, "certs", "ca-certificates.crt") }

// environ are the variables that name the store.
func (s store) environ() []string {
	return []string{"SSL_CERT_FILE=" + s.bundle(), "SSL_CERT_DIR=" + filepath.Dir(s.bundle())}
}

// makeStore makes a store in dir of which one authority is ca, in PEM. Of the
// others nobody has a key. Their keys and signatures are of the kinds and
// sizes that Debian's have, which is what it takes time to read.
func makeStore(dir string, ca []byte) (store, error) {
	s := store{dir}
	share := filepath.Join(dir, "share")
	for _, dir := range []string{filepath.Dir(s.bundle()), share} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return s, err
		}
	}
	signer, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return s, err
	}
	var bundle bytes.Buffer
	for i := range storeRoots {
		root := ca
		if i != storeRoots/2 {
			if root, err = makeRoot(i, signer); err != nil {
				return s, err
			}
		}
		bundle.Write(root)
		if err := s.add(share, fmt.Sprintf("Test_Root_CA_%d", i), root); err != nil {
			return s, err
		}
	}
	return s, os.WriteFile(s.bundle(), bundle.Bytes(), 0o644)
}

// add adds a certificate to the directory.
func (s store) add(share, name string, root []byte) error {
	certs := filepath.Dir(s.bundle())
	file := filepath.Join(share, name+".crt")
	if err := os.WriteFile(file, root, 0o644); err != nil {
		return err
	}
	if err := os.Symlink(file, filepath.Join(certs, name+".pem")); err != nil {
		return err
	}
	hash := sha1.Sum([]byte(name)) // OpenSSL's is one of the subject, and as long
	return os.Symlink(name+".pem", filepath.Join(certs, fmt.Sprintf("%x.0", hash[:4])))
}

// makeRoot makes the certificate of an authority: of 12, 5 have RSA keys of
// 4096 bits, 4 of 2048, and 3 keys on the curve P-384.
func makeRoot(i int, signer *rsa.PrivateKey) ([]byte, error) {
	key, err := rootKey(i)
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

// rootKey makes the public key of an authority. That of RSA is a number
// without known factors: to find primes takes seconds.
func rootKey(i int) (crypto.PublicKey, error) {
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
