// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerjson

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/regcred/regcred/internal/jsonplace"
)

// syntaxProblem explains why data is not JSON, without quoting it.
func syntaxProblem(data []byte, err error) *Problem {
	at, _ := jsonplace.SyntaxOffset(err)
	if isTruncated(err) {
		at = len(data)
	}
	msg, fix := explainSyntax(data, at)
	if msg != "" {
		msg = ": " + msg
	}
	if strings.Contains(err.Error(), "exceeded max depth") {
		msg, fix = ": nested too deeply", "check that this is the right file"
	}
	line, column := jsonplace.LineColumn(data, at)
	return &Problem{KindSyntax, line, column, "", "not JSON" + cmp.Or(msg, " from here on"), fix}
}

func isTruncated(err error) bool { return err.Error() == "unexpected end of JSON input" }

// explainSyntax recognizes other formats that are used by mistake instead of JSON.
func explainSyntax(data []byte, at int) (msg, fix string) {
	text := bytes.TrimSpace(data)
	switch {
	case len(text) == 0:
		return "it is empty", `use {"auths":{}} for a file without credentials`
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return "begins with a byte order mark", "save it as UTF-8 without a byte order mark"
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")), bytes.HasPrefix(data, []byte("{\x00")):
		return "it is UTF-16", "save it as UTF-8 without a byte order mark"
	case IsBase64JSON(data):
		return "has an extra layer of base64 encoding", "decode the file with base64 -d (in a Secret, only the data field contains base64)"
	case at >= len(data):
		return "ends before all brackets are closed", "check whether the file is truncated"
	case bytes.HasPrefix(text, []byte("<")):
		return "looks like HTML or XML", "check whether the file is a server's error page"
	}
	if msg, fix := explainByte(data, at); msg != "" {
		return msg, fix
	}
	if text[0] != '{' && text[0] != '"' && bytes.Contains(text, []byte("auths:")) || bytes.HasPrefix(text, []byte("---")) {
		return "it is YAML", "convert it to JSON"
	}
	return "", ""
}

// explainByte explains why JSON does not allow the byte at an offset.
func explainByte(data []byte, at int) (msg, fix string) {
	before := bytes.TrimRight(data[:at], " \t\r\n")
	switch c := data[at]; {
	case c == 0:
		return "a NUL", "remove the NUL"
	case c == '/' || c == '#':
		return "comments are not allowed in JSON", "remove the comment"
	case c == '\'':
		return "single-quoted string", "use double quotes"
	case (c == '}' || c == ']') && bytes.HasSuffix(before, []byte(",")):
		return "trailing comma before the closing bracket", "remove the comma"
	case c == '"' && len(before) > 0 && bytes.IndexByte([]byte("\"}]0123456789el"), before[len(before)-1]) >= 0:
		return "missing comma or colon before this position", ""
	case c == '\n' || c == '\r' || c == '\t':
		return "a line break or tab inside a string", "close the quote, or write the line break as \\n"
	case json.Valid(before):
		return "unexpected text after the last bracket", "remove the text"
	}
	return "", ""
}

// IsBase64JSON reports whether data is a base64-encoded JSON object. The data of a Secret is such
// an object if it was encoded twice.
func IsBase64JSON(data []byte) bool {
	text := bytes.TrimSpace(data)
	if len(text) == 0 || !bytes.HasPrefix(text, []byte("e")) && !bytes.HasPrefix(text, []byte("I")) && !bytes.HasPrefix(text, []byte("C")) {
		return false // base64 encodes {, a space and a line feed as e, I and C
	}
	decoded, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil {
		decoded, err = base64.RawStdEncoding.DecodeString(string(text))
	}
	return err == nil && bytes.HasPrefix(bytes.TrimSpace(decoded), []byte("{")) && json.Valid(decoded)
}

// explainAuth explains why [DecodeAuth] rejects a text.
func explainAuth(s string) (msg, fix string) {
	const write = "use the output of printf %s user:password | base64 -w0"
	trimmed := strings.TrimSpace(s)
	user, _, _ := strings.Cut(trimmed, ":")
	switch {
	case isUserPassword(trimmed, base64.StdEncoding) || isUserPassword(trimmed, base64.RawStdEncoding):
		return "the base64 text has leading or trailing spaces", "remove the spaces"
	case isUserPassword(trimmed, base64.URLEncoding) || isUserPassword(trimmed, base64.RawURLEncoding):
		return "URL-safe base64 (with - and _) is not supported", "replace - with + and _ with /"
	case isUserPassword(strings.TrimRight(trimmed, "="), base64.RawStdEncoding):
		return "the base64 text has incorrect padding (= characters at the end)", "remove all of them"
	case strings.HasPrefix(strings.ToLower(trimmed), "basic ") || strings.HasPrefix(strings.ToLower(trimmed), "bearer "):
		return "the value is an HTTP Authorization header", "remove the first word"
	case strings.ContainsAny(trimmed, "${}<>") && !IsLiteralUser(user):
		return "the value looks like a placeholder that was not filled in", write
	case strings.Contains(trimmed, ":"):
		return "user:password must be base64-encoded", write
	}
	decoded, err := base64.StdEncoding.DecodeString(trimmed)
	if err != nil {
		decoded, err = base64.RawStdEncoding.DecodeString(trimmed)
	}
	switch once := strings.TrimSpace(string(decoded)); {
	case err != nil:
		return "it is not base64", write
	case isUserPassword(once, base64.StdEncoding) || isUserPassword(once, base64.RawStdEncoding):
		return "the value is base64-encoded twice", "decode it once"
	}
	return "the decoded text has no colon between user and password", write
}

// isUserPassword reports whether s is user:password in base64.
func isUserPassword(s string, encoding *base64.Encoding) bool {
	decoded, err := encoding.DecodeString(s)
	return err == nil && strings.Contains(string(decoded), ":")
}

// Types of pull secrets, and the data keys that contain the docker config.
const (
	SecretTypeConfigJSON = "kubernetes.io/dockerconfigjson"
	SecretKeyConfigJSON  = ".dockerconfigjson"
	SecretTypeDockercfg  = "kubernetes.io/dockercfg"
	SecretKeyDockercfg   = ".dockercfg"
)

var errInvalidAuth = errors.New("an auth field is not base64-encoded user:password")

// DecodeAuth decodes an auth field as the kubelet does. Its error does not quote the
// field.
func DecodeAuth(s string) (user, password string, err error) {
	encoding := base64.RawStdEncoding
	// As in the kubelet, this check ignores trailing space, but the decoder does not.
	if strings.HasSuffix(strings.TrimSpace(s), "=") {
		encoding = base64.StdEncoding
	}
	b, err := encoding.DecodeString(s)
	if err != nil {
		return "", "", errInvalidAuth
	}
	user, password, ok := strings.Cut(string(b), ":")
	if !ok {
		return "", "", errInvalidAuth
	}
	return user, password, nil
}
