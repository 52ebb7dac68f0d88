// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/regularfile"
)

// caFile is a file of CA certificates that are trusted in addition to the system's.
type caFile string

func (f *caFile) register(cmd *cobra.Command) {
	cmd.Flags().StringVar((*string)(f), "ca-file", "", "PEM `file` of CA certificates to trust in addition to those in the kubeconfig")
}

// maxCAFile limits the size of a CA file, in bytes. A system's complete bundle is about
// a quarter of it.
const maxCAFile = 1 << 20

// read returns the certificates, or nil if no file is set.
func (f caFile) read(ctx context.Context) ([]*x509.Certificate, error) {
	if f == "" {
		return nil, nil
	}
	data, err := regularfile.Read(ctx, string(f), maxCAFile)
	if err != nil {
		return nil, fmt.Errorf("--ca-file: %w", err)
	}
	var list []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %s: certificate %d: %w", f, len(list)+1, err)
		}
		list = append(list, cert)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("--ca-file: %s contains no PEM certificate", f)
	}
	return list, nil
}

// registryTransport returns the transport for registries, or nil if no file is set.
func (f caFile) registryTransport(ctx context.Context) (http.RoundTripper, error) {
	list, err := f.read(ctx)
	if err != nil || list == nil {
		return nil, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("--ca-file: load the system's certificates: %w", err)
	}
	for _, cert := range list {
		roots.AddCert(cert)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	return transport, nil
}

// pem returns only the certificates, without the rest of the file.
func (f caFile) pem(ctx context.Context) ([]byte, error) {
	list, err := f.read(ctx)
	var text []byte
	for _, cert := range list {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})...)
	}
	return text, err
}
