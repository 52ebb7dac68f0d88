// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kubelet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"unsafe"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	credentialproviderapi "k8s.io/kubelet/pkg/apis/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider/plugin"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"

	"github.com/regcred/regcred/upstream/corpus"
)

// Silence turns the kubelet's log off. It logs every failing provider.
func Silence() {
	var fs flag.FlagSet
	klog.InitFlags(&fs)
	fs.Set("logtostderr", "false")
	fs.Set("alsologtostderr", "false")
	fs.Set("stderrthreshold", "FATAL")
	klog.SetLogger(klog.Logger{})
}

// ReadConfig is the kubelet's readCredentialProviderConfig: providers and hash.
func ReadConfig(path string) (*kubeletconfig.CredentialProviderConfig, string, error) {
	return readCredentialProviderConfig(path)
}

// Validate is the kubelet's validateCredentialProviderConfig with default feature gates.
func Validate(c *kubeletconfig.CredentialProviderConfig) error {
	return validateCredentialProviderConfig(c, true).ToAggregate()
}

// Tokens are the two functions through which a kubelet reads service accounts
// and requests tokens. Both may be nil.
type Tokens struct {
	Token          func(namespace, name string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)
	ServiceAccount func(namespace, name string) (*corev1.ServiceAccount, error)
}

// Register does what a kubelet does at its start with the two flags: read,
// validate, find the executables, register. What was registered before is
// forgotten.
//
// It must not be called while another goroutine uses the kubelet's packages.
func Register(configPath, binDir string, tokens Tokens) error {
	providers = nil
	seenProviderNames = map[string]sets.Empty{}
	return plugin.RegisterCredentialProviderPlugins(configPath, binDir, tokens.Token, tokens.ServiceAccount)
}

// Keyring is the keyring of the registered plugins for a pod; all four
// arguments may be empty.
func Keyring(namespace, pod, podUID, serviceAccount string) credentialprovider.DockerKeyring {
	return plugin.NewExternalCredentialProviderDockerKeyring(namespace, pod, podUID, serviceAccount)
}

// SetPlugin makes the provider at index run p in place of its executable.
func SetPlugin(index int, p plugin.Plugin) error {
	f, err := pluginField(index)
	if err != nil {
		return err
	}
	f.Set(reflect.ValueOf(p))
	return nil
}

// pluginField returns the field of a registered provider that holds its exec.
// Every step goes by name, so a rename in the kubelet is an error here and
// not a wrong write.
func pluginField(index int) (f reflect.Value, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the kubelet's types have changed: %v", r)
		}
	}()
	keyring := reflect.ValueOf(Keyring("", "", "", "")).Elem()
	list := keyring.FieldByName("providers")
	if index >= list.Len() {
		return f, fmt.Errorf("no provider %d: %d are registered", index, list.Len())
	}
	field := list.Index(index).Elem().Elem().FieldByName("provider").Elem().FieldByName("plugin")
	return reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem(), nil
}

// Exec is the exec of one registered provider.
type Exec struct {
	ptr        unsafe.Pointer // *execPlugin
	plugin     plugin.Plugin
	apiVersion string
}

// ExecOf returns the exec of the provider at index.
func ExecOf(index int) (*Exec, error) {
	f, err := pluginField(index)
	if err != nil {
		return nil, err
	}
	impl := f.Elem()
	version := impl.Elem().FieldByName("apiVersion")
	if !version.IsValid() {
		return nil, errors.New("the provider does not run an executable: SetPlugin was called")
	}
	return &Exec{impl.UnsafePointer(), f.Interface().(plugin.Plugin), version.String()}, nil
}

// EncodeRequest returns the bytes that the kubelet writes to the plugin.
func (e *Exec) EncodeRequest(image, token string, annotations map[string]string) ([]byte, error) {
	return encodeRequest(e.ptr, &credentialproviderapi.CredentialProviderRequest{
		Image: image, ServiceAccountToken: token, ServiceAccountAnnotations: annotations,
	})
}

// DecodeResponse is what ExecPlugin does with a plugin's output.
func (e *Exec) DecodeResponse(data []byte) (*Response, error) {
	gvk, err := json.DefaultMetaFactory.Interpret(data)
	if err != nil {
		return nil, err
	}
	if got := gvk.GroupVersion().String(); got != e.apiVersion {
		return nil, fmt.Errorf("apiVersion is %q, not %q", got, e.apiVersion)
	}
	return plain(decodeResponse(e.ptr, data))
}

// Run runs the executable.
func (e *Exec) Run(image, token string, annotations map[string]string) (*Response, error) {
	return plain(e.plugin.ExecPlugin(context.Background(), image, token, annotations))
}

// CacheKey is the key under which the kubelet keeps an answer for id, if the
// answer's cacheKeyType is Image.
func CacheKey(cacheType string, id corpus.Identity) (string, error) {
	var account string
	if id.Name != "" {
		var err error
		account, err = generateServiceAccountCacheKey(cacheKeyParams{
			namespace:          id.Namespace,
			serviceAccountName: id.Name,
			serviceAccountUID:  types.UID(id.UID),
			saAnnotations:      id.Annotations,
			saTokenHash:        getHashIfNotEmpty(id.Token),
			cacheType:          kubeletconfig.ServiceAccountTokenCacheType(cacheType),
		})
		if err != nil {
			return "", err
		}
	}
	return generateCacheKey(id.Image, account)
}
