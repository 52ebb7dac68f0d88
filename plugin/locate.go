// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/internal/spelling"
)

// sigs.k8s.io/json decides whether a message is accepted, but its errors quote the message. The
// code in this file finds the field and the offset of the error, so that error messages need
// not contain values.

// checkSingleJSONValue returns an error if data is not exactly one JSON value.
func checkSingleJSONValue(data []byte, kind string) *decodeError {
	if json.Valid(data) {
		return nil
	}
	e := &decodeError{Kind: kind, Stage: StageOutput, Offset: 0, Msg: emptyOutputMessage}
	if len(bytes.TrimSpace(data)) == 0 {
		return e
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	var value json.RawMessage
	err := dec.Decode(&value)
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		e.Offset = skipSeparators(data, dec.InputOffset())
		e.Msg = "unexpected data after the JSON value"
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Offset, e.Msg = int64(len(data)), truncatedMessage
	case errors.As(err, &syntax):
		// The offset is that of the byte after the invalid byte. The error message is
		// not used, because it quotes the invalid byte.
		e.Offset, e.Msg = max(0, syntax.Offset-1), "invalid JSON"
	}
	return e
}

const (
	emptyOutputMessage = "empty"
	truncatedMessage   = "unexpected end of JSON"
)

// locateDecodeError returns the first error that a strict decoder for kind would find in a JSON
// value. It ignores unknown fields in requests.
func locateDecodeError(data []byte, kind, apiVersion string) *decodeError {
	w := schemaWalker{data: data, dec: newNumberDecoder(data), kind: kind, apiVersion: apiVersion}
	if err := w.checkObject("", kind); err != nil {
		return err
	}
	return newDecodeError(protocol.KindForVersion(apiVersion, kind), StageDecode, "", "the document does not match the protocol's definition of its kind")
}

// newNumberDecoder returns a decoder that accepts numbers of any size.
func newNumberDecoder(data []byte) *json.Decoder {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return dec
}

// schemaWalker compares a JSON value with the fields in [protocol.Fields].
type schemaWalker struct {
	data             []byte
	dec              *json.Decoder
	kind, apiVersion string
}

func (w *schemaWalker) checkObject(path, kind string) *decodeError {
	fields := protocol.Fields(kind, w.apiVersion)
	return w.eachMember(path, func(name string, at int64) *decodeError {
		if i := fieldIndex(fields, name); i >= 0 {
			return w.checkValue(joinFieldPath(path, name), fields[i].Type)
		}
		if w.kind == protocol.KindRequest {
			var skipped json.RawMessage
			w.dec.Decode(&skipped) // checkSingleJSONValue has already accepted it
			return nil
		}
		msg := "unknown field"
		if advice := suggestField(fields, name); advice != "" {
			msg += "; " + advice
		}
		return w.errorAt(joinFieldPath(path, redactFieldName(name)), at, msg)
	})
}

