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

// Silence turns the kubelet's log off. It logs every failing provider.
func Silence() {
	var fs flag.FlagSet
	klog.InitFlags(&fs)
	fs.Set("logtostderr", "false")
	fs.Set("alsologtostderr", "false")
	fs.Set("stderrthreshold", "FATAL")
	klog.SetLogger(klog.Logger{})
}

// ReadConfig is what the kubelet reads a configuration with: providers, and the
// hash, which is "" of kubelets that have none.
func ReadConfig(path string) (*kubeletconfig.CredentialProviderConfig, string, error) {
	return readConfig(path)
}

// Validate is the kubelet's validateCredentialProviderConfig, with the feature
// gate of service-account tokens on.
func Validate(c *kubeletconfig.CredentialProviderConfig) error { return ValidateWith(c, true) }

// ValidateWith is Validate with the gate on or off.
func ValidateWith(c *kubeletconfig.CredentialProviderConfig, tokens bool) error {
	return validate(c, tokens).ToAggregate()
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
	forget()
	return register(configPath, binDir, tokens)
}

// Keyring is the keyring of the registered plugins for a pod; all four
// arguments may be empty.
func Keyring(namespace, pod, podUID, serviceAccount string) credentialprovider.DockerKeyring {
	return newKeyring(namespace, pod, podUID, serviceAccount)
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

// Respond is a plugin that runs in this process: what it is asked, and its answer.
type Respond func(Asked) Answer

// Asked is what a kubelet asks a plugin.
type Asked struct {
	Image       string
	Token       string
	Annotations map[string]string
}

// SetRespond is [SetPlugin] with a function, which kubelets of all versions take.
func SetRespond(index int, f Respond) error { return SetPlugin(index, f.plugin()) }

// pluginField returns the field of a registered provider that holds its exec.
// Every step goes by name, so a rename in the kubelet is an error here and
// not a wrong write.
func pluginField(index int) (f reflect.Value, err error) {
	f = reflect.ValueOf(Keyring("", "", "", ""))
	if f, err = fieldOf(f, providersField); err != nil {
		return f, err
	}
	if index >= f.Len() {
		return f, fmt.Errorf("no provider %d: %d are registered", index, f.Len())
	}
	f = f.Index(index)
	for _, name := range pluginPath {
		if f, err = fieldOf(f, name); err != nil {
			return f, err
		}
	}
	return reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem(), nil
}

// fieldOf is a field of the struct that v is or leads to.
func fieldOf(v reflect.Value, name string) (reflect.Value, error) {
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
	if impl.Kind() != reflect.Pointer {
		return nil, errors.New("the provider does not run an executable: SetPlugin was called")
	}
	version, err := fieldOf(impl, "apiVersion")
	if err != nil {
		return nil, err
	}
	return &Exec{impl.UnsafePointer(), f.Interface().(plugin.Plugin), version.String()}, nil
}

// EncodeRequest returns the bytes that the kubelet writes to the plugin.
func (e *Exec) EncodeRequest(image, token string, annotations map[string]string) ([]byte, error) {
	return encodeRequest(e.ptr, request(Asked{image, token, annotations}))
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
	return plain(run(e.plugin, Asked{image, token, annotations}))
}

// CacheKey is the key under which the kubelet keeps an answer for id, if the
// answer's cacheKeyType is Image.
func CacheKey(cacheType string, id corpus.Identity) (string, error) {
	if id.Name == "" {
		return cacheKey(id.Image, "")
	}
	account, err := accountKey(cacheType, id)
	if err != nil {
		return "", err
	}
	return cacheKey(id.Image, account)
}

// Knows are parts of credential providers that came late: the field cacheType of
// tokenAttributes, and that credentials can say which service account they are of.
type Knows struct{ CacheType, Source bool }
