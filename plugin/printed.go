// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// This file guesses what a plugin printed in place of an answer. It is asked
// after a refusal, decides nothing, and says nothing but kinds: any byte of it may
// be a password.

// What to do, by what was printed.
const (
	toStderr     = "write only the response to standard output and everything else to standard error"
	noSubcommand = "check whether args lacks a required subcommand, such as get-credentials, or has one that this plugin version does not support"
	wrongKind    = "the kubelet accepts only a " + KindResponse
)

// printed says what a text is that is not one JSON value; "" if that cannot be
// told.
func printed(data []byte) string {
	text := strings.TrimSpace(string(data))
	switch {
	case text == "":
		return "the plugin exited 0 and wrote nothing to standard output; " + noSubcommand
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")), isWide(data):
		return "the output is encoded as UTF-16 (the Windows PowerShell default); encode it as UTF-8"
	case strings.HasPrefix(text, "\ufeff"):
		return "the output starts with a byte order mark (BOM); write UTF-8 without a BOM"
	case bytes.HasPrefix(data, []byte("\x1f\x8b")):
		return "the output is compressed (gzip); write the response uncompressed"
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return "the output is not UTF-8 text"
	}
	if value, before, after := valueWithin(text); value {
		return around(before, after) + "; " + toStderr
	}
	if kind := printedText(text); kind != "" {
		return kind
	}
	switch text[0] {
	case '{', '[':
		return almostJSON(text)
	}
	return "the output is text; " + toStderr
}

// isWide reports whether every other byte at the beginning is 0.
func isWide(data []byte) bool {
	const enough = 8
	if len(data) < enough {
		return false
	}
	low, high := 0, 0
	for i, c := range data[:enough] {
		if c == 0 {
			low, high = low+(i+1)%2, high+i%2
		}
	}
	return low == enough/2 && high == 0 || high == enough/2 && low == 0
}

// printedText says what a text is that does not have an answer in it.
func printedText(text string) string {
	lower := strings.ToLower(text)
	first, _, _ := strings.Cut(lower, "\n")
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(lower, part) })
	}
	switch {
	case strings.HasPrefix(lower, "<!doctype html") || strings.HasPrefix(lower, "<html"):
		return "the output is an HTML page, such as a proxy's error or login page; if the plugin receives an HTML page, it must exit with an error"
	case strings.HasPrefix(text, "<?xml") || strings.HasPrefix(text, "<") && strings.HasSuffix(text, ">"):
		return "the output is XML, such as a cloud API error; write the response as JSON, and exit with a nonzero code on errors"
	case isHelper(lower):
		return "the plugin " + helperSpeaks
	case has("panic: ", "traceback (most recent call last)", "exception in thread"):
		return "the output is a stack trace; " + toStderr
	case isShellError(first):
		return "the output is a shell error; a command is missing or not executable (the plugin uses the kubelet's PATH), and the script does not use \"set -e\" to fail on errors"
	case has("usage:", "usage of ", "available commands:", "unknown command", "--help\" for more", "unknown flag", "flag provided but not defined"):
		return "the output is a usage message; " + noSubcommand
	case isYAML(text):
		return "the output is YAML; the response must be JSON"
	}
	return ""
}

const helperSpeaks = "behaves like a docker credential helper, which uses a different protocol; install the vendor's kubelet plugin instead"

// isHelper knows the messages of docker-credential-helpers.
func isHelper(text string) bool {
	return strings.HasPrefix(text, "credentials not found in native keychain") || strings.HasPrefix(text, "no credentials server url") || strings.HasPrefix(text, "no credentials username")
}

func isShellError(line string) bool {
	if !strings.HasSuffix(line, "not found") && !strings.HasSuffix(line, "permission denied") && !strings.HasSuffix(line, "no such file or directory") {
		return false
	}
	if strings.HasSuffix(line, "command not found") {
		return true
	}
	// By whom, and mostly in which line: "sh: 1: jq: not found". A path is that of
	// a script; "404: not found" and "push: permission denied" are of no shell.
	parts := strings.Split(line, ": ")
	if len(parts) < 2 || strings.ContainsAny(parts[0], " \t") {
		return false
	}
	number := strings.TrimPrefix(parts[1], "line ")
	return isShell(parts[0]) || strings.Contains(parts[0], "/") && number != "" && only(number, digits)
}

// isShell reports whether a name or path is a shell's.
func isShell(path string) bool {
	name := path[strings.LastIndexByte(path, '/')+1:]
	return slices.Contains([]string{"sh", "bash", "dash", "ash", "ksh", "zsh", "busybox", "env"}, strings.TrimPrefix(name, "-"))
}

