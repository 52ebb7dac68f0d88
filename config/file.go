// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/regcred/regcred/plugin"
)

// File is one file of a [Config]. It is made by [Load], [Parse] and [ParseDir],
// read only, and safe for concurrent use. It prints as its name alone, and
// cannot be written as JSON: values of args and env in its text are secrets.
type File struct {
	Name         string // the path or name given to Load or Parse or, for a directory, of its entry
	Kind         string // CredentialProviderConfig, or the predecessor's, as written
	APIVersion   string // of the file itself, e.g. "kubelet.config.k8s.io/v1"
	First, Count int    // its providers: Config.Providers[First:First+Count]

	data    func() []byte // hides it from what looks into a struct
	source  *source       // where things stand in it
	argKeys [][]string    // of the predecessor's providers: see extraArgs.keys
}

// Data returns all of f: a second YAML document is ignored, but in here. It is
// shared, and must not be changed. Values of args and env in it are secrets.
func (f *File) Data() []byte {
	if f.data == nil {
		return nil
	}
	return f.data()
}

// Predecessor reports whether f is a file of the predecessor, which no kubelet
// reads.
func (f *File) OutOfTree() bool { return typeMeta{Kind: f.Kind}.outOfTree() }

// IsJSON reports whether f is read as JSON alone, and not as YAML.
func (f *File) IsJSON() bool { return isJSON(f.Data()) }

// Document returns the part of f that counts, as UTF-8: the first YAML document,
// or all of a JSON file. Another is ignored, with whatever stands in it; next is
// the line of the mark behind which it begins, or 0 if there is none.
func (f *File) Document() (text []byte, next int) {
	if f.IsJSON() {
		return f.Data(), 0
	}
	text = toUTF8(f.Data())
	end, line, more := documentEnd(text)
	if !more {
		line = 0
	}
	return text[:end], line
}

// Position returns where the value at a [FieldPath] from the top of the document
// stands, such as "kind", or its nearest parent if it is not written.
func (f *File) Position(path ...any) Position { return f.source.place(path) }

// outOfTreePosition returns where something of a provider stands that rest
// leads to in the names of today.
func (f *File) outOfTreePosition(index int, rest FieldPath) Position {
	p := FieldPath{"providers", index}
	switch {
	case len(rest) == 0:
		return f.source.place(p)
	case rest[0] == "matchImages":
		return f.source.place(append(p.with("imageMatchers"), rest[1:]...))
	case rest[0] != "env":
		return f.source.place(append(p, rest...))
	}
	p = p.with("extraArgs")
	keys := f.argKeys[index]
	if len(rest) == 1 || keys == nil {
		return f.source.place(append(p, rest[1:]...))
	}
	k, ok := rest[1].(int)
	if !ok || k >= len(keys) {
		return f.source.place(p)
	}
	p = p.with(variableName(keys[k]))
	if rest[len(rest)-1] == "value" {
		return f.source.place(p)
	}
	return f.source.keyPlace(p)
}

// Format writes the name of f, whatever the verb: its text holds secrets.
func (f File) Format(s fmt.State, _ rune) { io.WriteString(s, f.Name) }

// LogValue returns the same.
func (f File) LogValue() slog.Value { return slog.StringValue(f.Name) }

// MarshalJSON always fails, as that of [plugin.Secret] does.
func (f File) MarshalJSON() ([]byte, error) { return plugin.NewSecret("").MarshalJSON() }

// MarshalText always fails too.
func (f File) MarshalText() ([]byte, error) { return plugin.Secret{}.MarshalText() }
