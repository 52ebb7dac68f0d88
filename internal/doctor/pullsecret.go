// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/lint/pullsecret"
)

// The types of a pull secret, and the keys under which its data is.
const (
	dockerConfigJSON    = "kubernetes.io/dockerconfigjson"
	dockerConfigJSONKey = ".dockerconfigjson"
	dockercfg           = "kubernetes.io/dockercfg"
	dockercfgKey        = ".dockercfg"
)

// PassedOver returns why the kubelet silently ignores a secret, or "" if it is a pull
// secret.
func PassedOver(s *regcred.PullSecret) string {
	key, ok := map[string]string{dockerConfigJSON: dockerConfigJSONKey, dockercfg: dockercfgKey}[s.Type]
	switch {
	case !ok:
		return fmt.Sprintf("of %s, which the kubelet does not accept as a pull secret (use %s)", excerpt.SecretType(s.Type), dockerConfigJSON)
	case len(s.Data[key]) == 0:
		names := slices.Sorted(maps.Keys(s.Data))
		for i, name := range names {
			names[i] = strings.Trim(excerpt.SecretKey(name), `"`)
		}
		keys := strings.Join(names, ", ")
		return fmt.Sprintf("of type %s that has no data under %q (its keys: %s)", s.Type, key, cmp.Or(keys, "none"))
	}
	return ""
}

// parseSecret returns why the kubelet cannot decode a pull secret.
func parseSecret(s *regcred.PullSecret) (err error) {
	if s.Type == dockercfg {
		_, err = dockerconfig.Parse(s.Data[dockercfgKey], dockerconfig.DockerCfg)
	} else {
		_, err = dockerconfig.Parse(s.Data[dockerConfigJSONKey], dockerconfig.ConfigJSON)
	}
	return err
}

// SecretFindings returns the linter's findings about a pull secret; nil if the
// kubelet ignores or cannot read it, which [PassedOver] and lookups report.
func SecretFindings(s *regcred.PullSecret, now time.Time) []finding.Finding {
	found := pullsecret.CheckSecret(pullsecret.Secret{Namespace: s.Namespace, Name: s.Name, Type: s.Type, Data: s.Data}, now)
	if found.Refused {
		return nil
	}
	return slices.DeleteFunc(found.Findings, func(f finding.Finding) bool { return f.Rule == "secret-type" })
}
