// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build kubelet132

package kubelet

import (
	"context"
	"errors"
	_ "unsafe" // for go:linkname

	"k8s.io/apimachinery/pkg/util/validation/field"
	credentialproviderapi "k8s.io/kubelet/pkg/apis/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider/plugin"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"

	"github.com/regcred/regcred/upstream/corpus"
)

// Up to kubelet 1.32, plugins are registered, by name, among providers of
// other kinds, and none is given a token.

// This says what this kubelet knows.
var This = Knows{}

// Credential is one credential of the kubelet's.
type Credential = credentialprovider.AuthConfig

//go:linkname readCredentialProviderConfigFile k8s.io/kubernetes/pkg/credentialprovider/plugin.readCredentialProviderConfigFile
func readCredentialProviderConfigFile(configPath string) (*kubeletconfig.CredentialProviderConfig, error)

func readConfig(configPath string) (*kubeletconfig.CredentialProviderConfig, string, error) {
	c, err := readCredentialProviderConfigFile(configPath)
	return c, "", err
}

//go:linkname validateCredentialProviderConfig k8s.io/kubernetes/pkg/credentialprovider/plugin.validateCredentialProviderConfig
func validateCredentialProviderConfig(config *kubeletconfig.CredentialProviderConfig) field.ErrorList

// validate also does what happens right behind it: of two providers with one
// name the second ends the process.
func validate(c *kubeletconfig.CredentialProviderConfig, _ bool) field.ErrorList {
	list := validateCredentialProviderConfig(c)
	seen := map[string]bool{}
	for _, p := range c.Providers {
		if seen[p.Name] {
			list = append(list, field.Duplicate(field.NewPath("providers").Child("name"), p.Name))
		}
		seen[p.Name] = true
	}
	return list
}

var errNoTokens = errors.New("this kubelet has no service accounts")

func accountKey(string, corpus.Identity) (string, error) { return "", errNoTokens }

func cacheKey(image, _ string) (string, error) { return image, nil }

//go:linkname providers k8s.io/kubernetes/pkg/credentialprovider.providers
var providers map[string]credentialprovider.DockerConfigProvider

func forget() { providers = map[string]credentialprovider.DockerConfigProvider{} }

func register(configPath, binDir string, _ Tokens) error {
	return plugin.RegisterCredentialProviderPlugins(configPath, binDir)
}

func newKeyring(_, _, _, _ string) credentialprovider.DockerKeyring {
	return credentialprovider.NewDockerKeyring()
}

// The way from a keyring to a provider's exec.
const providersField = "Providers"

var pluginPath = []string{"plugin"}

// Answer is what a plugin answers.
type Answer = *credentialproviderapi.CredentialProviderResponse

// inProcess is the kubelet's interface Plugin.
type inProcess struct{ respond Respond }

func (f Respond) plugin() plugin.Plugin { return inProcess{f} }

// ExecPlugin implements plugin.Plugin.
func (p inProcess) ExecPlugin(_ context.Context, image string) (*credentialproviderapi.CredentialProviderResponse, error) {
	return p.respond(Asked{Image: image}), nil
}

func run(p plugin.Plugin, a Asked) (*credentialproviderapi.CredentialProviderResponse, error) {
	return p.ExecPlugin(context.Background(), a.Image)
}

func request(a Asked) *credentialproviderapi.CredentialProviderRequest {
	return &credentialproviderapi.CredentialProviderRequest{Image: a.Image}
}

func add(ring *credentialprovider.BasicDockerKeyring, cfg credentialprovider.DockerConfig) {
	ring.Add(cfg)
}

func tokenAttributes(kubeletconfig.CredentialProvider) *TokenAttributes { return nil }

// From is the service account whose credential c is: this kubelet knows none.
func From(Credential) string { return "" }
