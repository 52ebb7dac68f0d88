// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/regcred/regcred/plugin"
)

// File is a file of a [Config]. It is read-only and safe for concurrent use. Its text
// may contain secrets, so it prints only its name and cannot be encoded as JSON.
type File struct {
	Name         string // the path or name passed to Load or Parse; in a directory, the file's path
	Kind         string // CredentialProviderConfig, or a kind of the out-of-tree proposal
	APIVersion   string // as in the file, e.g. "kubelet.config.k8s.io/v1"
	First, Count int    // the file's providers are Config.Providers[First:First+Count]

	data    func() []byte // a closure, so that fmt and reflection do not print it
	source  *sourceFile
	argKeys [][]string // argument names of each out-of-tree provider; see extraArgs.keys
}

// Data returns the whole file, including YAML documents that the kubelet ignores. The result is
// shared and must not be changed. It may contain secrets in the values of args and env.
func (f *File) Data() []byte {
	if f.data == nil {
		return nil
	}
	return f.data()
}

// OutOfTree reports whether f is a RegistryCredentialConfig, which the kubelet does not
// read.
func (f *File) OutOfTree() bool { return typeMeta{Kind: f.Kind}.isOutOfTree() }

// Position returns the position of a field, such as "kind" or "providers[2].name". If the field
// is absent, it returns the position of the nearest parent.
func (f *File) Position(path string) Position { return f.source.valuePosition(parsePath(path)) }

// outOfTreePosition is like [Config.Position], but for a RegistryCredentialConfig. It
// translates the field names of Provider to the names in that kind of file.
func (f *File) outOfTreePosition(index int, rest fieldPath) Position {
	p := fieldPath{"providers", index}
	switch {
	case len(rest) == 0:
		return f.source.valuePosition(p)
	case rest[0] == "matchImages":
		return f.source.valuePosition(append(p.append("imageMatchers"), rest[1:]...))
	case rest[0] != "env":
		return f.source.valuePosition(append(p, rest...))
	}
	p = p.append("extraArgs")
	keys := f.argKeys[index]
	if len(rest) == 1 || keys == nil {
		return f.source.valuePosition(append(p, rest[1:]...))
	}
	k, ok := rest[1].(int)
	if !ok || k >= len(keys) {
		return f.source.valuePosition(p)
	}
	p = p.append(variablePathElement(keys[k]))
	if rest[len(rest)-1] == "value" {
		return f.source.valuePosition(p)
	}
	return f.source.keyPosition(p)
}

// Format writes only the name of f, for every verb, because its text may contain secrets.
func (f File) Format(s fmt.State, _ rune) { io.WriteString(s, f.Name) }

// LogValue returns the file's name.
func (f File) LogValue() slog.Value { return slog.StringValue(f.Name) }

// MarshalText always returns an error, like [plugin.Secret.MarshalText], so that JSON encoders
// cannot write the file.
func (f File) MarshalText() ([]byte, error) { return plugin.Secret{}.MarshalText() }
