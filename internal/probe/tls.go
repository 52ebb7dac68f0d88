// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/remote"
)

// maxPEMSize limits the size of a PEM file in bytes.
const maxPEMSize = 1 << 20

// loadCertificates reads the CAs that the runtime trusts and its client certificates.
func (a *session) loadCertificates(ctx context.Context) error {
	if a.base.Scheme != "https" {
		return nil
	}
	a.pool, a.caFiles = remote.SystemRoots(a.Runtime.getenv)
	for _, file := range a.hop.CA {
		data, err := regularfile.Read(ctx, file, maxPEMSize)
		if err != nil {
			return fmt.Errorf("read the CAs set in %s: %w", a.hop.File, err)
		}
		if a.pool == nil {
			if a.pool, _ = x509.SystemCertPool(); a.pool == nil {
				a.pool = x509.NewCertPool()
			}
		}
		if !a.pool.AppendCertsFromPEM(data) {
			return fmt.Errorf("%s, set in %s, contains no PEM certificate", file, a.hop.File)
		}
		a.caFiles = append(a.caFiles, file)
	}
	for _, pair := range a.hop.ClientCertificates {
		cert, err := readKeyPair(ctx, pair)
		if err != nil {
			return fmt.Errorf("read the client certificate set in %s: %w", a.hop.File, err)
		}
		a.certs = append(a.certs, cert)
	}
	return nil
}

func readKeyPair(ctx context.Context, pair [2]string) (tls.Certificate, error) {
	cert, err := regularfile.Read(ctx, pair[0], maxPEMSize)
	if err != nil {
		return tls.Certificate{}, err
	}
	key := cert
	if pair[1] != "" {
		if key, err = regularfile.Read(ctx, pair[1], maxPEMSize); err != nil {
			return tls.Certificate{}, err
		}
	}
	both, err := tls.X509KeyPair(cert, key)
	if err != nil { // err may quote the key
		return both, fmt.Errorf("%s and its key do not match, or are not in PEM format", pair[0])
	}
	return both, nil
}

// handshakeUnverified performs a TLS handshake without verifying the server's certificate. If
// wanted is not nil, it reports whether the server requested a client certificate.
func (a *session) handshakeUnverified(ctx context.Context, conn net.Conn, u *url.URL, wanted *bool) (*tls.Conn, error) {
	secured := tls.Client(conn, &tls.Config{
		ServerName: u.Hostname(), InsecureSkipVerify: true, NextProtos: []string{"http/1.1"},
		GetClientCertificate: func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if wanted != nil {
				*wanted = true
			}
			for i := range a.certs {
				if info.SupportsCertificate(&a.certs[i]) == nil {
					return &a.certs[i], nil
				}
			}
			return new(tls.Certificate), nil
		},
	})
	return secured, secured.HandshakeContext(ctx)
}

// verifyHandshake performs the TLS handshake and verifies the certificate.
func (a *session) verifyHandshake(ctx context.Context, conn net.Conn, u *url.URL, proxied bool) bool {
	ctx, cancel := a.withStepTimeout(ctx)
	defer cancel()
	wanted := false
	secured, err := a.handshakeUnverified(ctx, conn, u, &wanted)
	switch {
	case err == nil:
	case isPlainHTTPError(err) && a.hop.TriesHTTPSFirst && a.messagePrefix == "":
		a.addStep(StepTLS, finding.SeverityOK, "", "%s uses plain HTTP, which %s falls back to if TLS fails", hostPort(u), a.runtimeName())
		a.base.Scheme = "http"
		return true
	default:
		return a.addHandshakeError(ctx, u, err, wanted)
	}
	state := secured.ConnectionState()
	if a.messagePrefix == "" {
		a.result.Certificates = describeChain(state.PeerCertificates)
	}
	who := a.certificateText(state)
	problems := a.chainProblems(state.PeerCertificates, u.Hostname())
	switch {
	case len(problems) == 0:
		a.addStep(StepTLS, finding.SeverityOK, "", "%s; verified by %s%s", who, a.caFilesText(), a.staleCAsText())
	case a.hop.SkipVerify && a.hop.File == "":
		a.addStep(StepTLS, finding.SeverityOK, "", "%s; certificate not verified, because %s does not verify certificates for loopback addresses", who, a.runtimeName())
	case a.hop.SkipVerify:
		a.addStep(StepTLS, finding.SeverityWarning, "set the CA (ca) instead of skip_verify, because anyone impersonating the registry could get the password",
			"%s; certificate verification is turned off in %s: %s", who, a.hop.File, describeProblems(problems))
	default:
		fix := problems[0].fix
		if proxied && problems[0].unknownAuthority {
			fix = "the proxy intercepts TLS with a certificate from its own CA instead of the registry's certificate: " + fix
		}
		return a.addFailedStep(StepTLS, fix, "%s: %s", hostPort(u), describeProblems(problems))
	}
	return true
}

// isPlainHTTPError reports whether a server responds with plain HTTP.
func isPlainHTTPError(err error) bool {
	record, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok && string(record.RecordHeader[:]) == "HTTP/"
}

// addHandshakeError reports a failed handshake.
func (a *session) addHandshakeError(ctx context.Context, u *url.URL, err error, wanted bool) bool {
	at := hostPort(u)
	alert, isAlert := strings.CutPrefix(err.Error(), "remote error: tls: ") // the error has no type
	_, isRecord := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case ctx.Err() != nil:
		return a.addFailedStep(StepTLS, "check for a firewall that blocks TLS, or for a service that uses another protocol on this port", "%s accepts connections but does not respond to a TLS handshake: %v", at, ContextCause(ctx))
	case isPlainHTTPError(err):
		return a.addFailedStep(StepTLS, a.plainHTTPFix(), "%s uses plain HTTP, not TLS", at)
	case isRecord:
		return a.addFailedStep(StepTLS, a.plainHTTPFix(), "%s responds to a TLS handshake with something other than TLS", at)
	case strings.Contains(err.Error(), "protocol version"):
		return a.addFailedStep(StepTLS, "enable TLS 1.2 or newer on the registry", "%s supports only TLS versions before 1.2", at)
	case isAlert && wanted:
		return a.addFailedStep(StepTLS, a.clientCertFix(), "%s requires a client certificate and rejects %s", at, a.clientCertText())
	case alert == "unrecognized name":
		return a.addFailedStep(StepTLS, "check the name, and the ingress or load balancer that serves it", "%s does not recognize the name %s", at, u.Hostname())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return a.addFailedStep(StepTLS, "check for a firewall that filters by name, or a load balancer without a backend", "%s closes the connection during the TLS handshake", at)
	}
	return a.addFailedStep(StepTLS, "", "%s: TLS: %v", at, err)
}

func (a *session) clientCertText() string {
	if len(a.certs) == 0 {
		return "connections without one"
	}
	return "the one set in " + a.hop.File
}
