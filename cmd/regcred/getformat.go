// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/terminal"
)

// single formats a credential for formats that hold only one. meta is the metadata of a
// Secret; its namespace may be empty.
func single(format string, meta metav1.ObjectMeta, repository string, c regcred.Credential) ([]byte, error) {
	if strings.Contains(c.Username, ":") {
		return nil, withHint(fmt.Errorf("-o %s: user name %q contains a colon, which is not allowed in this format", format, c.Username), "use -o json")
	}
	login := c.Username + ":" + c.Password.Reveal()
	if format == "crictl" {
		if !terminal.Printable(login) {
			// The shell's "$(…)" would strip trailing newlines, and a terminal would interpret the
			// others.
			return nil, withHint(errors.New("-o crictl: the user name or password contains a control character"), "use -o json")
		}
		return []byte(login + "\n"), nil
	}
	host, _, _ := strings.Cut(repository, "/")
	config, err := dockerConfig(host, login)
	if err != nil || format == "docker-config" {
		return config, err
	}
	return yaml.Marshal(corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta,
		Type:       corev1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: config},
	})
}

// dockerConfig returns a docker config.json with one credential.
func dockerConfig(host, login string) ([]byte, error) {
	if host == "docker.io" || host == "index.docker.io" {
		host = "https://index.docker.io/v1/" // docker's own key for Docker Hub
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