// isYAML reports whether each line is a field, an item or a comment, and there is
// a field of an answer among them.
func isYAML(text string) bool {
	known := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, _, isField := strings.Cut(line, ":")
		if !isField && line != "" && line != "---" && line[0] != '#' && line[0] != '-' {
			return false
		}
		switch strings.Trim(name, `"'`) {
		case "kind", "apiVersion", "cacheKeyType", "auth":
			known = known || isField
		}
	}
	return known && !strings.HasPrefix(text, "{")
}

// valueWithin reports whether there is a whole JSON object in a text, from the
// begin of a line on, and what stands before and behind it.
func valueWithin(text string) (found bool, before, after string) {
	const tries = 64
	at := 0
	for range tries {
		if strings.HasPrefix(text[at:], "{") {
			dec := json.NewDecoder(strings.NewReader(text[at:]))
			var value map[string]json.RawMessage
			if dec.Decode(&value) == nil && (value["kind"] != nil || value["auth"] != nil) {
				return true, strings.TrimSpace(text[:at]), strings.TrimSpace(text[at+int(dec.InputOffset()):])
			}
		}
		next := strings.IndexByte(text[at:], '\n')
		if next < 0 {
			break
		}
		at += next + 1
	}
	return false, "", ""
}

// around says what stands around an answer.
func around(before, after string) string {
	switch {
	case before == "":
		return describeLines(after) + " after the response"
	case after == "":
		return describeLines(before) + " before the response"
	}
	return describeLines(before) + " before the response, and there is more text after the response"
}

// describeLines says what lines around an answer are.
func describeLines(text string) string {
	first, _, more := strings.Cut(text, "\n")
	kind := "there is a line of text"
	var value map[string]json.RawMessage
	switch {
	case isLogLine(first):
		kind = "there is a log line"
	case json.NewDecoder(strings.NewReader(text)).Decode(&value) == nil:
		kind = "there is another JSON value"
		if isLogRecord(value) {
			kind = "there is a JSON log line"
		}
		return kind
	}
	if more {
		kind = strings.Replace(strings.Replace(kind, "is a ", "are ", 1), "line", "lines", 1)
	}
	return kind
}

// isLogLine knows the lines of klog, of package log, of slog and logrus, and those
// that begin with a level.
func isLogLine(line string) bool {
	line = strings.TrimLeft(line, "[ ")
	if len(line) > 5 && strings.ContainsRune("IWEF", rune(line[0])) && only(line[1:5], digits) {
		return true
	}
	if len(line) > 10 && only(line[:4], digits) && (line[4] == '-' || line[4] == '/') && only(line[5:7], digits) {
		return true
	}
	if strings.HasPrefix(line, "time=") || strings.HasPrefix(line, "level=") {
		return true
	}
	word, _, _ := strings.Cut(strings.ToUpper(line), " ")
	return slices.Contains([]string{"TRACE", "DEBUG", "INFO", "WARN", "WARNING", "ERROR", "FATAL"}, strings.Trim(word, "[]:|-"))
}

// isLogRecord reports whether an object is a line of a log written as JSON.
func isLogRecord(value map[string]json.RawMessage) bool {
	return (value["level"] != nil || value["severity"] != nil || value["lvl"] != nil || value["v"] != nil) &&
		(value["msg"] != nil || value["message"] != nil)
}

// almostJSON says what keeps a text that begins like JSON from being it.
func almostJSON(text string) string {
	rest := strings.TrimLeft(text[1:], " \t\r\n")
	switch {
	case isLogLine(text):
		return "the output is a log line; " + toStderr
	case strings.HasPrefix(rest, "'"):
		return "strings are in single quotes, as when Python prints a dict; JSON requires double quotes"
	case text[0] == '{' && rest != "" && rest[0] != '"' && rest[0] != '}':
		return "field names are not quoted, as in YAML or JavaScript; JSON requires double quotes"
	}
	return ""
}

// cutShort says why an answer may end in the middle.
const cutShort = "the plugin did not write the whole response; check whether it was killed or its output was truncated by a pipe or a variable"

// explain adds to a refusal by [checkWhole] what the text is.
func explain(e *DecodeError, data []byte) *DecodeError {
	kind := printed(data)
	if e.Msg == endsEarly && (kind == "" || data[0] == '{') {
		kind = cutShort
	}
	if kind == "" && e.Offset > 0 && e.Offset < int64(len(data)) {
		kind = brokenAt(data, e.Offset)
	}
	switch {
	case kind == "":
	case e.Msg == emptyText:
		e.Msg = kind
	default:
		e.Msg += ": " + kind
	}
	return e
}

