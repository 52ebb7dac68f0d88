// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kubelet

import (
	"unsafe" // also for go:linkname

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	credentialproviderapi "k8s.io/kubelet/pkg/apis/credentialprovider"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
)

//go:linkname readCredentialProviderConfig k8s.io/kubernetes/pkg/credentialprovider/plugin.readCredentialProviderConfig
func readCredentialProviderConfig(configPath string) (*kubeletconfig.CredentialProviderConfig, string, error)

//go:linkname validateCredentialProviderConfig k8s.io/kubernetes/pkg/credentialprovider/plugin.validateCredentialProviderConfig
func validateCredentialProviderConfig(config *kubeletconfig.CredentialProviderConfig, saTokenForCredentialProviders bool) field.ErrorList

// cacheKeyParams has the fields of the kubelet's type of that name, in its order.
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

//go:linkname generateCacheKey k8s.io/kubernetes/pkg/credentialprovider/plugin.generateCacheKey
func generateCacheKey(baseKey, serviceAccountCacheKey string) (string, error)

//go:linkname getHashIfNotEmpty k8s.io/kubernetes/pkg/credentialprovider/plugin.getHashIfNotEmpty
func getHashIfNotEmpty(data string) string

// The receiver is a *execPlugin.
//
//go:linkname encodeRequest k8s.io/kubernetes/pkg/credentialprovider/plugin.(*execPlugin).encodeRequest
func encodeRequest(execPlugin unsafe.Pointer, request *credentialproviderapi.CredentialProviderRequest) ([]byte, error)

// The receiver is a *execPlugin.
//
//go:linkname decodeResponse k8s.io/kubernetes/pkg/credentialprovider/plugin.(*execPlugin).decodeResponse
func decodeResponse(execPlugin unsafe.Pointer, data []byte) (*credentialproviderapi.CredentialProviderResponse, error)

// registered has the fields of the kubelet's type provider, in its order.
type registered struct {
	_ string         // name
	_ unsafe.Pointer // impl, a *pluginProvider
}

//go:linkname providers k8s.io/kubernetes/pkg/credentialprovider/plugin.providers
var providers []registered

//go:linkname seenProviderNames k8s.io/kubernetes/pkg/credentialprovider/plugin.seenProviderNames
var seenProviderNames map[string]sets.Empty // a sets.String
