// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/plugin"
)

// addIdentityFlags adds the flags that give a plugin a service account's identity.
func addIdentityFlags(cmd *cobra.Command, tokenFile *string, annotations *[]string) {
	f := cmd.Flags()
	f.StringVar(tokenFile, "service-account-token-file", "",
		"`file` with a service account token, for providers with tokenAttributes")
	f.StringArrayVar(annotations, "annotation", nil,
		"`key=value` of the service account's annotations; may be repeated")
}

// maxTokenFile and maxPullSecretFile bound files that are given by name, in bytes.
const (
	maxTokenFile      = 1 << 20
	maxPullSecretFile = 16 << 20
)

// readBounded reads a file that has at most limit bytes.
func readBounded(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is larger than %s", name, terminal.Bytes(limit))
	}
	return data, err
}

// readIdentity reads what --service-account-token-file and --annotation name.
func readIdentity(tokenFile string, pairs []string) (token plugin.Secret, annotations map[string]string, err error) {
	if annotations, err = checkAnnotations(pairs, tokenFile); err != nil || tokenFile == "" {
		return plugin.Secret{}, nil, err
	}
	data, err := readBounded(tokenFile, maxTokenFile)
	if err != nil {
		return plugin.Secret{}, nil, fmt.Errorf("--service-account-token-file: %w", err)
	}
	token = plugin.NewSecret(strings.TrimSpace(string(data)))
	if token.IsZero() {
		return plugin.Secret{}, nil, fmt.Errorf("--service-account-token-file: %s is empty", tokenFile)
	}
	return token, annotations, nil
}

// checkAnnotations reads what --annotation says, which needs a service account.
func checkAnnotations(pairs []string, tokenFile string) (map[string]string, error) {
	annotations, err := parseAnnotations(pairs)
	if err == nil && annotations != nil && tokenFile == "" {
		err = usageError("", "--annotation needs --service-account-token-file: without a service account there are no annotations")
	}
	return annotations, err
}

// parseAnnotations reads key=value pairs; without any it returns nil.
func parseAnnotations(pairs []string) (map[string]string, error) {
	var annotations map[string]string
	for _, pair := range pairs {
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
