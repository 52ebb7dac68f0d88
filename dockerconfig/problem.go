// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/jsonplace"
)

// ProblemKind says what kind of fault a [Problem] is.
type ProblemKind string

// The kinds of problems.
const (
	ProblemSyntax ProblemKind = "syntax" // it is not JSON
	ProblemType   ProblemKind = "type"   // a value of another type than wanted
	ProblemAuth   ProblemKind = "auth"   // an auth is not the base64 of user:password
)

// Problem is a fault for which a file is refused as a whole, and where it is.
// Its text holds nothing of the file but keys that look like registries.
type Problem struct {
	Kind         ProblemKind
	Line, Column int    // from 1, Column in bytes; 0 if unknown
	Path         string // e.g. auths["registry.example"].auth; "" for the file
	Msg          string
	Fix          string // what to do, if that is known
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

// Problems returns everything for which [Parse] refuses a file, in its order,
// at most a hundred; none if it does not.
func Problems(data []byte) []*Problem {
	_, err := Parse(data)
	return problems(data, err, kubeletFile)
}

// ProblemsLegacy returns everything for which [ParseLegacy] refuses a file.
func ProblemsLegacy(data []byte) []*Problem {
	_, err := ParseLegacy(data)
	return problems(data, err, legacyFile)
}

// maxProblems bounds how many are reported.
const maxProblems = 100

// layout says which members of a file are read, and as what.
type layout int

const (
	kubeletFile  layout = iota // auths and HttpHeaders
	legacyFile                 // the entries alone
	dockerFile                 // what docker reads beside auths
	dockerLegacy               // the entries alone, and of these what looks like some
	flatFile                   // a file that encoding/json reads without methods of ours
)

// problems says where the faults are for which err was returned. The decoder
// decides, this finds the places: with none found, the error is told without.
func problems(data []byte, err error, l layout) []*Problem {
	if err == nil {
		return nil
	}
	root, syntax := jsonplace.Parse(data)
	if syntax != nil {
		return []*Problem{syntaxProblem(data, syntax)}
	}
	w := walker{data: data, docker: l == dockerFile || l == dockerLegacy}
	switch l {
	case legacyFile, dockerLegacy:
		w.entries(root, "")
	case kubeletFile, dockerFile:
		w.file(root)
	}
	if l == dockerLegacy {
		w.found = slices.DeleteFunc(w.found, func(p *Problem) bool { return p.Kind != ProblemAuth })
	}
	if len(w.found) == 0 {
		w.found = []*Problem{w.fallback(root, err)}
	}
	return w.found
}

// describe says what is wrong without quoting the file, which encoding/json does.
func describe(data []byte, err error, l layout) error { return problems(data, err, l)[0] }

type walker struct {
	data   []byte
	docker bool
	found  []*Problem
}

func (w *walker) add(kind ProblemKind, at int, path, msg, fix string) {
	if len(w.found) < maxProblems {
		line, column := jsonplace.LineColumn(w.data, at)
		w.found = append(w.found, &Problem{kind, line, column, path, msg, fix})
	}
}

// want reports whether v is of a kind, and not null, which is the same as nothing.
func (w *walker) want(kind jsonplace.Kind, v *jsonplace.Value, path string) bool {
	if v.Kind != kind && v.Kind != jsonplace.Null {
		w.add(ProblemType, v.Start, path, mismatch(v.Kind, kind), "")
	}
	return v.Kind == kind
}

func mismatch(got, want jsonplace.Kind) string {
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
		// kubelet: each is decoded, also one that another of its name replaces.
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
			auth = m.Value // the last one counts
		}
	}
	if auth == nil || auth.Text == "" {
		return
	}
	if _, _, err := decodeAuth(auth.Text); err != nil {
		msg, fix := authProblem(auth.Text)
		w.add(ProblemAuth, auth.Start, path+".auth", msg, fix)
	}
}

// field is the name of the field that a member sets, or "".
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

// fallback is about what the walk does not find.
func (w *walker) fallback(root *jsonplace.Value, err error) *Problem {
	if typ, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if v := root.At(int(typ.Offset)); v != nil {
			line, column := jsonplace.LineColumn(w.data, v.Start)
			return &Problem{ProblemType, line, column, "", mismatch(v.Kind, kindOf(typ.Type)), ""}
		}
	}
	return &Problem{Kind: ProblemType, Msg: err.Error()}
}
