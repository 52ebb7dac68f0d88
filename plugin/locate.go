// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/spelling"
)

// What decides whether a document is accepted is sigs.k8s.io/json, whose
// errors quote the document. The code in this file runs after a refusal and
// finds the place, so that the error can name it without a value.

// checkWhole refuses what is not one JSON value with white space around it.
func checkWhole(data []byte, kind string) *DecodeError {
	if json.Valid(data) {
		return nil
	}
	e := &DecodeError{Kind: kind, Stage: StageOutput, Offset: 0, Msg: emptyText}
	if len(bytes.TrimSpace(data)) == 0 {
		return e
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	var value json.RawMessage
	err := dec.Decode(&value)
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		e.Offset = skipTo(data, dec.InputOffset())
		e.Msg = "unexpected data after the JSON value"
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Offset, e.Msg = int64(len(data)), endsEarly
	case errors.As(err, &syntax):
		// The offset of a SyntaxError counts the offending byte. Its text
		// quotes that byte, so it is not used.
		e.Offset, e.Msg = max(0, syntax.Offset-1), "invalid JSON"
	}
	return e
}

const (
	emptyText = "empty"
	endsEarly = "unexpected end of JSON"
)

// locate returns the first place of a whole JSON value that a strict decoder
// of kind refuses. Unknown fields of requests are not refused.
func locate(data []byte, kind, apiVersion string) *DecodeError {
	w := walker{data: data, dec: tokens(data), kind: kind, apiVersion: apiVersion}
	if err := w.object("", kind); err != nil {
		return err
	}
	return decodeError(kindIn(apiVersion, kind), StageDecode, "", "does not match the protocol")
}

// tokens reads JSON token by token, whatever the size of its numbers.
func tokens(data []byte) *json.Decoder {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return dec
}

// walker reads a JSON value beside the table of [Fields].
type walker struct {
	data             []byte
	dec              *json.Decoder
	kind, apiVersion string
}

// object reads the value at path, which should be an object with the fields of kind.
func (w *walker) object(path, kind string) *DecodeError {
	fields := Fields(kind, w.apiVersion)
	return w.members(path, func(name string, at int64) *DecodeError {
		field, ok := find(fields, name)
		switch {
		case ok:
			return w.value(join(path, name), field.Type)
		case w.kind == KindRequest:
			return w.skip()
		}
		msg := "unknown field"
		if i := indexFold(fields, name); i >= 0 {
			msg = "unknown field; use " + fields[i].Name + " (field names are case-sensitive)"
		} else if meant := otherName(fields, name); meant != "" {
			msg = "unknown field; " + meant
		}
		return w.refuse(join(path, showName(name)), at, msg)
	})
}

// value reads the value at path, which should have the type of a [Field].
func (w *walker) value(path, typ string) *DecodeError {
	switch typ {
	case typeAuth:
		return w.members(path, func(key string, _ int64) *DecodeError {
			return w.object(join(path, showKey(key)), KindAuthConfig)
		})
	case typeAnnotations:
		return w.members(path, func(key string, _ int64) *DecodeError {
			return w.value(join(path, showKey(key)), typeString)
		})
	}
	at := w.offset()
	token, _ := w.dec.Token()
	s, isString := token.(string)
	switch {
	case token == nil: // null is accepted everywhere, and changes nothing
		return nil
	case !isString:
		return w.refuse(path, at, "must be a string")
	case typ == typeDuration:
		if _, err := time.ParseDuration(s); err != nil {
			return w.refuse(path, at, `must be a duration such as "10m" or "1h30m"`)
		}
	case typ == typeTime:
		if _, err := parseTime(s); err != nil {
			return w.refuse(path, at, `must be a time with a time zone, such as "2020-02-20T20:20:20Z"`)
		}
	}
	return nil
}

// members reads an object and calls f for each of its members, before the
// member's value is read. null is accepted and has none.
func (w *walker) members(path string, f func(name string, at int64) *DecodeError) *DecodeError {
	at := w.offset()
	token, _ := w.dec.Token()
	if token == nil {
		return nil
	}
	if token != json.Delim('{') {
		return w.refuse(path, at, "must be an object")
	}
	seen := make(map[string]bool)
	for w.dec.More() {
		at := w.offset()
		token, err := w.dec.Token()
		if err != nil {
			return nil
		}
		name, _ := token.(string)
		if seen[name] {
			return w.refuse(join(path, showKey(name)), at, "duplicate field")
		}
		seen[name] = true
		if err := f(name, at); err != nil {
			return err
		}
	}
	w.dec.Token() // the closing brace
	return nil
}

