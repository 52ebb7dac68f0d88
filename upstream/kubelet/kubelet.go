// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kubelet

import (
	"errors"
	"flag"
	"fmt"
	"reflect"
	"unsafe"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider/plugin"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"

	"github.com/regcred/regcred/upstream/corpus"
)

// DisableLog turns off the kubelet's log, which reports every failing provider.
func DisableLog() {
	var fs flag.FlagSet
	klog.InitFlags(&fs)
	fs.Set("logtostderr", "false")
	fs.Set("alsologtostderr", "false")
	fs.Set("stderrthreshold", "FATAL")
	klog.SetLogger(klog.Logger{})
}

// ReadConfig reads a configuration with the kubelet's own function. It returns the
// configuration and its hash, which is "" for kubelets that do not compute one.
func ReadConfig(path string) (*kubeletconfig.CredentialProviderConfig, string, error) {
	return readConfig(path)
}

// Validate calls the kubelet's validateCredentialProviderConfig with the feature gate for
// service account tokens enabled.
func Validate(c *kubeletconfig.CredentialProviderConfig) error { return ValidateWithTokens(c, true) }

// ValidateWithTokens is [Validate] with the gate on or off.
func ValidateWithTokens(c *kubeletconfig.CredentialProviderConfig, tokens bool) error {
	return validate(c, tokens).ToAggregate()
}

// TokenFuncs holds the functions with which a kubelet requests tokens and reads service
// accounts. Both may be nil.
type TokenFuncs struct {
	Token          func(namespace, name string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)
	ServiceAccount func(namespace, name string) (*corev1.ServiceAccount, error)
}

// RegisterPlugins loads a configuration as a kubelet does at startup. It reads and validates the
// configuration, finds the executables, and registers the providers. It discards earlier
// registrations.
//
// It must not be called while another goroutine uses the kubelet's packages.
func RegisterPlugins(configPath, binDir string, tokens TokenFuncs) error {
	unregisterPlugins()
	return registerCredentialProviders(configPath, binDir, tokens)
}

// NewKeyring returns the kubelet's keyring of the registered providers for a pod. All arguments may
// be empty.
func NewKeyring(namespace, pod, podUID, serviceAccount string) credentialprovider.DockerKeyring {
	return newKeyring(namespace, pod, podUID, serviceAccount)
}

// SetPlugin makes the provider at index call p instead of its executable.
func SetPlugin(index int, p plugin.Plugin) error {
	f, err := pluginField(index)
	if err != nil {
		return err
	}
	f.Set(reflect.ValueOf(p))
	return nil
}

// PluginFunc is an in-process plugin.
type PluginFunc func(PluginRequest) PluginResponse

// PluginRequest is the kubelet's request to a plugin.
type PluginRequest struct {
	Image       string
	Token       string
	Annotations map[string]string
}

// SetPluginFunc is [SetPlugin] for a function. It works with all kubelet versions.
func SetPluginFunc(index int, f PluginFunc) error { return SetPlugin(index, f.newPlugin()) }

// pluginField returns the field of a registered provider that holds its exec plugin. It finds
// fields by name, so that a rename in the kubelet causes an error and not a write to the wrong
// field.
func pluginField(index int) (f reflect.Value, err error) {
	f = reflect.ValueOf(NewKeyring("", "", "", ""))
	if f, err = fieldByName(f, providersField); err != nil {
		return f, err
	}
	if index >= f.Len() {
		return f, fmt.Errorf("no provider %d: %d are registered", index, f.Len())
	}
	f = f.Index(index)
	for _, name := range pluginFieldPath {
		if f, err = fieldByName(f, name); err != nil {
			return f, err
		}
	}
	return reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem(), nil
}

// fieldByName returns a field of the struct that v holds or points to.
func fieldByName(v reflect.Value, name string) (reflect.Value, error) {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct || !v.FieldByName(name).IsValid() {
		return v, fmt.Errorf("the kubelet's types have changed: %s has no field %s", typeName(v), name)
	}
	return v.FieldByName(name), nil
}

func typeName(v reflect.Value) string {
	if !v.IsValid() {
		return "a nil pointer"
	}
	return v.Type().String()
}

// ExecPlugin is the exec plugin of a registered provider.
type ExecPlugin struct {
	ptr        unsafe.Pointer // *execPlugin
	plugin     plugin.Plugin
	apiVersion string
}

// ExecPluginAt returns the exec plugin of the provider at index.
func ExecPluginAt(index int) (*ExecPlugin, error) {
	f, err := pluginField(index)
	if err != nil {
		return nil, err
	}
	impl := f.Elem()
	if impl.Kind() != reflect.Pointer {
		return nil, errors.New("the provider does not run an executable: SetPlugin was called")
	}
	version, err := fieldByName(impl, "apiVersion")
	if err != nil {
		return nil, err
	}
	return &ExecPlugin{impl.UnsafePointer(), f.Interface().(plugin.Plugin), version.String()}, nil
}

// EncodeRequest returns the bytes that the kubelet writes to the plugin.
func (e *ExecPlugin) EncodeRequest(image, token string, annotations map[string]string) ([]byte, error) {
	return encodeRequest(e.ptr, newPluginRequest(PluginRequest{image, token, annotations}))
}

// DecodeResponse decodes a plugin's output as the kubelet's ExecPlugin does.
func (e *ExecPlugin) DecodeResponse(data []byte) (*Response, error) {
	gvk, err := json.DefaultMetaFactory.Interpret(data)
	if err != nil {
		return nil, err
	}
	if got := gvk.GroupVersion().String(); got != e.apiVersion {
		return nil, fmt.Errorf("apiVersion is %q, not %q", got, e.apiVersion)
	}
	return newResponse(decodeResponse(e.ptr, data))
}

// Run runs the executable.
func (e *ExecPlugin) Run(image, token string, annotations map[string]string) (*Response, error) {
	return newResponse(runPlugin(e.plugin, PluginRequest{image, token, annotations}))
}

// CacheKey returns the kubelet's cache key of a response to a request with this identity. The
// response's cacheKeyType is Image.
func CacheKey(cacheType string, id corpus.Identity) (string, error) {
	if id.Name == "" {
		return cacheKey(id.Image, "")
	}
	account, err := accountCacheKey(cacheType, id)
	if err != nil {
		return "", err
	}
	return cacheKey(id.Image, account)
}

// Features lists features that older kubelets do not have: the field cacheType in tokenAttributes,
// and the service account in the source of a credential.
type Features struct{ HasCacheType, HasSource bool }
