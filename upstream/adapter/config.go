// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package adapter

import (
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/upstream/kubelet"
)

// ConvertProviders converts providers to kubelet.Provider.
func ConvertProviders(list []config.Provider) []kubelet.Provider {
	var out []kubelet.Provider
	for _, p := range list {
		q := kubelet.Provider{Name: p.Name, MatchImages: p.MatchImages, CacheDuration: p.DefaultCacheDuration, APIVersion: p.APIVersion}
		for _, a := range p.Args {
			q.Args = append(q.Args, a.Reveal())
		}
		for _, e := range p.Env {
			q.Env = append(q.Env, kubelet.EnvVar{Name: e.Name, Value: e.Value.Reveal()})
		}
		if a := p.TokenAttributes; a != nil {
			q.TokenAttributes = &kubelet.TokenAttributes{
				Audience: a.ServiceAccountTokenAudience, CacheType: string(a.CacheType), Require: a.RequireServiceAccount,
				Required: a.RequiredServiceAccountAnnotationKeys, Optional: a.OptionalServiceAccountAnnotationKeys,
			}
		}
		out = append(out, q)
	}
	return out
}