func (w *walker) skip() *DecodeError {
	var value json.RawMessage
	w.dec.Decode(&value) // it is known to be valid JSON
	return nil
}

// offset returns where the next token begins.
func (w *walker) offset() int64 { return skipTo(w.data, w.dec.InputOffset()) }

func (w *walker) refuse(path string, at int64, msg string) *DecodeError {
	return &DecodeError{Kind: kindIn(w.apiVersion, w.kind), Stage: StageDecode, Field: path, Offset: at, Msg: msg}
}

// skipTo returns the offset of the first byte of data from at on that is
// neither white space nor a separator.
func skipTo(data []byte, at int64) int64 {
	rest := bytes.TrimLeft(data[at:], " \t\r\n,:")
	return int64(len(data) - len(rest))
}

func find(fields []Field, name string) (Field, bool) {
	for _, f := range fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

func indexFold(fields []Field, name string) int {
	for i, f := range fields {
		if strings.EqualFold(f.Name, name) {
			return i
		}
	}
	return -1
}

// otherNames are fields of other protocols and files, and what stands in their
// place here: as far as an object has that field.
var otherNames = map[string][2]string{
	"auths":               {"auth", "this is a docker config field; use auth, with username and password in plain text"},
	"auth":                {"password", "this is a docker config field; use username and password in plain text"},
	"expirationTimestamp": {"cacheDuration", "use cacheDuration, the time for which the response may be cached"},
	"expiresAt":           {"cacheDuration", "use cacheDuration, the time for which the response may be cached"},
	"expires_in":          {"cacheDuration", "use cacheDuration, a string such as \"10m\""},
	"cacheKey":            {"cacheKeyType", "use cacheKeyType"},
	"token":               {"password", "put the token in password"},
	"identitytoken":       {"password", "this is a docker config field; put the token in password, with the user name that the registry expects"},
	"secret":              {"password", "use password"},
	"user":                {"username", "use username"},
	"username":            {"auth", "move this field into the registry's entry under auth"},
	"password":            {"auth", "move this field into the registry's entry under auth"},
	"email":               {"password", "remove this docker config field"},
	"image":               {"auth", "this is a request field; check whether the plugin copies its standard input to standard output"},
	"metadata":            {"auth", "responses have no metadata"},
	"status":              {"auth", "move the fields of this object to the top level, next to kind"},
	"spec":                {"auth", "move the fields of this object to the top level, next to kind"},
}

// otherName says what was meant by a field that there is not.
func otherName(fields []Field, name string) string {
	if other, known := otherNames[name]; known {
		if _, has := find(fields, other[0]); has {
			return other[1]
		}
	}
	for _, f := range fields {
		if d := spelling.Distance(f.Name, name); 4*d <= len(f.Name) {
			return "did you mean " + f.Name + "?"
		}
	}
	return ""
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Names in a plugin's answer are its own: somebody who swaps key and value
// puts a password there. So they are shown only if they look like names.
const (
	maxShownName = 32
	maxShownKey  = 128
	hiddenName   = "(hidden name)"
)

// showName returns name if it looks like an identifier.
func showName(name string) string {
	if len(name) == 0 || len(name) > maxShownName || !onlyLetters(name, "") {
		return hiddenName
	}
	return name
}

// showKey returns name if it looks like an identifier, or like a registry or
// a pattern for some: a lower-case host with a dot or a star, a port of
// digits, a lower-case path. A password in the place of a key seldom does.
func showKey(name string) string {
	host, path, _ := strings.Cut(name, "/")
	host, port, _ := strings.Cut(host, ":")
	if len(name) <= maxShownKey && strings.ContainsAny(host, ".*") &&
		only(host, lower+digits+".*-") && only(port, digits) && only(path, lower+digits+"._/-") {
		return name
	}
	return showName(name)
}

const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
)

func only(s, set string) bool { return strings.Trim(s, set) == "" }

func onlyLetters(s, more string) bool {
	for _, r := range s {
		if !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || strings.ContainsRune(more, r)) {
			return false
		}
	}
	return true
}
