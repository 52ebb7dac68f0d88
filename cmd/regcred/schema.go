// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/config"
)

func (a *app) schemaCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "schema [VERSION]",
		Short: "Print the JSON Schema of the configuration for use in editors",
		Long: `Print a JSON Schema (draft 7) for a CredentialProviderConfig. Editors use the
schema to complete and explain fields and to flag what the kubelet rejects. By
default it covers all versions and selects one by the file's apiVersion; VERSION
limits it to v1, v1beta1 or v1alpha1. "regcred validate" also finds problems
that a schema cannot express.`,
		Example: `  regcred schema > credentialproviderconfig.schema.json
  regcred schema v1beta1`,
		Args:              optionalArgs("VERSION"),
		ValidArgsFunction: cobra.FixedCompletions(shortAPIVersions(), cobra.ShellCompDirectiveNoFileComp),
		RunE:              func(_ *cobra.Command, args []string) error { return a.schema(strings.Join(args, "")) },
	}
}

func (a *app) schema(version string) error {
	full := version
	if !strings.Contains(version, "/") && version != "" {
		full = strings.TrimSuffix(config.V1, "v1") + version
	}
	if schema, err := config.Schema(full); err == nil {
		return a.WriteForeignJSON(json.RawMessage(schema))
	}
	return usageError("", "unknown version %q: use %s, or omit the version to cover all versions", version, strings.Join(shortAPIVersions(), ", "))
}

func shortAPIVersions() []string { return []string{"v1", "v1beta1", "v1alpha1"} }
