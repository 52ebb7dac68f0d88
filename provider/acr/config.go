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

// config is what the plugin needs of azure.json. Keys are matched without
// regard to case, and others are ignored: the file is written for the cloud
// controller first.
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

// readConfig reads azure.json. Its errors hold nothing of the file, which has
// a secret in it.
func readConfig(path string) (*config, error) {
	files, err := secretfile.Read(path)
	if err != nil {
		return nil, fmt.Errorf("cloud configuration %w", err)
	}
	cfg, err := parseConfig(files[0].Data)
	if err != nil {
		return nil, fmt.Errorf("cloud configuration %q: %w", path, err)
	}
	if err := guard(files[0], cfg.hasSecret()); err != nil {
		return nil, fmt.Errorf("cloud configuration %w", err)
	}
	return cfg, nil
}

// hasSecret reports whether the file is nothing for others to read. AKS has
// "msi" in the place of a secret that there is none of.
func (c *config) hasSecret() bool {
	return c.ClientSecret != "" && c.ClientSecret != "msi" || c.ClientCertPassword != ""
}

func parseConfig(data []byte) (*config, error) {
	cfg := &config{}
	if err := unmarshal(data, cfg); err != nil {
		return nil, err
	}
	return cfg, nil
}

// environmentFile is the part of an Azure environment file that matters here.
type environmentFile struct {
	ActiveDirectoryEndpoint string `json:"activeDirectoryEndpoint"`
	RegistrySuffix          string `json:"containerRegistryDNSSuffix"`
}

func readEnvironmentFile(path string) (environmentFile, error) {
	var env environmentFile
	data, err := readFile(path, false)
	if err != nil {
		return env, fmt.Errorf("AZURE_ENVIRONMENT_FILEPATH: environment file %w", err)
	}
	if err := unmarshal(data, &env); err != nil {
		return env, fmt.Errorf("AZURE_ENVIRONMENT_FILEPATH: environment file %q: %w", path, err)
	}
	return env, nil
}

// guard refuses a file that others may write: each says where secrets go, or
// whom to trust. One with a secret is not theirs to read either.
func guard(file secretfile.File, secret bool) error {
	if secret {
		return file.Private()
	}
	return file.Unwritable()
}

// readFile reads a file that is guarded. Its errors begin with the file's name.
func readFile(path string, secret bool) ([]byte, error) {
	files, err := secretfile.Read(path)
	if err == nil {
		err = guard(files[0], secret)
	}
	if err != nil {
		return nil, err
	}
	return files[0].Data, nil
}

// unmarshal reads YAML, and so JSON, as upstream does.
func unmarshal(data []byte, into any) error {
	if json.Unmarshal(data, into) == nil {
		return nil // as nearly everywhere, and in a fraction of the time
	}
	if err := yaml.Unmarshal(bytes.TrimSpace(data), into); err != nil {
		return withoutText(err.Error())
	}
	return nil
}

// withoutText makes an error of what a parser says, which may quote the text
// that it did not understand: of that, line and field are shown. (The patterns
// are compiled here since few runs need them.)
func withoutText(said string) error {
	if m := regexp.MustCompile(`Go struct field [a-zA-Z]+\.([a-zA-Z]+) of type (bool|string)`).FindStringSubmatch(said); m != nil {
		return fmt.Errorf("%s is not a %s", m[1], map[string]string{"bool": "boolean", "string": "string"}[m[2]])
	}
	if line := regexp.MustCompile(`\bline [0-9]+\b`).FindString(said); line != "" {
		return fmt.Errorf("neither JSON nor YAML: %s", line)
	}
	return errors.New("not a JSON or YAML object")
}

// podIdentity is what azure.json would say of a pod, and the authority, which
// that names by its cloud.
type podIdentity struct {
	config    config
	authority string
}

// The variables of a pod, which [InPod] reads.
const (
	envClientID  = "AZURE_CLIENT_ID"
	envTenantID  = "AZURE_TENANT_ID"
	envTokenFile = "AZURE_FEDERATED_TOKEN_FILE"
	envAuthority = "AZURE_AUTHORITY_HOST"
)
