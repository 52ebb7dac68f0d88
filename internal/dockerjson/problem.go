// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package dockerjson explains why a docker config file is invalid, and decides which
// parts of such a file may be shown. Package dockerconfig decides whether a file is
// valid.
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

// Kinds of problems.
const (
	KindSyntax Kind = "syntax" // the file is not JSON
	KindType   Kind = "type"   // a value has the wrong type
	KindAuth   Kind = "auth"   // an auth is not user:password in base64
)

// Problem is an error that makes the whole file invalid. It contains no text from the file except
// keys that look like registries.
type Problem struct {
	Kind         Kind
	Line, Column int    // starts at 1, Column in bytes; 0 if unknown
	Path         string // e.g. auths["registry.example"].auth; "" for the whole file
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

const maxProblems = 100

// FileLayout selects which fields of a file are read, and the rules for reading them.
type FileLayout int

// The layouts.
const (
	LayoutKubelet       FileLayout = iota // config.json: auths and HttpHeaders
	LayoutKubeletLegacy                   // .dockercfg: only entries of auths
	LayoutDocker                          // config.json: auths, credHelpers and credsStore
	LayoutDockerLegacy                    // .dockercfg: only members that look like entries of auths
	LayoutFlat                            // a struct without custom decoders
)

// FindProblems returns the problems for which a decoder returned err, in file order and
// at most a hundred. If it finds none, it returns err as the only problem.
func FindProblems(data []byte, err error, l FileLayout) []*Problem {
	if err == nil {
		return nil
	}
	root, syntax := jsonplace.Parse(data)
	if syntax != nil {
		return []*Problem{syntaxProblem(data, syntax)}
	}
	w := problemWalker{data: data, docker: l == LayoutDocker || l == LayoutDockerLegacy}
	switch l {
	case LayoutKubeletLegacy, LayoutDockerLegacy:
		w.walkEntries(root, "")
	case LayoutKubelet, LayoutDocker:
		w.walkFile(root)
	}
	if l == LayoutDockerLegacy {
		w.found = slices.DeleteFunc(w.found, func(p *Problem) bool { return p.Kind != KindAuth })
	}
	if len(w.found) == 0 {
		w.found = []*Problem{w.fallbackProblem(root, err)}
	}
	return w.found
}

// FirstProblem returns the first problem. Unlike errors of encoding/json, it does not
// quote the file.
func FirstProblem(data []byte, err error, l FileLayout) error { return FindProblems(data, err, l)[0] }

type problemWalker struct {
	data   []byte
	docker bool
	found  []*Problem
}

func (w *problemWalker) addProblem(kind Kind, at int, path, msg, fix string) {
	if len(w.found) < maxProblems {
		line, column := jsonplace.LineColumn(w.data, at)
		w.found = append(w.found, &Problem{kind, line, column, path, msg, fix})
	}
}

// checkKind reports whether v has the given kind. It adds a problem for any other kind except null.
func (w *problemWalker) checkKind(kind jsonplace.Kind, v *jsonplace.Value, path string) bool {
	if v.Kind != kind && v.Kind != jsonplace.KindNull {
		w.addProblem(KindType, v.Start, path, wrongTypeMessage(v.Kind, kind), "")
	}
	return v.Kind == kind
}

func wrongTypeMessage(got, want jsonplace.Kind) string {
	return fmt.Sprintf("%s %s where %s %s is expected", withArticle(got), got, withArticle(want), want)
}

func jsonKind(t reflect.Type) jsonplace.Kind {
	if t.Kind() == reflect.String {
		return jsonplace.KindString
	}
	return jsonplace.KindObject
}

func withArticle(k jsonplace.Kind) string {
	if strings.ContainsRune("aeiou", rune(k[0])) {
		return "an"
	}
	return "a"
}

func (w *problemWalker) walkFile(root *jsonplace.Value) {
	if !w.checkKind(jsonplace.KindObject, root, "") {
		return
	}
	for _, m := range root.Members {
		switch {
		case strings.EqualFold(m.Key, "auths"):
			w.walkEntries(m.Value, "auths")
		case !w.docker && strings.EqualFold(m.Key, "HttpHeaders"):
			w.walkStringMap(m.Value, "HttpHeaders", false)
		case w.docker && strings.EqualFold(m.Key, "credHelpers"):
			w.walkStringMap(m.Value, "credHelpers", true)
		case w.docker && strings.EqualFold(m.Key, "credsStore"):
			w.checkKind(jsonplace.KindString, m.Value, "credsStore")
		}
	}
}

func (w *problemWalker) walkStringMap(v *jsonplace.Value, path string, show bool) {
	if !w.checkKind(jsonplace.KindObject, v, path) {
		return
	}
	for _, m := range v.Members {
		at := path
		if show {
			at += "[" + DisplayKey(m.Key) + "]"
		}
		w.checkKind(jsonplace.KindString, m.Value, at)
	}
}

func (w *problemWalker) walkEntries(v *jsonplace.Value, path string) {
	if !w.checkKind(jsonplace.KindObject, v, path) {
		return
	}
	last := map[string]int{}
	for i, m := range v.Members {
		last[m.Key] = i
	}
	for i, m := range v.Members {
		// The kubelet also decodes an entry that a later duplicate replaces.
		if !w.docker || last[m.Key] == i {
			w.walkEntry(m.Value, path+"["+DisplayKey(m.Key)+"]")
		}
	}
}

func (w *problemWalker) walkEntry(v *jsonplace.Value, path string) {
	if !w.checkKind(jsonplace.KindObject, v, path) {
		return
	}
	var auth *jsonplace.Value
	for _, m := range v.Members {
		name := w.fieldName(m.Key)
		if name == "" || !w.checkKind(jsonplace.KindString, m.Value, path+"."+name) {
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
		msg, fix := explainAuth(auth.Text)
		w.addProblem(KindAuth, auth.Start, path+".auth", msg, fix)
	}
}

// fieldName returns the name of the field for a key, or "".
func (w *problemWalker) fieldName(key string) string {
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

// fallbackProblem returns a problem for an error whose cause the walk did not find.
func (w *problemWalker) fallbackProblem(root *jsonplace.Value, err error) *Problem {
	if typ, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if v := root.ValueAt(int(typ.Offset)); v != nil {
			line, column := jsonplace.LineColumn(w.data, v.Start)
			return &Problem{KindType, line, column, "", wrongTypeMessage(v.Kind, jsonKind(typ.Type)), ""}
		}
	}
	return &Problem{Kind: KindType, Msg: err.Error()}
}
