// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/regularfile"
)

// maxPullSecretFile bounds a file with a pull secret, in bytes.
const maxPullSecretFile = 16 << 20

// readPullSecret reads a Secret manifest (YAML or JSON) or a docker
// config.json. Its errors never hold a value of the file.
func readPullSecret(ctx context.Context, name string) (*regcred.PullSecret, error) {
	data, err := regularfile.Read(ctx, name, maxPullSecretFile)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(data, []byte("\n---")) {
		return nil, fmt.Errorf("%s holds several documents; give one Secret in a file", name)
	}
	var f struct {
		corev1.Secret
		Auths map[string]any `json:"auths"` // of a config.json
	}
	if yaml.Unmarshal(data, &f) != nil { // the error would quote the file
		return nil, fmt.Errorf("%s is neither YAML nor JSON of a Secret or a docker config.json", name)
	}
	if f.Kind == "" && f.Auths != nil {
		return &regcred.PullSecret{
			Name: filepath.Base(name),
			Type: string(corev1.SecretTypeDockerConfigJson),
			Data: map[string][]byte{corev1.DockerConfigJsonKey: data},
		}, nil
	}
	if f.Kind != "Secret" {
		return nil, fmt.Errorf("%s is neither a Secret (kind is %q) nor a docker config.json (it has no auths)", name, f.Kind)
	}
	s := &regcred.PullSecret{Namespace: f.Namespace, Name: f.Name, UID: string(f.UID), Type: string(f.Type), Data: map[string][]byte{}}
	maps.Copy(s.Data, f.Data)
	for key, value := range f.StringData { // as the API server merges them
		s.Data[key] = []byte(value)
	}
	if why := doctor.PassedOver(s); why != "" {
		return nil, fmt.Errorf("%s is a Secret %s", name, why)
	}
	return s, nil
}
