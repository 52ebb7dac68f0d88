// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"encoding/json"
	"errors"
	"reflect"
	"time"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/internal/textedit"
)

// fileFormat decodes configuration files of one kind and version.
type fileFormat interface {
	decode(doc []byte) (decodedFile, error)
}

// wireConfig is a configuration file. P is the type of a provider in the file's version.
type wireConfig[P wireProvider] struct {
	typeMeta
	Providers []P `json:"providers"`
}

type wireProvider interface {
	// toProvider converts p to a Provider. It also returns the argument names: see
	// extraArgs.keys.
	toProvider() (p Provider, argKeys []string, err error)
}

// v1Provider is a provider in a v1 file. It differs from Provider only in the duration, which
// is a string.
type v1Provider struct {
	Provider
	DefaultCacheDuration *wireDuration `json:"defaultCacheDuration"`
}

// preV1Provider is a provider in a v1beta1 or v1alpha1 file.
type preV1Provider struct {
	v1Provider
	TokenAttributes absentField `json:"tokenAttributes"`
}

func (p v1Provider) toProvider() (Provider, []string, error) {
	p.Provider.DefaultCacheDuration = (*time.Duration)(p.DefaultCacheDuration)
	return p.Provider, nil, nil
}

// absentField is the type of a field that does not exist in a version. Even null is an error.
type absentField struct{}

// UnmarshalJSON always fails.
func (absentField) UnmarshalJSON([]byte) error {
	return errors.New("this field does not exist in this version")
}

func (absentField) shape() *shape { return nil }

// wireDuration is a duration in Kubernetes' format: a string for [time.ParseDuration].
type wireDuration time.Duration

// UnmarshalText parses a duration such as "12h".
func (d *wireDuration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = wireDuration(v)
	return err
}

func (wireDuration) shape() *shape {
	return &shape{noun: `a duration in quotes, such as "12h", "10m" or "0s"`, checkText: func(s string) string {
		if _, err := time.ParseDuration(s); err != nil {
			return `invalid duration: use a number with a unit, such as "12h", "10m" or "0s"`
		}
		return ""
	}}
}

type decodedFile struct {
	typeMeta
	providers []Provider
	argKeys   [][]string // by provider; see extraArgs.keys
}

// decodeFile decodes a file as the kubelet's strict decoder does. It returns errors from
// [sourceFile.diagnose], because the errors of the kubelet's libraries may quote secrets.
func decodeFile(src *sourceFile, more partsValidator) (decodedFile, error) {
	doc, duplicates, err := src.toJSON()
	if err != nil {
		return decodedFile{}, err
	}
	var meta typeMeta
	// kubelet: it reads kind and apiVersion case-insensitively, but its strict decoder then
	// rejects the wrong case.
	cause := json.Unmarshal(doc, &meta)
	format := meta.fileFormat()
	if cause == nil && meta.firstError() == nil {
		d, err := format.decode(doc)
		if err == nil && duplicates == nil {
			d.typeMeta = meta
			return d, nil
		}
	}
	return decodedFile{}, src.diagnoseDocument(doc, meta, newShape(reflect.TypeOf(format)), cause, more)
}

// fileFormat returns the format for a kind and version. If they are unknown, it returns the v1
// format.
func (m typeMeta) fileFormat() fileFormat {
	switch {
	case m.isOutOfTree():
		return wireConfig[outOfTreeProvider]{}
	case m.APIVersion == V1Beta1 || m.APIVersion == V1Alpha1:
		return wireConfig[preV1Provider]{}
	}
	return wireConfig[v1Provider]{}
}

func (w wireConfig[P]) decode(doc []byte) (d decodedFile, err error) {
	if err := unmarshalStrict(doc, &w); err != nil {
		return d, err
	}
	d.providers, d.argKeys = make([]Provider, 0, len(w.Providers)), make([][]string, 0, len(w.Providers))
	for _, from := range w.Providers {
		p, keys, err := from.toProvider()
		if err != nil {
			return d, err
		}
		d.providers, d.argKeys = append(d.providers, p), append(d.argKeys, keys)
	}
	return d, nil
}

// unmarshalStrict decodes JSON as the kubelet does: unknown and duplicate fields are
// errors, and names are case-sensitive.
func unmarshalStrict(data []byte, v any) error {
	strict, err := kjson.UnmarshalStrict(data, v)
	return errors.Join(err, errors.Join(strict...))
}

// toJSON converts the document to JSON. duplicates is an error if a mapping repeats a key. doc
// is valid even if duplicates is not nil.
func (s *sourceFile) toJSON() (doc []byte, duplicates, err error) {
	if textedit.IsJSON(s.data()) {
		return s.data(), nil, nil
	}
	if err := s.checkExpansion(); err != nil {
		return nil, nil, err
	}
	// If the strict conversion succeeds, the plain conversion would return the same result.
	doc, duplicates = yaml.YAMLToJSONStrict(s.data())
	if duplicates == nil {
		return doc, nil, nil
	}
	doc, err = yaml.YAMLToJSON(s.data())
	if err != nil {
		return nil, nil, s.yamlError(err)
	}
	return doc, duplicates, nil
}
