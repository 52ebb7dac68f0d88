// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kubeconfig

import (
	"context"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/regcred/regcred/internal/regularfile"
)

const maxCAFileSize = 1 << 20 // bytes

// AddCAs adds PEM-encoded CAs to the CAs of a configuration. It does nothing if the
// configuration does not verify the server. It also does nothing if the configuration
// trusts the system's CAs, because client-go cannot add CAs to these.
func AddCAs(ctx context.Context, cfg *rest.Config, pem []byte) error {
	if cfg.Insecure || len(pem) == 0 {
		return nil
	}
	if len(cfg.CAData) == 0 && cfg.CAFile != "" {
		data, err := regularfile.Read(ctx, cfg.CAFile, maxCAFileSize)
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
