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
	toStderr     = "standard output is for the answer alone, the rest belongs on standard error"
	noSubcommand = "look whether args lack a subcommand, such as get-credentials, or name one that this version does not have"
	wrongKind    = "a kubelet reads nothing but a " + KindResponse
)

// printed says what a text is that is not one JSON value; "" if that cannot be
// told.
func printed(data []byte) string {
	text := strings.TrimSpace(string(data))
	switch {
	case text == "":
		return "the plugin ended well and printed nothing; " + noSubcommand
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")), isWide(data):
		return "this is UTF-16, as PowerShell writes it: print UTF-8"
	case strings.HasPrefix(text, "\ufeff"):
		return "it begins with a byte order mark: print UTF-8 without one"
	case bytes.HasPrefix(data, []byte("\x1f\x8b")):
		return "this is compressed (gzip): print the answer as it is"
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return "this has bytes that are no UTF-8 text"
	}
	if value, before, after := valueWithin(text); value {
		return "an answer is there, but " + around(before, after) + ": " + toStderr
	}
	if kind := printedText(text); kind != "" {
		return kind
	}
	switch text[0] {
	case '{', '[':
		return almostJSON(text)
	}
	return "this is text: " + toStderr
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
		return "this is an HTML page, as proxies and login pages answer: print what is asked for, and fail where it cannot be had"
	case strings.HasPrefix(text, "<?xml") || strings.HasPrefix(text, "<") && strings.HasSuffix(text, ">"):
		return "this is XML, such as a cloud's error: print the answer in JSON, and fail where there is none"
	case isHelper(lower):
		return "the plugin " + helperSpeaks
	case has("panic: ", "traceback (most recent call last)", "exception in thread"):
		return "this is the trace of a crash: " + toStderr
	case isShellError(first):
		return "this is the error of a shell: a command that the plugin runs is missing or may not be run; its PATH is the kubelet's, and \"set -e\" makes it fail"
	case has("usage:", "usage of ", "available commands:", "unknown command", "--help\" for more", "unknown flag", "flag provided but not defined"):
		return "this is a usage text: " + noSubcommand
	case isYAML(text):
		return "this is YAML: print JSON"
	}
	return ""
}

const helperSpeaks = "speaks like a docker credential helper, which knows another protocol: install the vendor's kubelet plugin in its place"

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
		return describeLines(after) + " behind it"
	case after == "":
		return describeLines(before) + " before it"
	}
	return describeLines(before) + " before it, and more behind it"
}

// describeLines says what lines around an answer are.
func describeLines(text string) string {
	first, _, more := strings.Cut(text, "\n")
	kind := "a line of text stands"
	var value map[string]json.RawMessage
	switch {
	case isLogLine(first):
		kind = "a line of a log stands"
	case json.NewDecoder(strings.NewReader(text)).Decode(&value) == nil:
		kind = "a second JSON value stands"
		if isLogRecord(value) {
			kind = "a line of a log in JSON stands"
		}
		return kind
	}
	if more {
		kind = strings.Replace(strings.Replace(kind, "a line", "lines", 1), "stands", "stand", 1)
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
		return "this is a line of a log: " + toStderr
	case strings.HasPrefix(rest, "'"):
		return "its strings are in single quotes, as Python prints them: JSON has double ones"
	case text[0] == '{' && rest != "" && rest[0] != '"' && rest[0] != '}':
		return "its names have no quotes, as in YAML or JavaScript: JSON has double ones"
	}
	return ""
}

// cutShort says why an answer may end in the middle.
const cutShort = "the plugin ended before it had written all: look whether it was killed, and whether a pipe or a variable cut it"

// explain adds to a refusal by [checkWhole] what the text is.
func explain(e *DecodeError, data []byte) *DecodeError {
	kind := printed(data)
	if e.Msg == endsEarly && (kind == "" || data[0] == '{') {
		kind = cutShort
	}
	if kind == "" && e.Offset > 0 && e.Offset < int64(len(data)) {
		kind = brokenAt(data, e.Offset)
	}
	if kind != "" {
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
		return "there is a comma before the closing bracket"
	case c < ' ':
		return "a line end or another control character stands in a string: write it as \\n, or trim it off the password"
	case c == '\'':
		return "a string is in single quotes: JSON has double ones"
	case c == '/' || c == '#':
		return "a comment: JSON has none"
	case bytes.HasSuffix(before, []byte(`"`)):
		return "a comma or a colon is missing, or a double quote in a string has no backslash before it"
	case bytes.HasSuffix(before, []byte(":")):
		return "a value is missing or has no quotes: does a variable of a script hold nothing?"
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
		return "null, as jq prints it for what is not there"
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
		return "a line of a log in JSON: " + toStderr
	}
	return ""
}

// printedKinds are other JSON that programs print, and what to do about it. The
// function is given the names that must be there.
var printedKinds = []struct {
	what string
	is   func(meta wireMeta, has func(names ...string) bool) bool
}{
	{"the answer of a docker credential helper (ServerURL, Username, Secret), which knows another protocol: configure the vendor's kubelet plugin",
		func(_ wireMeta, has func(...string) bool) bool { return has("ServerURL") || has("Username", "Secret") }},
	{"an ExecCredential, with which kubectl logs in to an API server: " + wrongKind,
		func(m wireMeta, _ func(...string) bool) bool {
			return m.Kind == "ExecCredential" || strings.HasPrefix(m.APIVersion, "client.authentication.k8s.io/")
		}},
	{"the request itself: the plugin hands its standard input through",
		func(m wireMeta, has func(...string) bool) bool {
			return m.Kind == KindRequest || has("image") && !has("auth")
		}},
	{"a Secret of Kubernetes: " + wrongKind, func(m wireMeta, _ func(...string) bool) bool { return m.Kind == "Secret" }},
	{"a Status of the Kubernetes API, which is an error there: " + wrongKind, func(m wireMeta, _ func(...string) bool) bool { return m.Kind == "Status" }},
	{"a CredentialProviderConfig, the kubelet's configuration: " + wrongKind, func(m wireMeta, _ func(...string) bool) bool { return m.Kind == "CredentialProviderConfig" }},
	{"a docker config file (auths): its entries belong into auth, each with username and password in clear", func(_ wireMeta, has func(...string) bool) bool { return has("auths") }},
	{"what \"aws ecr get-authorization-token\" prints: decode authorizationToken into username and password", func(_ wireMeta, has func(...string) bool) bool { return has("authorizationData") }},
	{"credentials of AWS, not of a registry, as a credential_process prints them", func(_ wireMeta, has func(...string) bool) bool { return has("AccessKeyId") || has("Credentials") }},
	{"an access token of a cloud, as its metadata server or command line prints it: it has to become username and password of an entry of auth",
		func(_ wireMeta, has func(...string) bool) bool {
			return has("access_token") || has("accessToken") || has("refresh_token") || has("token") && !has("auth")
		}},
	{"the error of a server: fail where there is no answer, so that it is not taken for one",
		func(_ wireMeta, has func(...string) bool) bool {
			return has("errors") || has("error") || has("code", "message")
		}},
	{"written with other case: the fields are kind, apiVersion, cacheKeyType, cacheDuration and auth",
		func(_ wireMeta, has func(...string) bool) bool {
			return has("Kind") || has("APIVersion") || has("ApiVersion") || has("CacheKeyType") || has("apiversion") || has("Auth")
		}},
}
