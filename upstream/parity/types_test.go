// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package parity

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kubelet/config/v1"
	configv1alpha1 "k8s.io/kubelet/config/v1alpha1"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"
	execv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	execv1alpha1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1alpha1"
	execv1beta1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1beta1"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/plugin"
)

// field is a JSON field of a struct.
type field struct {
	Name      string
	Type      string
	OmitEmpty bool
}

// jsonFields returns the JSON fields of a struct, including fields of embedded structs.
func jsonFields(t reflect.Type) (out []field) {
	for f := range t.Fields() {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			out = append(out, jsonFields(f.Type)...)
		case f.IsExported():
			out = append(out, field{name, jsonType(f.Type), opts == "omitempty"})
		}
	}
	return out
}

// commonTypeNames maps corresponding types of regcred and the kubelet to a common name.
var commonTypeNames = map[reflect.Type]string{
	reflect.TypeFor[metav1.Duration]():                        "duration",
	reflect.TypeFor[time.Duration]():                          "duration",
	reflect.TypeFor[plugin.Secret]():                          "string",
	reflect.TypeFor[config.Provider]():                        "Provider",
	reflect.TypeFor[configv1.CredentialProvider]():            "Provider",
	reflect.TypeFor[configv1beta1.CredentialProvider]():       "Provider",
	reflect.TypeFor[configv1alpha1.CredentialProvider]():      "Provider",
	reflect.TypeFor[config.EnvVar]():                          "EnvVar",
	reflect.TypeFor[configv1.ExecEnvVar]():                    "EnvVar",
	reflect.TypeFor[configv1beta1.ExecEnvVar]():               "EnvVar",
	reflect.TypeFor[configv1alpha1.ExecEnvVar]():              "EnvVar",
	reflect.TypeFor[config.TokenAttributes]():                 "TokenAttributes",
	reflect.TypeFor[configv1.ServiceAccountTokenAttributes](): "TokenAttributes",
	reflect.TypeFor[plugin.AuthConfig]():                      "AuthConfig",
	reflect.TypeFor[execv1.AuthConfig]():                      "AuthConfig",
	reflect.TypeFor[execv1beta1.AuthConfig]():                 "AuthConfig",
	reflect.TypeFor[execv1alpha1.AuthConfig]():                "AuthConfig",
}

// jsonType returns the name of a type in JSON.
func jsonType(t reflect.Type) string {
	if name, ok := commonTypeNames[t]; ok {
		return name
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + jsonType(t.Elem())
	case reflect.Slice:
		return "[]" + jsonType(t.Elem())
	case reflect.Map:
		return fmt.Sprintf("map[%s]%s", jsonType(t.Key()), jsonType(t.Elem()))
	case reflect.Struct, reflect.Interface:
		return t.String() // other types keep their Go name
	}
	return t.Kind().String()
}

// TestConfigTypes compares regcred's structs of a configuration with the kubelet's structs of each
// version. The older versions may only lack tokenAttributes.
func TestConfigTypes(t *testing.T) {
	for _, c := range []struct {
		ours, theirs reflect.Type
		without      string
	}{
		{reflect.TypeFor[config.Provider](), reflect.TypeFor[configv1.CredentialProvider](), ""},
		{reflect.TypeFor[config.Provider](), reflect.TypeFor[configv1beta1.CredentialProvider](), "tokenAttributes"},
		{reflect.TypeFor[config.Provider](), reflect.TypeFor[configv1alpha1.CredentialProvider](), "tokenAttributes"},
		{reflect.TypeFor[config.EnvVar](), reflect.TypeFor[configv1.ExecEnvVar](), ""},
		{reflect.TypeFor[config.EnvVar](), reflect.TypeFor[configv1beta1.ExecEnvVar](), ""},
		{reflect.TypeFor[config.EnvVar](), reflect.TypeFor[configv1alpha1.ExecEnvVar](), ""},
		{reflect.TypeFor[config.TokenAttributes](), reflect.TypeFor[configv1.ServiceAccountTokenAttributes](), ""},
	} {
		var want []field
		for _, f := range jsonFields(c.ours) {
			if f.Name != c.without {
				want = append(want, f)
			}
		}
		if diff := cmp.Diff(fieldsByName(want), fieldsByName(jsonFields(c.theirs))); diff != "" || len(want) == 0 {
			t.Errorf("%v and %v differ (-regcred +kubelet):\n%s", c.ours, c.theirs, diff)
		}
	}
}

