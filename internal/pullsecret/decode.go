// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/config"
)

// decoder decodes a YAML or JSON file strictly: unknown and duplicate fields, null, aliases and
// further documents are errors. It reports all problems, with their positions.
type decoder struct {
	file string
	errs []error
}

// value is a YAML node and its path, such as rules[0].registries[1].
type value struct {
	node *yaml.Node
	path string
}

// object is a YAML mapping.
type object struct{ members []member }

type member struct{ key, value *yaml.Node }

// fields are the known fields of an object.
type fields map[string]struct {
	required bool
	decode   func(*value)
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): (.*)`)

// parse returns the file's only document.
func (d *decoder) parse(data []byte) *object {
	var doc, next yaml.Node
	y := yaml.NewDecoder(bytes.NewReader(data))
	err := y.Decode(&doc)
	if errors.Is(err, io.EOF) {
		d.errs = append(d.errs, &config.FieldError{File: d.file, Msg: "the file is empty"})
		return nil
	}
	if err == nil {
		if err = y.Decode(&next); errors.Is(err, io.EOF) {
			return d.object(&value{node: doc.Content[0]})
		}
		if err == nil {
			d.fail(&value{node: next.Content[0]}, "", "only one document is allowed")
			return nil
		}
	}
	problem := &config.FieldError{File: d.file, Msg: strings.TrimPrefix(err.Error(), "yaml: ")}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		problem.Line, _ = strconv.Atoi(m[1])
		problem.Msg = m[2]
	}
	d.errs = append(d.errs, problem)
	return nil
}

func (d *decoder) fail(v *value, text, format string, args ...any) {
	d.errs = append(d.errs, &config.FieldError{
		File: d.file, Line: v.node.Line, Column: v.node.Column, Path: v.path, Value: text, Msg: fmt.Sprintf(format, args...),
	})
}

// object returns v's members, or nil after an error.
func (d *decoder) object(v *value) *object {
	if v.node.Kind != yaml.MappingNode {
		d.fail(v, "", "must be a mapping")
		return nil
	}
	o := &object{}
	seen := map[string]bool{}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := v.node.Content[i]
		switch at := (&value{key, joinPath(v.path, key.Value)}); {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge":
			d.fail(at, "", "keys must be strings; aliases are not supported")
		case seen[key.Value]:
			d.fail(at, "", "duplicate field")
		default:
			o.members = append(o.members, member{key, v.node.Content[i+1]})
		}
		seen[key.Value] = true
	}
	return o
}

func (d *decoder) decodeObject(o *object, path string, known fields) {
	seen := map[string]bool{}
	for _, m := range o.members {
		at := &value{m.value, joinPath(path, m.key.Value)}
		f, ok := known[m.key.Value]
		if !ok {
			d.fail(&value{m.key, at.path}, "", "unknown field; known are %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
			continue
		}
		seen[m.key.Value] = true
		f.decode(at)
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if known[name].required && !seen[name] {
			d.errs = append(d.errs, &config.FieldError{File: d.file, Path: joinPath(path, name), Msg: "required"})
		}
	}
}

func joinPath(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// items returns the elements of a list.
func (d *decoder) items(v *value) (items []*value) {
	if v.node.Kind != yaml.SequenceNode {
		d.fail(v, "", "must be a list")
		return nil
	}
	for i, n := range v.node.Content {
		items = append(items, &value{n, fmt.Sprintf("%s[%d]", v.path, i)})
	}
	return items
}

// decodeList decodes a list without duplicates.
func decodeList[T comparable](d *decoder, v *value, decode func(*value) T) (list []T) {
	for _, item := range d.items(v) {
		x := decode(item)
		if slices.Contains(list, x) {
			d.fail(item, item.node.Value, "listed twice")
		}
		list = append(list, x)
	}
	return list
}

// text returns a string.
func (d *decoder) text(v *value) string {
	if v.node.Kind != yaml.ScalarNode || v.node.Tag != "!!str" {
		d.fail(v, "", "must be a string")
		return ""
	}
	return v.node.Value
}
