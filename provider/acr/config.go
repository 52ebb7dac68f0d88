// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/internal/regularfile"
)

// maxConfig bounds a configuration file in bytes.
const maxConfig = 1 << 20

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
	data, err := readFile(path)
	if err == nil {
		var cfg *config
		if cfg, err = parseConfig(data); err == nil {
			return cfg, nil
		}
	}
	return nil, fmt.Errorf("cloud configuration %q: %w", path, err)
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
	data, err := readFile(path)
	if err == nil {
		err = unmarshal(data, &env)
	}
	if err != nil {
		return env, fmt.Errorf("environment file %q (AZURE_ENVIRONMENT_FILEPATH): %w", path, err)
	}
	return env, nil
}

// readFile reads a regular file of at most maxConfig bytes. Its errors do not
// name it.
func readFile(path string) ([]byte, error) {
	data, err := regularfile.Read(context.Background(), path, maxConfig)
	return data, regularfile.Cause(err)
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
		return fmt.Errorf("it is neither JSON nor YAML: %s", line)
	}
	return errors.New("it is not an object in JSON or YAML")
}
