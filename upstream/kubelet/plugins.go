// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kubelet

import (
	"context"
	"unsafe" // also for go:linkname

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	credentialproviderapi "k8s.io/kubelet/pkg/apis/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider/plugin"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
)

// Credential is the kubelet's type for a credential.
type Credential = credentialprovider.TrackedAuthConfig

//go:linkname validate k8s.io/kubernetes/pkg/credentialprovider/plugin.validateCredentialProviderConfig
func validate(config *kubeletconfig.CredentialProviderConfig, saTokenForCredentialProviders bool) field.ErrorList

//go:linkname cacheKey k8s.io/kubernetes/pkg/credentialprovider/plugin.generateCacheKey
func cacheKey(baseKey, serviceAccountCacheKey string) (string, error)

// registeredProvider must have the same fields, in the same order, as the kubelet's type provider.
type registeredProvider struct {
	_ string         // name
	_ unsafe.Pointer // impl, a *pluginProvider
}

//go:linkname providers k8s.io/kubernetes/pkg/credentialprovider/plugin.providers
var providers []registeredProvider

//go:linkname seenProviderNames k8s.io/kubernetes/pkg/credentialprovider/plugin.seenProviderNames
var seenProviderNames map[string]sets.Empty // a sets.String

func unregisterPlugins() {
	providers = nil
	seenProviderNames = map[string]sets.Empty{}
}

func registerCredentialProviders(configPath, binDir string, tokens TokenFuncs) error {
	return plugin.RegisterCredentialProviderPlugins(configPath, binDir, tokens.Token, tokens.ServiceAccount)
}

func newKeyring(namespace, pod, podUID, serviceAccount string) credentialprovider.DockerKeyring {
	return plugin.NewExternalCredentialProviderDockerKeyring(namespace, pod, podUID, serviceAccount)
}

// providersField and pluginFieldPath are the names of the fields on the path from a keyring to a
// provider's exec plugin.
const providersField = "providers"

var pluginFieldPath = []string{"provider", "plugin"}

// PluginResponse is a plugin's response.
type PluginResponse = *credentialproviderapi.CredentialProviderResponse

// inProcessPlugin implements the kubelet's interface Plugin.
type inProcessPlugin struct{ respond PluginFunc }

func (f PluginFunc) newPlugin() plugin.Plugin { return inProcessPlugin{f} }

// ExecPlugin implements plugin.Plugin.
func (p inProcessPlugin) ExecPlugin(_ context.Context, image, token string, annotations map[string]string) (*credentialproviderapi.CredentialProviderResponse, error) {
	return p.respond(PluginRequest{image, token, annotations}), nil
}

func runPlugin(p plugin.Plugin, a PluginRequest) (*credentialproviderapi.CredentialProviderResponse, error) {
	return p.ExecPlugin(context.Background(), a.Image, a.Token, a.Annotations)
}

func newPluginRequest(a PluginRequest) *credentialproviderapi.CredentialProviderRequest {
	return &credentialproviderapi.CredentialProviderRequest{Image: a.Image, ServiceAccountToken: a.Token, ServiceAccountAnnotations: a.Annotations}
}

func addCredentials(ring *credentialprovider.BasicDockerKeyring, cfg credentialprovider.DockerConfig) {
	ring.Add(nil, cfg)
}

func tokenAttributes(p kubeletconfig.CredentialProvider) *TokenAttributes {
	t := p.TokenAttributes
	if t == nil {
		return nil
	}
	return &TokenAttributes{t.ServiceAccountTokenAudience, tokenCacheType(t), t.RequireServiceAccount,
		t.RequiredServiceAccountAnnotationKeys, t.OptionalServiceAccountAnnotationKeys}
}
