// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"fmt"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/doctor"
)

// pullSecretFile is what may be in a file given as --pull-secret.
type pullSecretFile struct {
	// of a Secret manifest
	Kind     string `json:"kind"`
	Metadata struct {
		Namespace, Name, UID string
	} `json:"metadata"`
	Type       string            `json:"type"`
	Data       map[string][]byte `json:"data"`
	StringData map[string]string `json:"stringData"`

	// of a config.json
	Auths map[string]any `json:"auths"`
}

// readPullSecret reads a Secret manifest (YAML or JSON) or a docker
// config.json. Its errors never hold a value of the file.
func readPullSecret(name string) (*regcred.PullSecret, error) {
	data, err := readBounded(name, maxPullSecretFile)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(data, []byte("\n---")) {
		return nil, fmt.Errorf("%s holds several documents; give one Secret in a file", name)
	}
	var f pullSecretFile
	if yaml.Unmarshal(data, &f) != nil { // the error would quote the file
		return nil, fmt.Errorf("%s is neither YAML nor JSON of a Secret or a docker config.json", name)
	}
	if f.Kind == "" && f.Auths != nil {
		return &regcred.PullSecret{
			Name: filepath.Base(name),
			Type: doctor.TypeDockerConfigJSON,
			Data: map[string][]byte{doctor.KeyDockerConfigJSON: data},
		}, nil
	}
	if f.Kind != "Secret" {
		return nil, fmt.Errorf("%s is neither a Secret (kind is %q) nor a docker config.json (it has no auths)", name, f.Kind)
	}
	return f.secret(name)
}

func (f *pullSecretFile) secret(name string) (*regcred.PullSecret, error) {
	data := f.Data
	if data == nil {
		data = map[string][]byte{}
	}
	for name, value := range f.StringData { // as the API server merges them
		data[name] = []byte(value)
	}
	s := &regcred.PullSecret{
		Namespace: f.Metadata.Namespace,
		Name:      f.Metadata.Name,
		UID:       f.Metadata.UID,
		Type:      f.Type,
		Data:      data,
	}
	if why := doctor.PassedOver(s); why != "" {
		return nil, fmt.Errorf("%s is a Secret %s", name, why)
	}
	return s, nil
}
