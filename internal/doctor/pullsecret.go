// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/dockerconfig"
)

// PassedOver says of a secret that the kubelet passes over without a word what
// it is; "" if it is a pull secret.
func PassedOver(s *regcred.PullSecret) string {
	key, ok := map[corev1.SecretType]string{
		corev1.SecretTypeDockerConfigJson: corev1.DockerConfigJsonKey,
		corev1.SecretTypeDockercfg:        corev1.DockerConfigKey,
	}[corev1.SecretType(s.Type)]
	switch {
	case !ok:
		return fmt.Sprintf("of type %q, which no kubelet takes as a pull secret; want %s", s.Type, corev1.SecretTypeDockerConfigJson)
	case len(s.Data[key]) == 0:
		keys := strings.Join(slices.Sorted(maps.Keys(s.Data)), ", ")
		return fmt.Sprintf("of type %s without data under %q; its keys: %s", s.Type, key, cmp.Or(keys, "none"))
	}
	return ""
}

// parseSecret says what is wrong with a pull secret that is not passed over.
func parseSecret(s *regcred.PullSecret) (err error) {
	if s.Type == string(corev1.SecretTypeDockercfg) {
		_, err = dockerconfig.ParseLegacy(s.Data[corev1.DockerConfigKey])
	} else {
		_, err = dockerconfig.Parse(s.Data[corev1.DockerConfigJsonKey])
	}
	return err
}
