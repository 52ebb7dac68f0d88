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

	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/internal/spelling"
)

// sigs.k8s.io/json determines whether a message is accepted, but its errors quote the
// message. The code in this file locates the error, so that error messages can contain
// the field and offset without a value.

// checkWhole returns an error if data is not exactly one JSON value.
func checkWhole(data []byte, kind string) *decodeError {
	if json.Valid(data) {
		return nil
	}
	e := &decodeError{Kind: kind, Stage: StageOutput, Offset: 0, Msg: emptyText}
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
		// The offset is that of the byte after the invalid byte. The error message is
		// not used, because it quotes the invalid byte.
		e.Offset, e.Msg = max(0, syntax.Offset-1), "invalid JSON"
	}
	return e
}

const (
	emptyText = "empty"
	endsEarly = "unexpected end of JSON"
)

// locate returns the first error that a strict decoder for kind would find in a JSON
// value. Unknown fields in requests are not errors.
func locate(data []byte, kind, apiVersion string) *decodeError {
	w := walker{data: data, dec: tokens(data), kind: kind, apiVersion: apiVersion}
	if err := w.object("", kind); err != nil {
		return err
	}
	return newDecodeError(protocol.KindForVersion(apiVersion, kind), StageDecode, "", "the document does not match the protocol's definition of its kind")
}

// tokens returns a decoder that accepts numbers of any size.
func tokens(data []byte) *json.Decoder {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return dec
}

// walker compares a JSON value with the fields in [protocol.Fields].
type walker struct {
	data             []byte
	dec              *json.Decoder
	kind, apiVersion string
}

// object reads an object with the fields of kind.
func (w *walker) object(path, kind string) *decodeError {
	fields := protocol.Fields(kind, w.apiVersion)
	return w.members(path, func(name string, at int64) *decodeError {
		field, ok := find(fields, name)
		switch {
		case ok:
			return w.value(join(path, name), field.Type)
		case w.kind == protocol.KindRequest:
			return w.skip()
		}
		msg := "unknown field"
		if i := indexFold(fields, name); i >= 0 {
			msg = "unknown field; use " + fields[i].Name + " (field names are case-sensitive)"
		} else if meant := suggestField(fields, name); meant != "" {
			msg = "unknown field; " + meant
		}
		return w.errorAt(join(path, showName(name)), at, msg)
	})
}

// value reads a value of a [protocol.Field] type.
func (w *walker) value(path, typ string) *decodeError {
	switch typ {
	case protocol.TypeAuth:
		return w.members(path, func(key string, _ int64) *decodeError {
			return w.object(join(path, showKey(key)), protocol.KindAuthConfig)
		})
	case protocol.TypeAnnotations:
		return w.members(path, func(key string, _ int64) *decodeError {
			return w.value(join(path, showKey(key)), protocol.TypeString)
		})
	}
	at := w.offset()
	token, _ := w.dec.Token()
	s, isString := token.(string)
	switch {
	case token == nil: // null is accepted for every field
		return nil
	case !isString:
		return w.errorAt(path, at, "must be a string")
	case typ == protocol.TypeDuration:
		if _, err := time.ParseDuration(s); err != nil {
			return w.errorAt(path, at, `must be a duration such as "10m" or "1h30m"`)
		}
	case typ == protocol.TypeTime:
		if _, err := parseTime(s); err != nil {
			return w.errorAt(path, at, `must be a time with a time zone, such as "2020-02-20T20:20:20Z"`)
		}
	}
	return nil
}

// members reads an object or null and calls f before each member's value.
func (w *walker) members(path string, f func(name string, at int64) *decodeError) *decodeError {
	at := w.offset()
	token, _ := w.dec.Token()
	if token == nil {
		return nil
	}
	if token != json.Delim('{') {
		return w.errorAt(path, at, "must be an object")
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
			return w.errorAt(join(path, showKey(name)), at, "duplicate field")
		}
		seen[name] = true
		if err := f(name, at); err != nil {
			return err
		}
	}
	w.dec.Token() // the closing brace
	return nil
}

func (w *walker) skip() *decodeError {
	var value json.RawMessage
	w.dec.Decode(&value) // checkWhole has already accepted it
	return nil
}

// offset returns the offset of the next token.
func (w *walker) offset() int64 { return skipTo(w.data, w.dec.InputOffset()) }

func (w *walker) errorAt(path string, at int64, msg string) *decodeError {
	return &decodeError{Kind: protocol.KindForVersion(w.apiVersion, w.kind), Stage: StageDecode, Field: path, Offset: at, Msg: msg}
}

// skipTo returns the offset of the first byte at or after at that is neither white
// space nor a separator.
func skipTo(data []byte, at int64) int64 {
	rest := bytes.TrimLeft(data[at:], " \t\r\n,:")
	return int64(len(data) - len(rest))
}

func find(fields []protocol.Field, name string) (protocol.Field, bool) {
	for _, f := range fields {
		if f.Name == name {
			return f, true
		}
	}
	return protocol.Field{}, false
}

func indexFold(fields []protocol.Field, name string) int {
	for i, f := range fields {
		if strings.EqualFold(f.Name, name) {
			return i
		}
	}
	return -1
}

// misplacedFields maps fields of other files and protocols to advice and to the field
// of this protocol that the advice refers to.
var misplacedFields = map[string][2]string{
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

// suggestField returns advice about an unknown field, or "".
func suggestField(fields []protocol.Field, name string) string {
	if advice, known := misplacedFields[name]; known {
		if _, has := find(fields, advice[0]); has {
			return advice[1]
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

// A plugin that swaps keys and values prints a password as a field name. Therefore
// errors omit names that do not look like names.
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

// showKey returns name if it looks like an identifier, a registry or a pattern:
// a lower-case host with a dot or a star, a port, and a lower-case path.
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
