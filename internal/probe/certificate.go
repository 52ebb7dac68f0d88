// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/terminal"
)

// certProblem is a reason to reject a certificate.
type certProblem struct {
	message, fix     string
	unknownAuthority bool // the CA is not trusted
}

func describeProblems(problems []certProblem) string {
	var parts []string
	for _, p := range problems {
		parts = append(parts, p.message)
	}
	return strings.Join(parts, "; and ")
}

// maxShownNames limits how many names are shown.
const maxShownNames = 10

func certNames(cert *x509.Certificate) (list []string) {
	list = append(list, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		list = append(list, ip.String())
	}
	return firstFew(list)
}

// firstFew returns the first elements of a list. If some are omitted, the last element is
// their number.
func firstFew(list []string) []string {
	if n := len(list); n > maxShownNames {
		return append(list[:maxShownNames:maxShownNames], fmt.Sprintf("%d more", n-maxShownNames))
	}
	return list
}

// maxCertificates limits how many certificates of a chain are described.
const maxCertificates = 10

func describeChain(chain []*x509.Certificate) (list []Certificate) {
	for _, c := range chain[:min(len(chain), maxCertificates)] {
		list = append(list, Certificate{singleLine(c.Subject.String()), singleLine(c.Issuer.String()), certNames(c), c.NotBefore.UTC(), c.NotAfter.UTC()})
	}
	return list
}

// certificateText describes the server's certificate.
func (a *session) certificateText(state tls.ConnectionState) string {
	cert := state.PeerCertificates[0]
	return fmt.Sprintf("%s, certificate %q issued by %q for %s, valid from %s to %s", tls.VersionName(state.Version), cert.Subject, cert.Issuer,
		strings.Join(certNames(cert), ", "), dateText(cert.NotBefore), dateText(cert.NotAfter))
}

func dateText(t time.Time) string { return t.UTC().Format("2006-01-02 15:04Z") }

// chainProblems returns the reasons why a runtime rejects a chain for a host, worst
// first.
func (a *session) chainProblems(chain []*x509.Certificate, host string) (list []certProblem) {
	leaf, now := chain[0], time.Now()
	what := fmt.Sprintf("its certificate (%q of %q)", leaf.Subject, leaf.Issuer)
	clock := fmt.Sprintf("; this machine's clock shows %s", dateText(now))
	at := now
	switch {
	case now.After(leaf.NotAfter):
		list = append(list, certProblem{message: fmt.Sprintf("%s expired %s ago, at %s%s", what, durationText(now.Sub(leaf.NotAfter)), dateText(leaf.NotAfter), clock),
			fix: "renew the registry's certificate, or set the clock if it is wrong (timedatectl)"})
		at = leaf.NotAfter
	case now.Before(leaf.NotBefore):
		list = append(list, certProblem{message: fmt.Sprintf("%s is not valid until %s (in %s)%s", what, dateText(leaf.NotBefore), durationText(leaf.NotBefore.Sub(now)), clock),
			fix: "set the clock if it is wrong (timedatectl), or wait"})
		at = leaf.NotBefore
	}
	if err := leaf.VerifyHostname(host); err != nil {
		has := "none (the common name is ignored)"
		if list := certNames(leaf); list != nil {
			has = strings.Join(list, ", ")
		}
		list = append(list, certProblem{message: fmt.Sprintf("%s is not valid for %s; names in the certificate: %s", what, host, has),
			fix: "use one of these names for the registry, or add the registry's name to its certificate (subjectAltName)"})
	}
	if p := a.unknownAuthorityProblem(chain, at, what); p != nil {
		list = append(list, *p)
	}
	return list
}