// brokenAt says what is wrong at an offset of what begins like JSON.
func brokenAt(data []byte, at int64) string {
	before := bytes.TrimRight(data[:at], " \t\r\n")
	switch c := data[at]; {
	case len(bytes.TrimSpace(data[at:])) == 0: // the line end of what printed half an answer
		return cutShort
	case (c == '}' || c == ']') && bytes.HasSuffix(before, []byte(",")):
		return "there is a trailing comma before a closing bracket"
	case c < ' ':
		return "a string contains a line break or another control character; write it as \\n, or trim the password"
	case c == '\'':
		return "a string is in single quotes; JSON requires double quotes"
	case c == '/' || c == '#':
		return "JSON does not allow comments"
	case bytes.HasSuffix(before, []byte(`"`)):
		return "a comma or colon is missing, or a double quote in a string is not escaped"
	case bytes.HasSuffix(before, []byte(":")):
		return "a value is missing or not quoted; check whether a script variable is empty"
	}
	return ""
}

// printedKind says what a JSON value is that is no answer; "" if that cannot be
// told.
func printedKind(data []byte) string {
	var value map[string]json.RawMessage
	if json.Unmarshal(data, &value) != nil || string(value["kind"]) == `"`+KindResponse+`"` {
		return ""
	}
	if value == nil {
		return "null, as printed by jq for a missing value"
	}
	var meta wireMeta
	json.Unmarshal(data, &meta)
	for _, known := range printedKinds {
		if known.is(meta, func(names ...string) bool {
			return !slices.ContainsFunc(names, func(name string) bool { return value[name] == nil })
		}) {
			return known.what
		}
	}
	if isLogRecord(value) {
		return "a JSON log line; " + toStderr
	}
	return ""
}

// printedKinds are other JSON that programs print, and what to do about it. The
// function is given the names that must be there.
var printedKinds = []struct {
	what string
	is   func(meta wireMeta, has func(names ...string) bool) bool
}{
	{"a response from a docker credential helper (ServerURL, Username, Secret), which uses a different protocol; configure the vendor's kubelet plugin",
		func(_ wireMeta, has func(...string) bool) bool { return has("ServerURL") || has("Username", "Secret") }},
	{"an ExecCredential, which kubectl uses to log in to an API server; " + wrongKind,
		func(m wireMeta, _ func(...string) bool) bool {
			return m.Kind == "ExecCredential" || strings.HasPrefix(m.APIVersion, "client.authentication.k8s.io/")
		}},
	{"the request itself; the plugin copies its standard input to standard output",
		func(m wireMeta, has func(...string) bool) bool {
			return m.Kind == KindRequest || has("image") && !has("auth")
		}},
	{"a Kubernetes Secret; " + wrongKind, func(m wireMeta, _ func(...string) bool) bool { return m.Kind == "Secret" }},
	{"a Status, which is a Kubernetes API error; " + wrongKind, func(m wireMeta, _ func(...string) bool) bool { return m.Kind == "Status" }},
	{"a CredentialProviderConfig, which configures the kubelet; " + wrongKind, func(m wireMeta, _ func(...string) bool) bool { return m.Kind == "CredentialProviderConfig" }},
	{"a docker config file (auths); move its entries to auth, with username and password in plain text", func(_ wireMeta, has func(...string) bool) bool { return has("auths") }},
	{"the output of \"aws ecr get-authorization-token\"; decode authorizationToken into username and password", func(_ wireMeta, has func(...string) bool) bool { return has("authorizationData") }},
	{"AWS credentials (as printed by a credential_process), not registry credentials", func(_ wireMeta, has func(...string) bool) bool { return has("AccessKeyId") || has("Credentials") }},
	{"a cloud access token, as returned by a metadata server or CLI; use it in the username and password of an auth entry",
		func(_ wireMeta, has func(...string) bool) bool {
			return has("access_token") || has("accessToken") || has("refresh_token") || has("token") && !has("auth")
		}},
	{"an error from a server; if the server returns an error, exit with a nonzero code and do not print the error to standard output",
		func(_ wireMeta, has func(...string) bool) bool {
			return has("errors") || has("error") || has("code", "message")
		}},
	{"fields in the wrong case; use kind, apiVersion, cacheKeyType, cacheDuration and auth",
		func(_ wireMeta, has func(...string) bool) bool {
			return has("Kind") || has("APIVersion") || has("ApiVersion") || has("CacheKeyType") || has("apiversion") || has("Auth")
		}},
}
