// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/regcred/regcred/internal/regularfile"
)

// bundleFiles and bundleDirs list the same paths as crypto/x509 on Linux (root_linux.go).
// crypto/x509 reads the first readable file and all files in the directories. On most
// systems, both contain every CA, and reading the directories takes ten times as long.
const (
	bundleFiles = "/etc/ssl/certs/ca-certificates.crt:/etc/pki/tls/certs/ca-bundle.crt:/etc/ssl/ca-bundle.pem:" +
		"/etc/pki/tls/cacert.pem:/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem:/etc/ssl/cert.pem"
	bundleDirs = "/etc/ssl/certs:/etc/pki/tls/certs"

	bundleFileEnv = "SSL_CERT_FILE"
	bundleDirsEnv = "SSL_CERT_DIR"

	maxBundleSize = 16 << 20 // in bytes; Debian's bundle has 220 thousand
)

// systemBundle holds the CAs from the system's bundle file, and systemStore holds all of the
// system's CAs. Each is read once per process, as in crypto/x509. The files are not read with
// crypto/x509, because it would block on a named pipe and read /dev/zero forever.
var (
	systemBundle = caPool{read: readBundle, done: make(chan struct{})}
	systemStore  = caPool{read: readSystemStore, done: make(chan struct{})}
)

type caPool struct {
	read func(goos string, getenv func(string) string) *x509.CertPool
	once sync.Once
	done chan struct{}
	pool *x509.CertPool // nil if the CAs cannot be read
}

// PreloadRoots starts reading the system's CAs, which takes a few milliseconds. Call it
// before doing other work that precedes TLS.
func PreloadRoots() { systemBundle.startReading() }

// startReading reads the CAs once, in the background.
func (r *caPool) startReading() {
	r.once.Do(func() {
		go func() {
			defer close(r.done)
			r.pool = r.read(runtime.GOOS, os.Getenv)
		}()
	})
}

// waitForCAs waits for the CAs and returns them, or nil.
func (r *caPool) waitForCAs(ctx context.Context) (*x509.CertPool, error) {
	r.startReading()
	select {
	case <-r.done:
		return r.pool, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// readBundle reads the system's bundle file. It returns nil if the file contains no CAs, or
// if the system has its own verifier.
func readBundle(goos string, getenv func(string) string) *x509.CertPool {
	if goos != "linux" {
		return nil
	}
	pool := x509.NewCertPool()
	for _, file := range bundleCandidates(getenv) {
		if found, err := appendPEMFile(pool, file); found {
			return pool
		} else if err == nil {
			return nil
		}
	}
	return nil
}

// readSystemStore reads the bundle and all files of the directories. It returns nil
// on systems with their own verifier.
func readSystemStore(goos string, getenv func(string) string) *x509.CertPool {
	if goos != "linux" {
		return nil
	}
	pool := x509.NewCertPool()
	for _, file := range bundleCandidates(getenv) {
		if _, err := appendPEMFile(pool, file); err == nil {
			break
		}
	}
	for _, dir := range certDirs(getenv) {
		entries, _ := os.ReadDir(dir) // use the entries read before any error
		for _, entry := range entries {
			if path := filepath.Join(dir, entry.Name()); !isLinkInSameDir(path) {
				appendPEMFile(pool, path)
			}
		}
	}
	return pool
}

// isLinkInSameDir reports whether a name is a symlink to another file in the same directory.
// OpenSSL's hash names are such symlinks.
func isLinkInSameDir(path string) bool {
	target, err := os.Readlink(path)
	return err == nil && !strings.Contains(target, "/")
}

// appendPEMFile adds the CAs in a PEM file. found reports whether there are any. It
// returns an error only if the file cannot be read.
func appendPEMFile(pool *x509.CertPool, path string) (found bool, err error) {
	data, err := regularfile.Read(context.Background(), path, maxBundleSize)
	if err != nil {
		return false, err
	}
	return pool.AppendCertsFromPEM(data), nil
}

// bundleCandidates returns the candidate paths of the bundle, of which the first readable one
// is used.
func bundleCandidates(getenv func(string) string) []string {
	if file := getenv(bundleFileEnv); file != "" {
		return []string{file}
	}
	return strings.Split(bundleFiles, ":")
}

// certDirs returns the directories with CA files.
func certDirs(getenv func(string) string) []string {
	return strings.Split(cmp.Or(getenv(bundleDirsEnv), bundleDirs), ":")
}

// storeName returns where the node's CAs are stored, for use in errors. It returns "" if this
// is unknown.
func storeName(goos string, getenv func(string) string) string {
	if goos != "linux" {
		return ""
	}
	places := existingStorePaths(getenv)
	if len(places) == 0 {
		return "none found"
	}
	return strings.Join(places, " and ")
}

// existingStorePaths returns the existing locations of the node's CAs.
func existingStorePaths(getenv func(string) string) []string {
	files := slices.DeleteFunc(bundleCandidates(getenv), notExists)
	dirs := slices.DeleteFunc(certDirs(getenv), notExists)
	return append(files[:min(len(files), 1)], dirs...)
}

// SystemRoots returns the CAs that a Go program with this environment trusts, and the
// files and directories they come from. Both are nil on systems that have their own
// verifier and no such files.
func SystemRoots(getenv func(string) string) (pool *x509.CertPool, from []string) {
	if runtime.GOOS != "linux" {
		return nil, nil
	}
	return readSystemStore(runtime.GOOS, getenv), existingStorePaths(getenv)
}

func notExists(path string) bool {
	_, err := os.Stat(path)
	return err != nil
}

// trustedCAs holds the CAs that a transport trusts.
type trustedCAs struct {
	customPool *x509.CertPool // the only trusted CAs; nil means the system's
	extraPEM   []byte         // PEM of CAs to trust in addition to the system's
}

// bundlePool returns the CAs to try first. These are the CAs in the system's bundle, or all
// CAs if the bundle is empty.
func (a *trustedCAs) bundlePool(ctx context.Context) (*x509.CertPool, error) {
	pool, err := systemBundle.waitForCAs(ctx)
	if err != nil {
		return nil, err
	}
	if pool == nil {
		return a.fullPool(ctx)
	}
	if a.extraPEM != nil {
		pool = pool.Clone()
		pool.AppendCertsFromPEM(a.extraPEM)
	}
	return pool, nil
}

// fullPool returns all CAs, or nil on systems with their own verifier.
func (a *trustedCAs) fullPool(ctx context.Context) (*x509.CertPool, error) {
	if a.customPool != nil {
		return a.customPool, nil
	}
	pool, err := systemStore.waitForCAs(ctx)
	if err != nil || a.extraPEM == nil {
		return pool, err
	}
	if pool != nil {
		pool = pool.Clone()
	} else if pool, err = x509.SystemCertPool(); err != nil {
		pool = x509.NewCertPool() // a system without CAs
	}
	pool.AppendCertsFromPEM(a.extraPEM)
	return pool, nil
}

// isUnknownCA reports whether a handshake failed because the trusted CAs include no valid CA
// for the server's certificate. The CA may also have expired, because another file may
// contain its renewed certificate. isUnknownCA returns false if the server's own certificate
// is invalid.
func isUnknownCA(err error) bool {
	failed, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok {
		return false
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](failed.Err); ok {
		return len(failed.UnverifiedCertificates) == 0 || invalid.Cert != failed.UnverifiedCertificates[0]
	}
	_, ok = errors.AsType[x509.UnknownAuthorityError](failed.Err)
	return ok
}
