// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/internal/secretfile"
)

// config holds the supported fields of azure.json. Keys are case-insensitive. Unknown keys are
// ignored, because the file is written for the cloud controller.
type config struct {
	Cloud                   string `json:"cloud"`
	TenantID                string `json:"tenantId"`
	ResourceManagerEndpoint string `json:"resourceManagerEndpoint"`
	UserAgent               string `json:"userAgent"`

	UseManagedIdentity     bool   `json:"useManagedIdentityExtension"`
	UserAssignedIdentityID string `json:"userAssignedIdentityID"`

	ClientID           string `json:"aadClientId"`
	ClientSecret       string `json:"aadClientSecret"`
	ClientCertPath     string `json:"aadClientCertPath"`
	ClientCertPassword string `json:"aadClientCertPassword"`

	UseFederatedIdentity bool   `json:"useFederatedWorkloadIdentityExtension"`
	FederatedTokenFile   string `json:"aadFederatedTokenFile"`
	DataPlaneIdentity    string `json:"aadMSIDataPlaneIdentityPath"`
}

// readConfig reads azure.json. Errors do not quote the file, because it may contain a
// secret.
func readConfig(path string) (*config, error) {
	files, err := secretfile.Read(path)
	if err != nil {
		return nil, fmt.Errorf("cloud configuration %w", err)
	}
	cfg, err := parseConfig(files[0].Data)
	if err != nil {
		return nil, fmt.Errorf("cloud configuration %q: %w", path, err)
	}
	check := files[0].CheckNotWritable // the file determines where secrets are sent
	if cfg.hasSecret() {
		check = files[0].CheckNotExposed
	}
	if err := check(); err != nil {
		return nil, fmt.Errorf("cloud configuration %w", err)
	}
	return cfg, nil
}

// hasSecret reports whether the file contains a secret. AKS writes "msi" instead of a secret.
func (c *config) hasSecret() bool {
	return c.ClientSecret != "" && c.ClientSecret != "msi" || c.ClientCertPassword != ""
}

func parseConfig(data []byte) (*config, error) {
	cfg := &config{}
	if err := unmarshalYAML(data, cfg); err != nil {
		return nil, err
	}
	return cfg, nil
}

// environmentFile holds the supported fields of an Azure environment file.
type environmentFile struct {
	ActiveDirectoryEndpoint string `json:"activeDirectoryEndpoint"`
	RegistrySuffix          string `json:"containerRegistryDNSSuffix"`
}

func readEnvironmentFile(path string) (environmentFile, error) {
	var env environmentFile
	data, err := secretfile.ReadTrusted(path) // the file determines where secrets are sent
	if err != nil {
		return env, fmt.Errorf("AZURE_ENVIRONMENT_FILEPATH: environment file %w", err)
	}
	if err := unmarshalYAML(data, &env); err != nil {
		return env, fmt.Errorf("AZURE_ENVIRONMENT_FILEPATH: environment file %q: %w", path, err)
	}
	return env, nil
}

// unmarshalYAML parses YAML, including JSON, as the upstream plugin does.
func unmarshalYAML(data []byte, into any) error {
	if json.Unmarshal(data, into) == nil {
		return nil // JSON is more common, and much faster to parse
	}
	if err := yaml.Unmarshal(bytes.TrimSpace(data), into); err != nil {
		return redactParserError(err.Error())
	}
	return nil
}

// redactParserError reduces a parser's error message to a line number or field, because the message
// may quote the file. It compiles the patterns only when they are needed.
func redactParserError(said string) error {
	if m := regexp.MustCompile(`Go struct field [a-zA-Z]+\.([a-zA-Z]+) of type (bool|string)`).FindStringSubmatch(said); m != nil {
		return fmt.Errorf("%s is not a %s", m[1], map[string]string{"bool": "boolean", "string": "string"}[m[2]])
	}
	if line := regexp.MustCompile(`\bline [0-9]+\b`).FindString(said); line != "" {
		return fmt.Errorf("neither JSON nor YAML: %s", line)
	}
	return errors.New("not a JSON or YAML object")
}

// podIdentity is the configuration of a pod. It has its own field for the authority, because
// azure.json contains only the name of the cloud.
type podIdentity struct {
	config    config
	authority string
}

// Environment variables read by [InPod].
const (
	envClientID  = "AZURE_CLIENT_ID"
	envTenantID  = "AZURE_TENANT_ID"
	envTokenFile = "AZURE_FEDERATED_TOKEN_FILE"
	envAuthority = "AZURE_AUTHORITY_HOST"
)