// TestConfigFileTypes verifies the structs of a whole configuration file, which have a TypeMeta and
// the list of providers.
func TestConfigFileTypes(t *testing.T) {
	want := []field{{"kind", "string", true}, {"apiVersion", "string", true}, {"providers", "[]Provider", false}}
	for _, theirs := range []reflect.Type{
		reflect.TypeFor[configv1.CredentialProviderConfig](), reflect.TypeFor[configv1beta1.CredentialProviderConfig](), reflect.TypeFor[configv1alpha1.CredentialProviderConfig](),
	} {
		if diff := cmp.Diff(want, jsonFields(theirs)); diff != "" {
			t.Errorf("%v (-want +kubelet):\n%s", theirs, diff)
		}
	}
	if f, ok := reflect.TypeFor[config.Config]().FieldByName("Providers"); !ok || jsonType(f.Type) != "[]Provider" {
		t.Error("config.Config has no list of providers")
	}
}

func fieldsByName(list []field) map[string]field {
	out := map[string]field{}
	for _, f := range list {
		out[f.Name] = f
	}
	return out
}

// TestExecTypes compares package protocol's table of fields with the kubelet's structs of each
// version of the exec protocol: names, order, types, omitempty.
func TestExecTypes(t *testing.T) {
	for version, kinds := range map[string]map[string]reflect.Type{
		plugin.V1: {
			protocol.KindRequest: reflect.TypeFor[execv1.CredentialProviderRequest](), protocol.KindResponse: reflect.TypeFor[execv1.CredentialProviderResponse](), protocol.KindAuthConfig: reflect.TypeFor[execv1.AuthConfig](),
		},
		plugin.V1Beta1: {
			protocol.KindRequest: reflect.TypeFor[execv1beta1.CredentialProviderRequest](), protocol.KindResponse: reflect.TypeFor[execv1beta1.CredentialProviderResponse](), protocol.KindAuthConfig: reflect.TypeFor[execv1beta1.AuthConfig](),
		},
		plugin.V1Alpha1: {
			protocol.KindRequest: reflect.TypeFor[execv1alpha1.CredentialProviderRequest](), protocol.KindResponse: reflect.TypeFor[execv1alpha1.CredentialProviderResponse](), protocol.KindAuthConfig: reflect.TypeFor[execv1alpha1.AuthConfig](),
		},
	} {
		for kind, theirs := range kinds {
			var got []field
			for _, f := range protocol.Fields(kind, version) {
				got = append(got, field{f.Name, f.Type, f.OmitEmpty})
			}
			var want []field
			for _, f := range jsonFields(theirs) {
				f.Type = strings.TrimPrefix(f.Type, "*") // a pointer in Go allows null
				want = append(want, f)
			}
			if diff := cmp.Diff(want, got); diff != "" || len(got) == 0 {
				t.Errorf("%s %s (-kubelet +regcred):\n%s", version, kind, diff)
			}
		}
	}
}

// TestGoFields verifies that regcred's structs have the fields in package protocol's table.
func TestGoFields(t *testing.T) {
	for kind, ours := range map[string]reflect.Type{
		protocol.KindRequest: reflect.TypeFor[plugin.Request](), protocol.KindResponse: reflect.TypeFor[plugin.Response](), protocol.KindAuthConfig: reflect.TypeFor[plugin.AuthConfig](),
	} {
		n := 0
		for _, f := range protocol.Fields(kind, plugin.V1) {
			if f.GoField == "" {
				continue
			}
			n++
			goField, ok := ours.FieldByName(f.GoField)
			if !ok || strings.TrimPrefix(jsonType(goField.Type), "*") != f.Type {
				t.Errorf("%v.%s is not a %s", ours, f.GoField, f.Type)
			}
		}
		if n != ours.NumField() {
			t.Errorf("%v has %d fields, the table %d", ours, ours.NumField(), n)
		}
	}
}
