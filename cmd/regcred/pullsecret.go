// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/regularfile"
	lintsecret "github.com/regcred/regcred/lint/pullsecret"
)

// maxPullSecretFile limits the size of a file with a pull secret, in bytes.
const maxPullSecretFile = 16 << 20

// fileSecret returns a pull secret with a docker config. kubelet: an invalid docker
// config fails the lookup.
func fileSecret(name string, kind corev1.SecretType, key string, data []byte) *regcred.PullSecret {
	return &regcred.PullSecret{Name: filepath.Base(name), Type: string(kind), Data: map[string][]byte{key: data}}
}

// readPullSecret reads a Secret manifest (YAML or JSON), a docker config.json or a
// .dockercfg. Its errors do not contain values from the file.
func readPullSecret(ctx context.Context, name string) (*regcred.PullSecret, error) {
	data, err := regularfile.Read(ctx, name, maxPullSecretFile)
	if err != nil {
		return nil, err
	}
	c := lintsecret.Check(name, data, time.Now())
	switch {
	case c == nil:
	case c.Kind == lintsecret.DockerConfig:
		return fileSecret(name, corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, data), nil
	case c.Kind == lintsecret.Dockercfg:
		return fileSecret(name, corev1.SecretTypeDockercfg, corev1.DockerConfigKey, data), nil
	}
	if bytes.Contains(data, []byte("\n---")) || c != nil && c.Secrets > 1 {
		return nil, fmt.Errorf("%s contains more than one document or Secret; use a separate file for each Secret", name)
	}
	var f corev1.Secret
	switch err := yaml.Unmarshal(data, &f); { // the parser's error would quote the file
	case err != nil && c != nil && len(c.Findings) > 0:
		return nil, errors.New(c.Findings[0].String())
	case err != nil:
		return nil, fmt.Errorf("%s does not contain a Secret or a docker config.json in YAML or JSON", name)
	}
	if f.Kind != "Secret" {
		if strings.ContainsFunc(f.Kind, func(r rune) bool { return !unicode.IsLetter(r) }) {
			f.Kind = "…" // not the name of a kind, and maybe a secret
		}
		return nil, fmt.Errorf("%s is neither a Secret (kind is %q) nor a docker config.json (it has no auths)", name, f.Kind)
	}
	s := &regcred.PullSecret{Namespace: f.Namespace, Name: f.Name, UID: string(f.UID), Type: string(f.Type), Data: map[string][]byte{}}
	maps.Copy(s.Data, f.Data)
	for key, value := range f.StringData { // merged as by the API server
		s.Data[key] = []byte(value)
	}
	if why := doctor.PassedOver(s); why != "" {
		return nil, fmt.Errorf("%s is a Secret %s", name, why)
	}
	return s, nil
}
