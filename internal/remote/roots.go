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

// bundleFiles and bundleDirs are where package x509 looks on Linux
// (crypto/x509/root_linux.go): the first file that can be read, and all of the
// directories. Most systems have every authority in both, and to read the
// directories takes ten times as long as to read the file.
const (
	bundleFiles = "/etc/ssl/certs/ca-certificates.crt:/etc/pki/tls/certs/ca-bundle.crt:/etc/ssl/ca-bundle.pem:" +
		"/etc/pki/tls/cacert.pem:/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem:/etc/ssl/cert.pem"
	bundleDirs = "/etc/ssl/certs:/etc/pki/tls/certs"

	envBundle = "SSL_CERT_FILE"
	envDirs   = "SSL_CERT_DIR"

	maxBundle = 16 << 20 // bytes; Debian's has 220 thousand
)

// systemBundle holds the authorities in the system's file, and systemStore all
// of the system's. Each is read once a process, as package x509 does it, which
// would wait for the writer of a named pipe in the store, and read /dev/zero.
var (
	systemBundle = roots{read: readBundle, done: make(chan struct{})}
	systemStore  = roots{read: readStore, done: make(chan struct{})}
)

type roots struct {
	read func(goos string, getenv func(string) string) *x509.CertPool
	once sync.Once
	done chan struct{}
	pool *x509.CertPool // nil: there is nothing that can be read here
}

// Prepare begins to read the system's authorities, which takes a few
// milliseconds, for who will ask over TLS and has something else to do before.
func Prepare() { systemBundle.start() }

// start reads them in the background, unless that was done before.
func (r *roots) start() {
	r.once.Do(func() {
		go func() {
			defer close(r.done)
			r.pool = r.read(runtime.GOOS, os.Getenv)
		}()
	})
}

// wait returns the authorities, or nil.
func (r *roots) wait(ctx context.Context) (*x509.CertPool, error) {
	r.start()
	select {
	case <-r.done:
		return r.pool, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// readBundle returns nil where the file alone would not do: on systems that
// verify by themselves, and where it has nothing to offer.
func readBundle(goos string, getenv func(string) string) *x509.CertPool {
	if goos != "linux" {
		return nil
	}
	pool := x509.NewCertPool()
	for _, file := range certFiles(getenv) {
		if found, err := appendFile(pool, file); found {
			return pool
		} else if err == nil {
			return nil
		}
	}
	return nil
}

// readStore reads the bundle and all files of the directories; nil on systems
// that verify by themselves.
func readStore(goos string, getenv func(string) string) *x509.CertPool {
	if goos != "linux" {
		return nil
	}
	pool := x509.NewCertPool()
	for _, file := range certFiles(getenv) {
		if _, err := appendFile(pool, file); err == nil {
			break
		}
	}
	for _, dir := range certDirs(getenv) {
		entries, _ := os.ReadDir(dir) // those before an error count
		for _, entry := range entries {
			if path := filepath.Join(dir, entry.Name()); !isLinkWithin(path) {
				appendFile(pool, path)
			}
		}
	}
	return pool
}

// isLinkWithin reports whether a name, as a hash, stands for another file of
// its directory.
func isLinkWithin(path string) bool {
	target, err := os.Readlink(path)
	return err == nil && !strings.Contains(target, "/")
}

// appendFile adds the authorities of a file in PEM; found says that there are
// some. An error is one of reading.
func appendFile(pool *x509.CertPool, path string) (found bool, err error) {
	data, err := regularfile.Read(context.Background(), path, maxBundle)
	if err != nil {
		return false, err
	}
	return pool.AppendCertsFromPEM(data), nil
}

// certFiles are the files of which the first that can be read is the bundle.
func certFiles(getenv func(string) string) []string {
	if file := getenv(envBundle); file != "" {
		return []string{file}
	}
	return strings.Split(bundleFiles, ":")
}

// certDirs are the directories whose files are read too.
func certDirs(getenv func(string) string) []string {
	return strings.Split(cmp.Or(getenv(envDirs), bundleDirs), ":")
}

// storeName is where this node has its authorities, for errors; "" if that is
// not known.
func storeName(goos string, getenv func(string) string) string {
	if goos != "linux" {
		return ""
	}
	places := storePlaces(getenv)
	if len(places) == 0 {
		return "none found"
	}
	return strings.Join(places, " and ")
}

// storePlaces are those of a node's places for authorities that there are.
func storePlaces(getenv func(string) string) []string {
	files := slices.DeleteFunc(certFiles(getenv), isMissing)
	dirs := slices.DeleteFunc(certDirs(getenv), isMissing)
	return append(files[:min(len(files), 1)], dirs...)
}

// Authorities are those that a Go program trusts in whose environment getenv
// looks, and the names of the files and directories that they are from. On
// systems that verify by themselves, and have no such files, both are nil.
func Authorities(getenv func(string) string) (pool *x509.CertPool, from []string) {
	if runtime.GOOS != "linux" {
		return nil, nil
	}
	return readStore(runtime.GOOS, getenv), storePlaces(getenv)
}

func isMissing(path string) bool {
	_, err := os.Stat(path)
	return err != nil
}

// authorities are those that a transport trusts.
type authorities struct {
	own  *x509.CertPool // the only ones; nil means those of the system
	more []byte         // in PEM, beside those of the system
}

// few returns the authorities to try first: those in the system's bundle, or
// all if it has none.
func (a *authorities) few(ctx context.Context) (*x509.CertPool, error) {
	pool, err := systemBundle.wait(ctx)
	if err != nil {
		return nil, err
	}
	if pool == nil {
		return a.all(ctx)
	}
	if a.more != nil {
		pool = pool.Clone()
		pool.AppendCertsFromPEM(a.more)
	}
	return pool, nil
}

// all returns every authority; nil means those of a system that verifies by
// itself.
func (a *authorities) all(ctx context.Context) (*x509.CertPool, error) {
	if a.own != nil {
		return a.own, nil
	}
	pool, err := systemStore.wait(ctx)
	if err != nil || a.more == nil {
		return pool, err
	}
	if pool != nil {
		pool = pool.Clone()
	} else if pool, err = x509.SystemCertPool(); err != nil {
		pool = x509.NewCertPool() // a system without authorities
	}
	pool.AppendCertsFromPEM(a.more)
	return pool, nil
}

// isUnknown reports whether a handshake failed for want of an authority: none
// is known, or one that is of no use, as one that has expired where a younger
// one of the same name exists. For the server's own certificate none helps.
func isUnknown(err error) bool {
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
