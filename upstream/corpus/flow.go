// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package corpus

import (
	"fmt"
	"strings"
)

// ServiceAccountCase is a lookup in service-account mode. It consists of the provider's
// requirements, the pod, and the API server's responses.
type ServiceAccountCase struct {
	Name               string            `json:"name"`
	CacheType          string            `json:"cacheType"`
	Require            bool              `json:"require"`
	Required           []string          `json:"required,omitempty"` // annotation keys
	Optional           []string          `json:"optional,omitempty"`
	Account            string            `json:"account"`         // the pod's service account; "" if the pod has none
	AccountAnnotations map[string]string `json:"have,omitempty"`  // annotations of the service account
	RejectedRequest    string            `json:"fails,omitempty"` // "get" or "token": the request that the API server rejects
	Echo               bool              `json:"echo,omitempty"`  // the plugin returns the token as password
}

// IssuedToken is the token that the API server issues.
const IssuedToken = plantedToken

// ServiceAccountCases returns the cases for serviceaccount.json.
func ServiceAccountCases() []ServiceAccountCase {
	var all []ServiceAccountCase
	k := func(keys ...string) []string { return keys }
	m := map[string]string{"a": "1", "b": "", "example.com/c": "é", "unlisted": "x"}
	for _, cacheType := range []string{"ServiceAccount", "Token"} {
		for _, require := range []bool{true, false} {
			add := func(a ServiceAccountCase) {
				a.CacheType, a.Require = cacheType, require
				all = append(all, a)
			}
			add(ServiceAccountCase{Name: "plain", Account: "sa", AccountAnnotations: m})
			add(ServiceAccountCase{Name: "pod without service account"})
			add(ServiceAccountCase{Name: "optional annotations", Account: "sa", AccountAnnotations: m, Optional: k("a", "b", "missing", "example.com/c")})
			add(ServiceAccountCase{Name: "account not readable", Account: "sa", RejectedRequest: "get"})
			add(ServiceAccountCase{Name: "no token to be had", Account: "sa", RejectedRequest: "token"})
			add(ServiceAccountCase{Name: "echoed token", Account: "sa", Echo: true})
			add(ServiceAccountCase{Name: "echo without service account", Echo: true})
			add(ServiceAccountCase{Name: "optional key in another case", Account: "sa", AccountAnnotations: m, Optional: k("A")})
			if require { // otherwise the kubelet rejects the configuration
				add(ServiceAccountCase{Name: "required annotations", Account: "sa", AccountAnnotations: m, Required: k("b", "a"), Optional: k("example.com/c")})
				add(ServiceAccountCase{Name: "required annotation missing", Account: "sa", AccountAnnotations: m, Required: k("a", "missing")})
				add(ServiceAccountCase{Name: "required annotation without service account", Required: k("a")})
				add(ServiceAccountCase{Name: "required annotation missing, no token either", Account: "sa", Required: k("a"), RejectedRequest: "token"})
			}
		}
	}
	return all
}

// CacheCase is a series of lookups with a provider that always returns the same response.
type CacheCase struct {
	Default  string   `json:"default"` // defaultCacheDuration
	Scope    string   `json:"scope"`
	Duration *string  `json:"duration"` // nil is null in the response
	Keys     []string `json:"keys"`     // keys of auth in the response
	Images   []string `json:"images"`
}

// CacheCases returns the cases for cache.json.
func CacheCases() []CacheCase {
	images := []string{
		"registry.io/a", "registry.io/a", "registry.io/a:v2", "registry.io/a/b", "registry.io/b", "registry.io:5000/a", "registry.io:5000/b",
		"other.io/a", "other.io/b", "nginx", "docker.io/team/app", "registry.io/a",
	}
	s := func(s string) *string { return &s }
	var all []CacheCase
	for _, scope := range []string{"Image", "Registry", "Global"} {
		for _, def := range []string{"1h", "0s"} {
			for _, d := range []*string{nil, s("1h"), s("0s"), s("-1h")} {
				for _, keys := range [][]string{{"*.io", "*.io:5000"}, {"registry.io"}, {}} {
					all = append(all, CacheCase{def, scope, d, keys, images})
				}
			}
		}
	}
	return append(all, CacheCase{"1h", "image", s("1h"), []string{"*.io"}, images}, CacheCase{"1h", "", nil, []string{"*.io"}, images})
}

// ConfigFile returns the configuration file for c.
func (c CacheCase) ConfigFile() string {
	return configHeader + fmt.Sprintf("providers:\n- {name: p, matchImages: ['*.io', '*.io:5000'], defaultCacheDuration: %s, apiVersion: %sv1}\n", c.Default, execGroup)
}

// ConfigFile returns the configuration file for a.
func (a ServiceAccountCase) ConfigFile() string {
	return configHeader + fmt.Sprintf("providers:\n- name: p\n  matchImages: [registry.io]\n  defaultCacheDuration: 0s\n  apiVersion: %sv1\n  tokenAttributes: {serviceAccountTokenAudience: aud, cacheType: %s, requireServiceAccount: %t, requiredServiceAccountAnnotationKeys: [%s], optionalServiceAccountAnnotationKeys: [%s]}\n",
		execGroup, a.CacheType, a.Require, strings.Join(a.Required, ", "), strings.Join(a.Optional, ", "))
}
