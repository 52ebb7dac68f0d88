// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !kubelet133

package kubelet

import (
	_ "unsafe" // for go:linkname

	"k8s.io/apimachinery/pkg/types"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"

	"github.com/regcred/regcred/upstream/corpus"
)

// Kubelet 1.34 and later support configuration directories, hashes and cacheType.

// LinkedFeatures lists the features of the linked kubelet.
var LinkedFeatures = Features{HasCacheType: true, HasSource: true}

//go:linkname readConfig k8s.io/kubernetes/pkg/credentialprovider/plugin.readCredentialProviderConfig
func readConfig(configPath string) (*kubeletconfig.CredentialProviderConfig, string, error)

// cacheKeyParams must have the same fields, in the same order, as the kubelet's type.
type cacheKeyParams struct {
	namespace          string
	serviceAccountName string
	serviceAccountUID  types.UID
	saAnnotations      map[string]string
	_                  string    // podName
	_                  types.UID // podUID
	saTokenHash        string
	cacheType          kubeletconfig.ServiceAccountTokenCacheType
}

//go:linkname generateServiceAccountCacheKey k8s.io/kubernetes/pkg/credentialprovider/plugin.generateServiceAccountCacheKey
func generateServiceAccountCacheKey(params cacheKeyParams) (string, error)

//go:linkname getHashIfNotEmpty k8s.io/kubernetes/pkg/credentialprovider/plugin.getHashIfNotEmpty
func getHashIfNotEmpty(data string) string

func accountCacheKey(cacheType string, id corpus.Identity) (string, error) {
	return generateServiceAccountCacheKey(cacheKeyParams{
		namespace:          id.Namespace,
		serviceAccountName: id.Name,
		serviceAccountUID:  types.UID(id.UID),
		saAnnotations:      id.Annotations,
		saTokenHash:        getHashIfNotEmpty(id.Token),
		cacheType:          kubeletconfig.ServiceAccountTokenCacheType(cacheType),
	})
}

func tokenCacheType(t *kubeletconfig.ServiceAccountTokenAttributes) string {
	return string(t.CacheType)
}

// CredentialAccount returns the service account that a credential belongs to, as namespace/name/uid, or
// "" if it is unknown.
func CredentialAccount(c Credential) string {
	if c.Source == nil || c.Source.ServiceAccount == nil {
		return ""
	}
	a := c.Source.ServiceAccount
	return a.Namespace + "/" + a.Name + "/" + a.UID
}
