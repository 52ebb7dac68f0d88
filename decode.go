// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// The group, kind and versions of configuration files.
const (
	configGroup    = "kubelet.config.k8s.io"
	configKind     = "CredentialProviderConfig"
	configV1       = configGroup + "/v1"
	configV1Beta1  = configGroup + "/v1beta1"
	configV1Alpha1 = configGroup + "/v1alpha1"
)

// typeMeta is what every Kubernetes document begins with.
type typeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// wireConfig is a configuration file; P is how its version writes a provider.
type wireConfig[P wireProvider] struct {
	typeMeta
	Providers []P `json:"providers"`
}

type wireProvider interface{ provider() (Provider, error) }

// v1Provider is a provider in a v1 file: a Provider but for the text form of
// the duration, which shadows the field of the embedded one.
type v1Provider struct {
	Provider
	DefaultCacheDuration *wireDuration `json:"defaultCacheDuration"`
}

// betaProvider is a provider in a v1beta1 or v1alpha1 file, where
// tokenAttributes is an unknown field, even if it is null.
type betaProvider struct {
	v1Provider
	TokenAttributes json.RawMessage `json:"tokenAttributes"`
}

var errTokenAttributes = errors.New("tokenAttributes in a version that does not have it")

func (p v1Provider) provider() (Provider, error) {
	p.Provider.DefaultCacheDuration = (*time.Duration)(p.DefaultCacheDuration)
	return p.Provider, nil
}

func (p betaProvider) provider() (Provider, error) {
	if p.TokenAttributes != nil {
		return Provider{}, errTokenAttributes
	}
	return p.v1Provider.provider()
}

// wireDuration is a duration as Kubernetes writes it: a string that
// [time.ParseDuration] takes.
type wireDuration time.Duration

// UnmarshalJSON decodes a string such as "12h".
func (d *wireDuration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	v, err := time.ParseDuration(s)
	*d = wireDuration(v)
	return err
}

// decodeFile decodes one file as the kubelet's strict decoder does. What the
// kubelet's libraries reject is explained by [source.diagnose]; their own
// errors quote the file, which may hold secrets.
func decodeFile(src *source) (apiVersion string, providers []Provider, err error) {
	doc, duplicates, err := src.toJSON()
	if err != nil {
		return "", nil, err
	}
	var meta typeMeta
	// kubelet: type and version are looked for without regard to case, which
	// strict decoding then refuses.
	if err := json.Unmarshal(doc, &meta); err != nil {
		return "", nil, src.diagnose(doc, meta, err)
	}
	if !meta.supported() {
		return "", nil, src.diagnose(doc, meta, nil)
	}
	providers, err = decodeProviders(doc, meta.APIVersion)
	if err == nil {
		err = duplicates
	}
	if err != nil {
		return "", nil, src.diagnose(doc, meta, err)
	}
	return meta.APIVersion, providers, nil
}

// supported reports whether the kubelet reads documents of this type.
func (m typeMeta) supported() bool {
	return m.Kind == configKind && slices.Contains([]string{configV1, configV1Beta1, configV1Alpha1}, m.APIVersion)
}

// toJSON returns the document as JSON. Keys that occur twice in YAML are
// reported apart, since the document can still be explained.
func (s *source) toJSON() (doc []byte, duplicates, err error) {
	// kubelet: a file that begins with a brace is never tried as YAML.
	if isJSON(s.data) {
		return s.data, nil, nil
	}
	if err := s.checkExpansion(); err != nil {
		return nil, nil, err
	}
	// The strict conversion yields what the plain one does, or fails.
	doc, duplicates = yaml.YAMLToJSONStrict(s.data)
	if duplicates == nil {
		return doc, nil, nil
	}
	doc, err = yaml.YAMLToJSON(s.data)
	if err != nil {
		return nil, nil, s.yamlError(err)
	}
	return doc, duplicates, nil
}

func isJSON(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeftFunc(data, unicode.IsSpace), []byte("{"))
}

func decodeProviders(doc []byte, apiVersion string) ([]Provider, error) {
	if apiVersion == configV1 {
		return decodeWire[v1Provider](doc)
	}
	return decodeWire[betaProvider](doc)
}

func decodeWire[P wireProvider](doc []byte) ([]Provider, error) {
	var wire wireConfig[P]
	strict, err := kjson.UnmarshalStrict(doc, &wire)
	if err = errors.Join(err, errors.Join(strict...)); err != nil {
		return nil, err
	}
	providers := make([]Provider, len(wire.Providers))
	for i, p := range wire.Providers {
		if providers[i], err = p.provider(); err != nil {
			return nil, err
		}
	}
	return providers, nil
}

// problem says what is wrong with the type of a document, or returns nil.
func (m typeMeta) problem() *problem {
	group, version, _ := strings.Cut(m.APIVersion, "/")
	switch {
	case m.Kind == "RegistryCredentialConfig":
		return &problem{path: fieldPath{"kind"}, value: m.Kind,
			msg: "the form of the predecessor (Out-of-Tree Credential Providers), which this version does not support yet: write a " + configKind + " in " + configV1}
	case m.Kind == "KubeletConfiguration":
		return &problem{path: fieldPath{"kind"}, value: m.Kind,
			msg: "the kubelet's main configuration; --image-credential-provider-config takes a file of its own, of kind " + configKind}
	case m.Kind == "":
		return &problem{path: fieldPath{"kind"}, msg: "missing: write kind: " + configKind}
	case m.Kind != configKind:
		return &problem{path: fieldPath{"kind"}, value: m.Kind, msg: "another kind of document: it must be " + configKind}
	case m.APIVersion == "" || group == configGroup && version == "":
		return &problem{path: fieldPath{"apiVersion"}, msg: "missing or without a version: write apiVersion: " + configV1}
	case group == "credentialprovider.kubelet.k8s.io":
		return &problem{path: fieldPath{"apiVersion"}, value: m.APIVersion,
			msg: fmt.Sprintf("the version of a provider, not of the file: write %s here", configV1)}
	case !m.supported():
		return &problem{path: fieldPath{"apiVersion"}, value: m.APIVersion,
			msg: fmt.Sprintf("not supported: it must be %s, %s or %s", configV1, configV1Beta1, configV1Alpha1)}
	}
	return nil
}