// checkValue reads a value and checks that it has the type typ of a [protocol.Field].
func (w *schemaWalker) checkValue(path, typ string) *decodeError {
	switch typ {
	case protocol.TypeAuth:
		return w.eachMember(path, func(key string, _ int64) *decodeError {
			return w.checkObject(joinFieldPath(path, redactKey(key)), protocol.KindAuthConfig)
		})
	case protocol.TypeAnnotations:
		return w.eachMember(path, func(key string, _ int64) *decodeError {
			return w.checkValue(joinFieldPath(path, redactKey(key)), protocol.TypeString)
		})
	}
	at := w.nextOffset()
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

// eachMember reads an object or null. It calls f for each member, before the member's value has
// been read.
func (w *schemaWalker) eachMember(path string, f func(name string, at int64) *decodeError) *decodeError {
	at := w.nextOffset()
	token, _ := w.dec.Token()
	if token == nil {
		return nil
	}
	if token != json.Delim('{') {
		return w.errorAt(path, at, "must be an object")
	}
	seen := make(map[string]bool)
	for w.dec.More() {
		at := w.nextOffset()
		token, err := w.dec.Token()
		if err != nil {
			return nil
		}
		name, _ := token.(string)
		if seen[name] {
			return w.errorAt(joinFieldPath(path, redactKey(name)), at, "duplicate field")
		}
		seen[name] = true
		if err := f(name, at); err != nil {
			return err
		}
	}
	w.dec.Token() // the closing brace
	return nil
}

func (w *schemaWalker) nextOffset() int64 { return skipSeparators(w.data, w.dec.InputOffset()) }

func (w *schemaWalker) errorAt(path string, at int64, msg string) *decodeError {
	return &decodeError{Kind: protocol.KindForVersion(w.apiVersion, w.kind), Stage: StageDecode, Field: path, Offset: at, Msg: msg}
}

// skipSeparators returns the offset of the first byte, from offset at on, that is neither white
// space nor a comma nor a colon.
func skipSeparators(data []byte, at int64) int64 {
	rest := bytes.TrimLeft(data[at:], " \t\r\n,:")
	return int64(len(data) - len(rest))
}

func fieldIndex(fields []protocol.Field, name string) int {
	return slices.IndexFunc(fields, func(f protocol.Field) bool { return f.Name == name })
}

// misplacedFields maps each field of another file or protocol to the corresponding field of
// this protocol and to advice about it.
var misplacedFields = map[string][2]string{
	"auths":               {"auth", "this is a docker config field; use auth, with username and password in plain text"},
	"auth":                {"password", "this is a docker config field; use username and password in plain text"},
	"expirationTimestamp": {"cacheDuration", "use cacheDuration, the time for which the response may be cached"},
	"expiresAt":           {"cacheDuration", "use cacheDuration, the time for which the response may be cached"},
	"cacheKey":            {"cacheKeyType", "use cacheKeyType"},
	"token":               {"password", "put the token in password"},
	"secret":              {"password", "use password"},
	"user":                {"username", "use username"},
	"username":            {"auth", "move this field into the registry's entry under auth"},
	"password":            {"auth", "move this field into the registry's entry under auth"},
	"image":               {"auth", "this is a request field; check whether the plugin copies its standard input to standard output"},
}

// suggestField returns advice about an unknown field. It returns "" if it has no advice.
func suggestField(fields []protocol.Field, name string) string {
	for _, f := range fields {
		if strings.EqualFold(f.Name, name) {
			return "use " + f.Name + " (field names are case-sensitive)"
		}
	}
	if advice, known := misplacedFields[name]; known && fieldIndex(fields, advice[0]) >= 0 {
		return advice[1]
	}
	for _, f := range fields {
		if d := spelling.Distance(f.Name, name); 4*d <= len(f.Name) {
			return "did you mean " + f.Name + "?"
		}
	}
	return ""
}

func joinFieldPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// If a plugin swaps keys and values, a password becomes a field name. Therefore errors contain
// only names that look like field names or keys and are not too long.
const (
	maxShownName   = 32
	maxShownKey    = 128
	hiddenNameText = "(hidden name)"
)

// redactFieldName returns name if it looks like an identifier. Otherwise it returns a
// placeholder.
func redactFieldName(name string) string {
	if len(name) == 0 || len(name) > maxShownName || !consistsOf(name, letters) {
		return hiddenNameText
	}
	return name
}

// redactKey returns name if it looks like an identifier, a registry or a pattern: a lower-case
// host with a dot or a star, a port, and a lower-case path. Otherwise it returns a placeholder.
func redactKey(name string) string {
	host, path, _ := strings.Cut(name, "/")
	host, port, _ := strings.Cut(host, ":")
	if len(name) <= maxShownKey && strings.ContainsAny(host, ".*") &&
		consistsOf(host, lowerCaseLetters+digits+".*-") && consistsOf(port, digits) && consistsOf(path, lowerCaseLetters+digits+"._/-") {
		return name
	}
	return redactFieldName(name)
}

const (
	lowerCaseLetters = "abcdefghijklmnopqrstuvwxyz"
	letters          = lowerCaseLetters + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits           = "0123456789"
)

func consistsOf(s, set string) bool { return strings.Trim(s, set) == "" }
