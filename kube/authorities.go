// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import (
	"context"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/regcred/regcred/internal/regularfile"
)

// maxAuthorities bounds a file of certificates, in bytes.
const maxAuthorities = 1 << 20

// AddAuthorities has the API server of a configuration believed too if one of
// these authorities, in PEM, certifies it, beside those that the configuration
// names. If it names none, the system's are believed, to which client-go cannot
// add, and nothing is changed; nor where the server is not verified.
func AddAuthorities(ctx context.Context, cfg *rest.Config, pem []byte) error {
	if cfg.Insecure || len(pem) == 0 {
		return nil
	}
	if len(cfg.CAData) == 0 && cfg.CAFile != "" {
		data, err := regularfile.Read(ctx, cfg.CAFile, maxAuthorities)
		if err != nil {
			return err
		}
		cfg.CAData, cfg.CAFile = data, ""
	}
	if len(cfg.CAData) > 0 {
		cfg.CAData = slices.Concat(cfg.CAData, []byte("\n"), pem)
	}
	return nil
}
