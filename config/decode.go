// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"
	"unicode"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// wireConfig is a configuration file; P is how its version writes a provider.
type wireConfig[P any] struct {
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

// What a decoder finds that the types cannot say; diagnosis says it in full.
var (
	errTokenAttributes = errors.New("tokenAttributes in a version that does not have it")
	errProviderType    = errors.New("a provider of another type")
)

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

// decoded is what a file holds.
type decoded struct {
	typeMeta
	providers []Provider
	argKeys   [][]string // of the predecessor's providers: see extraArgs.keys
}

// decodeFile decodes one file as the kubelet's strict decoder does. What the
// kubelet's libraries reject is explained by [source.diagnose]; their own
// errors quote the file, which may hold secrets.
func decodeFile(src *source) (decoded, error) {
	doc, duplicates, err := src.toJSON()
	if err != nil {
		return decoded{}, err
	}
	var meta typeMeta
	// kubelet: type and version are looked for without regard to case, which
	// strict decoding then refuses.
	if err := json.Unmarshal(doc, &meta); err != nil {
		return decoded{}, src.diagnose(doc, meta, err)
	}
	if !meta.supported() {
		return decoded{}, src.diagnose(doc, meta, nil)
	}
	d, err := decodeProviders(doc, meta)
	if err == nil {
		err = duplicates
	}
	if err != nil {
		return decoded{}, src.diagnose(doc, meta, err)
	}
	d.typeMeta = meta
	return d, nil
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

func decodeProviders(doc []byte, meta typeMeta) (decoded, error) {
	switch {
	case meta.predecessor():
		return decodePredecessor(doc)
	case meta.APIVersion == V1:
		return decodeWire[v1Provider](doc)
	}
	return decodeWire[betaProvider](doc)
}

func decodeWire[P wireProvider](doc []byte) (decoded, error) {
	var wire wireConfig[P]
	err := unmarshalStrict(doc, &wire)
	if err != nil {
		return decoded{}, err
	}
	providers := make([]Provider, len(wire.Providers))
	for i, p := range wire.Providers {
		if providers[i], err = p.provider(); err != nil {
			return decoded{}, err
		}
	}
	return decoded{providers: providers}, nil
}

// unmarshalStrict decodes JSON as the kubelet does: unknown and duplicate
// fields are errors, and case counts.
func unmarshalStrict(data []byte, v any) error {
	strict, err := kjson.UnmarshalStrict(data, v)
	return errors.Join(err, errors.Join(strict...))
}
