// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build kubelet133

package kubelet

import (
	_ "unsafe" // for go:linkname

	"k8s.io/apimachinery/pkg/types"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"

	"github.com/regcred/regcred/upstream/corpus"
)

// Kubelet 1.33 supports tokens, but not cacheType.

// This lists the features of the linked kubelet.
var This = Knows{}

//go:linkname readCredentialProviderConfigFile k8s.io/kubernetes/pkg/credentialprovider/plugin.readCredentialProviderConfigFile
func readCredentialProviderConfigFile(configPath string) (*kubeletconfig.CredentialProviderConfig, error)

func readConfig(configPath string) (*kubeletconfig.CredentialProviderConfig, string, error) {
	c, err := readCredentialProviderConfigFile(configPath)
	return c, "", err
}

//go:linkname generateServiceAccountCacheKey k8s.io/kubernetes/pkg/credentialprovider/plugin.generateServiceAccountCacheKey
func generateServiceAccountCacheKey(namespace, name string, uid types.UID, annotations map[string]string) (string, error)

func accountKey(_ string, id corpus.Identity) (string, error) {
	return generateServiceAccountCacheKey(id.Namespace, id.Name, types.UID(id.UID), id.Annotations)
}

func cacheType(*kubeletconfig.ServiceAccountTokenAttributes) string { return "" }

// From returns the service account that a credential belongs to. This kubelet does not
// record it.
func From(Credential) string { return "" }
