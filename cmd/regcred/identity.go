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

// identityFlags give a plugin a service account's identity.
type identityFlags struct {
	tokenFile string
	pairs     []string // of annotations: key=value
}

func (i *identityFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&i.tokenFile, "service-account-token-file", "",
		"`file` with a service account token, for providers with tokenAttributes")
	f.StringArrayVar(&i.pairs, "annotation", nil,
		"service account annotation `key=value`; may be repeated")
}

// check refuses annotations that nobody has: they need a service account.
func (i *identityFlags) check() error {
	annotations, err := i.annotations()
	if err == nil && annotations != nil && i.tokenFile == "" {
		err = usageError("", "--annotation requires --service-account-token-file")
	}
	return err
}

// annotations reads what --annotation says; without any it returns nil.
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

// maxTokenFile bounds a file with a token, in bytes.
const maxTokenFile = 1 << 20

// read reads what the flags name; without them both are empty.
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