// unknownAuthorityProblem returns why the chain is not signed by a trusted CA, or nil
// if it is.
func (a *session) unknownAuthorityProblem(chain []*x509.Certificate, at time.Time, what string) *certProblem {
	opts := x509.VerifyOptions{Roots: a.pool, Intermediates: x509.NewCertPool(), CurrentTime: at}
	for _, c := range chain[1:] {
		opts.Intermediates.AddCert(c)
	}
	leaf := chain[0]
	_, err := leaf.Verify(opts)
	if err == nil {
		return nil
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired && invalid.Cert != leaf {
		if past := time.Since(at) > time.Minute; past {
			return nil // the certificate is verified for a time in the past, so the CA's validity at that time does not matter
		}
		return &certProblem{message: fmt.Sprintf("the certificate of the CA %q is valid only from %s to %s", invalid.Cert.Subject, dateText(invalid.Cert.NotBefore), dateText(invalid.Cert.NotAfter)),
			fix: "configure the registry to send the CA's renewed certificate"}
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); !ok {
		return &certProblem{message: fmt.Sprintf("%s is not accepted: %v", what, err), fix: "replace the registry's certificate"}
	}
	last := chain[len(chain)-1]
	selfSigned := leaf.CheckSignature(leaf.SignatureAlgorithm, leaf.RawTBSCertificate, leaf.Signature) == nil && leaf.Subject.String() == leaf.Issuer.String()
	switch {
	case selfSigned:
		return &certProblem{message: what + " is self-signed and not trusted by " + a.caFilesText(), fix: a.trustCAFix("the certificate"), unknownAuthority: true}
	case len(chain) == 1 && len(leaf.IssuingCertificateURL) > 0:
		return &certProblem{message: fmt.Sprintf("the registry sends only its own certificate, without the intermediate certificate %q, which is also missing from %s", leaf.Issuer, a.caFilesText()),
			fix: fmt.Sprintf("configure the registry to send the full chain (the intermediate is at %.200s)", leaf.IssuingCertificateURL[0])}
	}
	return &certProblem{message: fmt.Sprintf("the CA %q that signed %s is not in %s", last.Issuer, what, a.caFilesText()), fix: a.trustCAFix("its certificate"), unknownAuthority: true}
}

// caFilesText names the files of the trusted CAs.
func (a *session) caFilesText() string {
	if len(a.caFiles) == 0 {
		return "this machine's CA store"
	}
	text := strings.Join(a.caFiles, " and ")
	if a.Runtime.getenv("SSL_CERT_FILE") != "" || a.Runtime.getenv("SSL_CERT_DIR") != "" {
		text += fmt.Sprintf(" (from SSL_CERT_FILE and SSL_CERT_DIR in the environment of %s)", a.environmentOwner())
	}
	return text
}

// staleCAsText returns a note if the CA store changed after the runtime started.
func (a *session) staleCAsText() string {
	if len(a.caFiles) == 0 || a.Runtime.Started.IsZero() {
		return ""
	}
	info, err := os.Stat(a.caFiles[0])
	if err != nil || !info.ModTime().After(a.Runtime.Started) {
		return ""
	}
	return fmt.Sprintf(", which changed after %s started (%s); new CAs take effect only after a restart", a.runtimeName(), dateText(a.Runtime.Started))
}

// trustCAFix returns how to make the runtime trust a CA.
func (a *session) trustCAFix(what string) string {
	host := a.base.Host
	own := ""
	switch a.Runtime.Name {
	case "containerd":
		own = fmt.Sprintf(`set ca in /etc/containerd/certs.d/%[2]s/hosts.toml to a file with %[1]s; or `, what, host)
	case "CRI-O", "podman":
		own = fmt.Sprintf("put %s into /etc/containers/certs.d/%s/ca.crt; or ", what, host)
	}
	return own + fmt.Sprintf("add it to the node's CA store (update-ca-certificates, update-ca-trust) and restart %s", a.runtimeName())
}

func (a *session) clientCertFix() string {
	if a.Runtime.Name == "containerd" {
		return fmt.Sprintf("set client in /etc/containerd/certs.d/%s/hosts.toml to a certificate that the registry accepts", a.base.Host)
	}
	return fmt.Sprintf("put a certificate that the registry accepts into /etc/containers/certs.d/%s/client.cert and client.key", a.base.Host)
}

// plainHTTPFix returns how to make the runtime use plain HTTP.
func (a *session) plainHTTPFix() string {
	secure := "configure TLS on the registry, or use its TLS port"
	switch a.Runtime.Name {
	case "containerd":
		return fmt.Sprintf(`%s; to use plain HTTP, set server = "http://%s" in /etc/containerd/certs.d/%s/hosts.toml`, secure, a.base.Host, a.base.Host)
	case "CRI-O", "podman":
		return fmt.Sprintf("%s; to use plain HTTP, set insecure = true for %s in registries.conf", secure, a.base.Host)
	}
	return fmt.Sprintf(`%s; to use plain HTTP, set server = "http://%s" in containerd's /etc/containerd/certs.d/%s/hosts.toml, or insecure = true in CRI-O's registries.conf`, secure, a.base.Host, a.base.Host)
}

func durationText(d time.Duration) string {
	if d >= 48*time.Hour {
		return terminal.FormatCount(int(d.Hours()/24), "day")
	}
	return terminal.FormatDuration(d.Round(time.Second))
}
