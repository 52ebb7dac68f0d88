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
	"slices"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/internal/regularfile"
	lintsecret "github.com/regcred/regcred/lint/pullsecret"
)

// maxPullSecretFileSize limits the size of a file with a pull secret, in bytes.
const maxPullSecretFileSize = 16 << 20

// newPullSecret returns a pull secret that contains a docker config. As in the kubelet, an invalid
// docker config fails the lookup.
func newPullSecret(name string, kind corev1.SecretType, key string, data []byte) []regcred.PullSecret {
	return []regcred.PullSecret{{Name: filepath.Base(name), Type: string(kind), Data: map[string][]byte{key: data}}}
}

// readPullSecrets reads a manifest (YAML or JSON) of a Secret or a list of Secrets, a docker
// config.json or a .dockercfg. Its errors do not contain values from the file.
func readPullSecrets(ctx context.Context, name string) ([]regcred.PullSecret, error) {
	data, err := regularfile.Read(ctx, name, maxPullSecretFileSize)
	if err != nil {
		return nil, err
	}
	c := lintsecret.Check(name, data, time.Now())
	switch {
	case c == nil:
	case c.Kind == lintsecret.DockerConfig:
		return newPullSecret(name, corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, data), nil
	case c.Kind == lintsecret.Dockercfg:
		return newPullSecret(name, corev1.SecretTypeDockercfg, corev1.DockerConfigKey, data), nil
	}
	var f struct {
		corev1.Secret `json:",inline"`
		Items         []corev1.Secret `json:"items"`
	}
	switch err := yaml.Unmarshal(data, &f); { // err is not returned, because it would quote the file
	case err != nil && c != nil && len(c.Findings) > 0:
		return nil, errors.New(c.Findings[0].String())
	case err != nil:
		return nil, fmt.Errorf("%s does not contain a Secret or a docker config.json in YAML or JSON", name)
	}
	isList := f.Kind == "List" || f.Kind == "SecretList"
	if bytes.Contains(data, []byte("\n---")) || c != nil && c.Secrets > 1 && !isList {
		return nil, fmt.Errorf("%s contains more than one document or Secret; use a separate file for each Secret", name)
	}
	if isList {
		return pullSecretsOfList(name, f.Kind, f.Items)
	}
	if f.Kind != "Secret" {
		if strings.ContainsFunc(f.Kind, func(r rune) bool { return !unicode.IsLetter(r) }) {
			f.Kind = "…" // not a valid kind, so it may be a secret
		}
		return nil, fmt.Errorf("%s is neither a Secret (kind is %q) nor a docker config.json (it has no auths)", name, f.Kind)
	}
	s := pullSecretFromManifest(f.Secret)
	if why := doctor.SecretIgnoredReason(&s); why != "" {
		return nil, fmt.Errorf("%s is a Secret %s", name, why)
	}
	return []regcred.PullSecret{s}, nil
}

func pullSecretFromManifest(f corev1.Secret) regcred.PullSecret {
	s := regcred.PullSecret{Namespace: f.Namespace, Name: f.Name, UID: string(f.UID), Type: string(f.Type), Data: map[string][]byte{}}
	maps.Copy(s.Data, f.Data)
	for key, value := range f.StringData { // merged as by the API server
		s.Data[key] = []byte(value)
	}
	return s
}

// pullSecretsOfList returns the pull secrets in a list such as "kubectl get secrets -o yaml" prints.
// It ignores other objects.
func pullSecretsOfList(name, kind string, items []corev1.Secret) (list []regcred.PullSecret, err error) {
	for _, item := range items {
		if item.Kind != "Secret" && !(item.Kind == "" && kind == "SecretList") {
			continue
		}
		if s := pullSecretFromManifest(item); doctor.SecretIgnoredReason(&s) == "" {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s is a list without a pull secret", name)
	}
	return list, nil
}

// secretDisplayName returns NAMESPACE/NAME, or NAME for a secret without a namespace.
func secretDisplayName(s *regcred.PullSecret) string {
	return strings.TrimPrefix(s.Namespace+"/"+s.Name, "/")
}

// isRelevantToImage reports whether a finding about a docker config can concern an image. matched
// contains the auth keys that match the image. If there are any, only findings about these keys are
// relevant. Otherwise, only findings about the whole file and about the syntax of keys are
// relevant.
func isRelevantToImage(f finding.Finding, matched []string) bool {
	_, rest, ok := strings.Cut(f.Path, "[")
	switch {
	case len(matched) == 0:
		return !ok || strings.HasPrefix(f.Rule, "docker-key-")
	case !ok:
		return false
	}
	key, _, _ := strings.Cut(strings.TrimPrefix(rest, "\""), "\"]")
	keys := location.ParseKeys([]string{key})
	return !strings.HasPrefix(rest, "\"") || len(keys) == 1 && slices.Contains(matched, keys[0].String())
}

// printSecretFindings prints the findings about pull secrets.
func (a *app) printSecretFindings(secrets []regcred.PullSecret) {
	for i := range secrets {
		for _, f := range doctor.SecretFindings(&secrets[i], a.Now()) {
			if f.Severity != finding.SeverityInfo {
				a.Note("%s", f.String())
			}
		}
	}
}

// printForeignNamespaces prints pull secrets that are not in the pod's namespace. It ignores
// secrets without a namespace, which come from files.
func (a *app) printForeignNamespaces(secrets []regcred.PullSecret, namespace string) {
	for _, s := range secrets {
		if s.Namespace != "" && s.Namespace != namespace {
			a.Note("pull secret %s is not in the pod's namespace %s, so the kubelet would not find it; it is used here anyway", secretDisplayName(&s), namespace)
		}
	}
}
