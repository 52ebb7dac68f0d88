// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/doctor"
)

// dockerHubKey is the name that docker's own files use for Docker Hub.
const dockerHubKey = "https://index.docker.io/v1/"

// registryHost is the concrete host of a normalised repository.
func registryHost(repository string) string {
	host, _, _ := strings.Cut(repository, "/")
	return host
}

// secretName is what a Secret is called; the namespace may be empty.
type secretName struct{ namespace, name string }

// single writes one credential in a format that holds no more.
func single(format string, secret secretName, host string, c regcred.Credential) ([]byte, error) {
	if strings.Contains(c.Username, ":") {
		return nil, withHint(fmt.Errorf("-o %s: user name %q has a colon, which ends a user name in this format", format, c.Username), "use -o json")
	}
	login := c.Username + ":" + c.Password.Reveal()
	if format == "crictl" {
		return []byte(login + "\n"), nil
	}
	config, err := dockerConfig(host, login)
	if err != nil || format == "docker-config" {
		return config, err
	}
	return secretManifest(secret, config)
}

// dockerConfig is a docker config.json with one login.
func dockerConfig(host, login string) ([]byte, error) {
	if host == "docker.io" || host == "index.docker.io" {
		host = dockerHubKey
	}
	type auth struct {
		Auth string `json:"auth"`
	}
	config := struct {
		Auths map[string]auth `json:"auths"`
	}{map[string]auth{host: {base64.StdEncoding.EncodeToString([]byte(login))}}}
	data, err := json.MarshalIndent(config, "", "  ")
	return append(data, '\n'), err
}

// secretManifest is a Kubernetes Secret of type kubernetes.io/dockerconfigjson.
func secretManifest(secret secretName, config []byte) ([]byte, error) {
	type metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace,omitempty"`
	}
	return yaml.Marshal(struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   metadata          `json:"metadata"`
		Type       string            `json:"type"`
		Data       map[string][]byte `json:"data"`
	}{"v1", "Secret", metadata{secret.name, secret.namespace}, doctor.TypeDockerConfigJSON, map[string][]byte{doctor.KeyDockerConfigJSON: config}})
}
