// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package dockerjson explains why a docker config file is invalid, and decides
// what of such a file may be shown. Package dockerconfig decides whether a file
// is valid.
package dockerjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/jsonplace"
)

// Kind is the kind of a [Problem].
type Kind string

// The kinds of problems.
const (
	Syntax Kind = "syntax" // the file is not JSON
	Type   Kind = "type"   // a value has the wrong type
	Auth   Kind = "auth"   // an auth is not the base64 of user:password
)

// Problem is an error that makes the whole file invalid. Its text contains
// nothing of the file except keys that look like registries.
type Problem struct {
	Kind         Kind
	Line, Column int    // from 1, Column in bytes; 0 if unknown
	Path         string // e.g. auths["registry.example"].auth; "" for the file
	Msg          string
	Fix          string // what to do, or ""
}

func (p *Problem) Error() string {
	text := p.Msg
	if p.Line > 0 {
		text = fmt.Sprintf("line %d, column %d: ", p.Line, p.Column)
		if p.Path != "" {
			text += p.Path + ": "
		}
		text += p.Msg
	}
	if p.Fix != "" {
		text += ": " + p.Fix
	}
	return text
}

// maxProblems bounds the number of problems that are reported.
const maxProblems = 100

// Layout is which fields of a file are read, and by whose rules.
type Layout int

// The layouts.
const (
	Kubelet       Layout = iota // config.json: auths and HttpHeaders
	KubeletLegacy               // .dockercfg: only entries of auths
	Docker                      // config.json: auths, credHelpers and credsStore
	DockerLegacy                // .dockercfg: only members that look like entries of auths
	Flat                        // a struct without custom decoders
)

// Problems returns the problems, in the order of the file and at most a
// hundred, for which a decoder returned err. If it finds none, it returns err as
// the only problem.
func Problems(data []byte, err error, l Layout) []*Problem {
	if err == nil {
		return nil
	}
	root, syntax := jsonplace.Parse(data)
	if syntax != nil {
		return []*Problem{syntaxProblem(data, syntax)}
	}
	w := walker{data: data, docker: l == Docker || l == DockerLegacy}
	switch l {
	case KubeletLegacy, DockerLegacy:
		w.entries(root, "")
	case Kubelet, Docker:
		w.file(root)
	}
	if l == DockerLegacy {
		w.found = slices.DeleteFunc(w.found, func(p *Problem) bool { return p.Kind != Auth })
	}
	if len(w.found) == 0 {
		w.found = []*Problem{w.fallback(root, err)}
	}
	return w.found
}

// First returns the first problem. Errors of encoding/json quote the file.
func First(data []byte, err error, l Layout) error { return Problems(data, err, l)[0] }

type walker struct {
	data   []byte
	docker bool
	found  []*Problem
}

func (w *walker) add(kind Kind, at int, path, msg, fix string) {
	if len(w.found) < maxProblems {
		line, column := jsonplace.LineColumn(w.data, at)
		w.found = append(w.found, &Problem{kind, line, column, path, msg, fix})
	}
}

// want reports whether v has a kind. null is accepted, but not reported.
func (w *walker) want(kind jsonplace.Kind, v *jsonplace.Value, path string) bool {
	if v.Kind != kind && v.Kind != jsonplace.Null {
		w.add(Type, v.Start, path, wrongType(v.Kind, kind), "")
	}
	return v.Kind == kind
}

func wrongType(got, want jsonplace.Kind) string {
	return fmt.Sprintf("%s %s where %s %s is expected", article(got), got, article(want), want)
}

func kindOf(t reflect.Type) jsonplace.Kind {
	if t.Kind() == reflect.String {
		return jsonplace.String
	}
	return jsonplace.Object
}

func article(k jsonplace.Kind) string {
	if strings.ContainsRune("aeiou", rune(k[0])) {
		return "an"
	}
	return "a"
}

func (w *walker) file(root *jsonplace.Value) {
	if !w.want(jsonplace.Object, root, "") {
		return
	}
	for _, m := range root.Members {
		switch {
		case strings.EqualFold(m.Key, "auths"):
			w.entries(m.Value, "auths")
		case !w.docker && strings.EqualFold(m.Key, "HttpHeaders"):
			w.texts(m.Value, "HttpHeaders", false)
		case w.docker && strings.EqualFold(m.Key, "credHelpers"):
			w.texts(m.Value, "credHelpers", true)
		case w.docker && strings.EqualFold(m.Key, "credsStore"):
			w.want(jsonplace.String, m.Value, "credsStore")
		}
	}
}

func (w *walker) texts(v *jsonplace.Value, path string, show bool) {
	if !w.want(jsonplace.Object, v, path) {
		return
	}
	for _, m := range v.Members {
		at := path
		if show {
			at += "[" + ShowKey(m.Key) + "]"
		}
		w.want(jsonplace.String, m.Value, at)
	}
}

func (w *walker) entries(v *jsonplace.Value, path string) {
	if !w.want(jsonplace.Object, v, path) {
		return
	}
	last := map[string]int{}
	for i, m := range v.Members {
		last[m.Key] = i
	}
	for i, m := range v.Members {
		// kubelet: duplicates that a later entry replaces are decoded too.
		if !w.docker || last[m.Key] == i {
			w.entry(m.Value, path+"["+ShowKey(m.Key)+"]")
		}
	}
}

func (w *walker) entry(v *jsonplace.Value, path string) {
	if !w.want(jsonplace.Object, v, path) {
		return
	}
	var auth *jsonplace.Value
	for _, m := range v.Members {
		name := w.field(m.Key)
		if name == "" || !w.want(jsonplace.String, m.Value, path+"."+name) {
			continue
		}
		if name == "auth" {
			auth = m.Value // the last one wins
		}
	}
	if auth == nil || auth.Text == "" {
		return
	}
	if _, _, err := DecodeAuth(auth.Text); err != nil {
		msg, fix := authProblem(auth.Text)
		w.add(Auth, auth.Start, path+".auth", msg, fix)
	}
}

// field returns the name of the field for a key, or "".
func (w *walker) field(key string) string {
	fields := []string{"auth", "username", "password", "email"}
	if w.docker {
		fields = []string{"auth", "username", "password", "identitytoken", "registrytoken"}
	}
	for _, name := range fields {
		if strings.EqualFold(key, name) {
			return name
		}
	}
	return ""
}

// fallback returns the problem for an error that the walk did not find.
func (w *walker) fallback(root *jsonplace.Value, err error) *Problem {
	if typ, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if v := root.At(int(typ.Offset)); v != nil {
			line, column := jsonplace.LineColumn(w.data, v.Start)
			return &Problem{Type, line, column, "", wrongType(v.Kind, kindOf(typ.Type)), ""}
		}
	}
	return &Problem{Kind: Type, Msg: err.Error()}
}
