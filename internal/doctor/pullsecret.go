// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/dockerconfig"
)

// The types of a pull secret, and the keys under which its data is.
const (
	TypeDockerConfigJSON = "kubernetes.io/dockerconfigjson"
	KeyDockerConfigJSON  = ".dockerconfigjson"
	TypeDockercfg        = "kubernetes.io/dockercfg"
	KeyDockercfg         = ".dockercfg"
)

// PassedOver says of a secret that the kubelet passes over without a word what
// it is; "" if it is a pull secret.
func PassedOver(s *regcred.PullSecret) string {
	key, ok := map[string]string{TypeDockerConfigJSON: KeyDockerConfigJSON, TypeDockercfg: KeyDockercfg}[s.Type]
	switch {
	case !ok:
		return fmt.Sprintf("of type %q, which no kubelet takes as a pull secret; want %s", s.Type, TypeDockerConfigJSON)
	case len(s.Data[key]) == 0:
		return fmt.Sprintf("of type %s without data under %q; its keys: %s", s.Type, key, orNone(s.Data))
	}
	return ""
}

// orNone lists the keys of a secret's data.
func orNone(data map[string][]byte) string {
	if len(data) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(data)), ", ")
}

// parseSecret says what is wrong with a pull secret that is not passed over.
func parseSecret(s *regcred.PullSecret) (err error) {
	if s.Type == TypeDockercfg {
		_, err = dockerconfig.ParseLegacy(s.Data[KeyDockercfg])
	} else {
		_, err = dockerconfig.Parse(s.Data[KeyDockerConfigJSON])
	}
	return err
}
