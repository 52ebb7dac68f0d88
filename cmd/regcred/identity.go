// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/plugin"
)

// identityFlags set the service account's token and annotations for a plugin.
type identityFlags struct {
	tokenFile string
	pairs     []string // annotations as key=value
}

func (i *identityFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&i.tokenFile, "service-account-token-file", "",
		"`file` with a service account token, for providers with tokenAttributes")
	f.StringArrayVar(&i.pairs, "annotation", nil,
		"service account annotation `key=value`; may be repeated")
}

// check rejects annotations without a service account.
func (i *identityFlags) check() error {
	annotations, err := i.annotations()
	if err == nil && annotations != nil && i.tokenFile == "" {
		err = usageError("", "--annotation requires --service-account-token-file")
	}
	return err
}

// annotations parses --annotation. It returns nil if the flag is not set.
func (i *identityFlags) annotations() (map[string]string, error) {
	var annotations map[string]string
	for _, pair := range i.pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, usageError("", "--annotation %q: want key=value", pair)
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
	}
	return annotations, nil
}

// maxTokenFile limits the size of a token file, in bytes.
const maxTokenFile = 1 << 20

// read returns the token and the annotations from the flags. Both are empty if no flag
// is set.
func (i *identityFlags) read(ctx context.Context) (token plugin.Secret, annotations map[string]string, err error) {
	if annotations, err = i.annotations(); err != nil || i.tokenFile == "" {
		return token, annotations, err
	}
	data, err := regularfile.Read(ctx, i.tokenFile, maxTokenFile)
	if err != nil {
		return token, nil, fmt.Errorf("--service-account-token-file: %w", err)
	}
	if token = plugin.NewSecret(strings.TrimSpace(string(data))); token.IsZero() {
		return token, nil, fmt.Errorf("--service-account-token-file: %s is empty", i.tokenFile)
	}
	return token, annotations, nil
}
