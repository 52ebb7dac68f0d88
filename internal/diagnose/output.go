// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package diagnose

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/regcred/regcred/internal/protocol"
)

const (
	hintLogToStderr       = "write only the response to standard output and everything else to standard error"
	hintMissingSubcommand = "check whether args lacks a required subcommand, such as get-credentials, or has one that this plugin version does not support"
	hintTruncatedOutput   = "the plugin did not write the whole response; check whether it was killed or its output was truncated by a pipe or a variable"
	hintDockerHelper      = "behaves like a docker credential helper, which uses a different protocol; install the vendor's kubelet plugin instead"
)

// ExplainOutput explains plugin output that is not a single JSON value. offset is where the
// output stops being valid JSON, or the output's length if the output is truncated.
func ExplainOutput(stdout []byte, offset int64) string {
	text := strings.TrimSpace(string(stdout))
	if text == "" {
		return "the plugin exited 0 and wrote nothing to standard output; " + hintMissingSubcommand
	}
	why := explainText(stdout, text)
	atEnd := len(bytes.TrimSpace(stdout[min(offset, int64(len(stdout))):])) == 0
	switch {
	case atEnd && (why == "" || text[0] == '{'):
		return hintTruncatedOutput
	case why == "" && offset > 0 && !atEnd:
		return explainByte(stdout, offset)
	}
	return why
}

// knownOutputs lists outputs that are recognized by a prefix or a substring, both in
// lower case.
var knownOutputs = []struct {
	prefixes, parts []string
	why             string
}{
	{prefixes: []string{"<!doctype html", "<html"}, why: "the output is an HTML page, such as a proxy's error or login page; if the plugin receives an HTML page, it must exit with an error"},
	{prefixes: []string{"<"}, why: "the output is XML, such as a cloud API error; write the response as JSON, and exit with a nonzero code on errors"},
	{prefixes: dockerHelperErrors, why: "the plugin " + hintDockerHelper},
	{parts: []string{"panic: ", "traceback (most recent call last)", "exception in thread"}, why: "the output is a stack trace; " + hintLogToStderr},
	{parts: []string{"usage:", "usage of ", "available commands:", "unknown command", "--help\" for more", "unknown flag", "flag provided but not defined"}, why: "the output is a usage message; " + hintMissingSubcommand},
	{prefixes: []string{"kind:", "apiversion:"}, parts: []string{"\nkind:", "\napiversion:"}, why: "the output is YAML; the response must be JSON"},
}

// dockerHelperErrors lists the errors of docker-credential-helpers
// (credentials/error.go).
var dockerHelperErrors = []string{"credentials not found in native keychain", "no credentials server url", "no credentials username"}

func explainText(stdout []byte, text string) string {
	switch {
	case bytes.HasPrefix(stdout, []byte("\xff\xfe")), bytes.HasPrefix(stdout, []byte("\xfe\xff")), bytes.HasPrefix(stdout, []byte("{\x00")), bytes.HasPrefix(stdout, []byte("\x00{")):
		return "the output is encoded as UTF-16 (the Windows PowerShell default); encode it as UTF-8"
	case strings.HasPrefix(text, "\ufeff"):
		return "the output starts with a byte order mark (BOM); write UTF-8 without a BOM"
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return "the output is not UTF-8 text"
	}
	if where := textAroundResponse(text); where != "" {
		return where + "; " + hintLogToStderr
	}
	lower := strings.ToLower(text)
	for _, t := range knownOutputs {
		if hasAnyPrefix(lower, t.prefixes) || slices.ContainsFunc(t.parts, func(part string) bool { return strings.Contains(lower, part) }) {
			return t.why
		}
	}
	if text[0] == '{' || text[0] == '[' {
		return explainBrackets(text)
	}
	return "the output is text; " + hintLogToStderr
}

func hasAnyPrefix(text string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}

// textAroundResponse describes the text before or after a response that starts on its
// own line.
func textAroundResponse(text string) string {
	const maxLines = 64
	at := 0
	for range maxLines {
		dec := json.NewDecoder(strings.NewReader(text[at:]))
		var value map[string]json.RawMessage
		if text[at] == '{' && dec.Decode(&value) == nil && (value["kind"] != nil || value["auth"] != nil) {
			before, after := strings.TrimSpace(text[:at]), strings.TrimSpace(text[at+int(dec.InputOffset()):])
			switch {
			case before == "":
				return describeTextLines(after) + " after the response"
			case after == "":
				return describeTextLines(before) + " before the response"
			}
			return describeTextLines(before) + " before the response, and there is more text after the response"
		}
		next := strings.IndexByte(text[at:], '\n')
		if next < 0 {
			break
		}
		at += next + 1
	}
	return ""
}

func describeTextLines(text string) string {
	first, _, more := strings.Cut(text, "\n")
	var value map[string]json.RawMessage
	isJSON := json.NewDecoder(strings.NewReader(text)).Decode(&value) == nil
	switch logged := isLogLine(first); {
	case isJSON && isLogRecord(value):
		return "there is a JSON log line"
	case isJSON:
		return "there is another JSON value"
	case logged && more:
		return "there are log lines"
	case logged:
		return "there is a log line"
	case more:
		return "there are lines of text"
	}
	return "there is a line of text"
}

// isLogLine recognizes lines from klog, log, slog and logrus, and lines that begin with
// a log level.
func isLogLine(line string) bool {
	line = strings.TrimLeft(line, "[ ")
	isDigits := func(from, to int) bool { return len(line) > to && strings.Trim(line[from:to], "0123456789") == "" }
	klog := strings.IndexAny(line, "IWEF") == 0 && isDigits(1, 5)
	date := isDigits(0, 4) && strings.ContainsAny(line[4:5], "-/")
	level, _, _ := strings.Cut(strings.ToUpper(line), " ")
	return klog || date || hasAnyPrefix(line, []string{"time=", "level="}) ||
		slices.Contains([]string{"TRACE", "DEBUG", "INFO", "WARN", "WARNING", "ERROR", "FATAL"}, strings.Trim(level, "[]:|-"))
}

func isLogRecord(value map[string]json.RawMessage) bool {
	return hasAnyFieldList(value, "level", "severity", "lvl", "v") && hasAnyFieldList(value, "msg", "message")
}

// explainBrackets explains a text that begins like JSON.
func explainBrackets(text string) string {
	rest := strings.TrimLeft(text[1:], " \t\r\n")
	switch {
	case isLogLine(text):
		return "the output is a log line; " + hintLogToStderr
	case strings.HasPrefix(rest, "'"):
		return "strings are in single quotes, as when Python prints a dict; JSON requires double quotes"
	case text[0] == '{' && rest != "" && rest[0] != '"' && rest[0] != '}':
		return "field names are not quoted, as in YAML or JavaScript; JSON requires double quotes"
	}
	return ""
}

// explainByte explains a byte that JSON does not allow at its position.
func explainByte(stdout []byte, at int64) string {
	before := bytes.TrimRight(stdout[:at], " \t\r\n")
	switch c := stdout[at]; {
	case (c == '}' || c == ']') && bytes.HasSuffix(before, []byte(",")):
		return "there is a trailing comma before a closing bracket"
	case c < ' ':
		return "a string contains a line break or another control character; write it as \\n, or trim the password"
	case bytes.HasSuffix(before, []byte(`"`)):
		return "a comma or colon is missing, or a double quote in a string is not escaped"
	case bytes.HasSuffix(before, []byte(":")):
		return "a value is missing or not quoted; check whether a script variable is empty"
	}
	return ""
}

const hintWrongKind = "; the kubelet accepts only a " + protocol.KindResponse

// knownValues lists JSON objects that programs print instead of a response. They are
// recognized by their kind or by their fields. A string in fields lists names separated by
// spaces, which must all be present. A name with ! must be absent.
var knownValues = []struct {
	kind   string
	fields []string
	what   string
}{
	{"", []string{"ServerURL", "Username Secret"}, "a response from a docker credential helper (ServerURL, Username, Secret), which uses a different protocol; configure the vendor's kubelet plugin"},
	{"ExecCredential", nil, "an ExecCredential, which kubectl uses to log in to an API server" + hintWrongKind},
	{protocol.KindRequest, []string{"image !auth"}, "the request itself; the plugin copies its standard input to standard output"},
	{"Secret", nil, "a Kubernetes Secret" + hintWrongKind},
	{"Status", nil, "a Status, which is a Kubernetes API error" + hintWrongKind},
	{"CredentialProviderConfig", nil, "a CredentialProviderConfig, which configures the kubelet" + hintWrongKind},
	{"", []string{"auths"}, "a docker config file (auths); move its entries to auth, with username and password in plain text"},
	{"", []string{"authorizationData"}, "the output of \"aws ecr get-authorization-token\"; decode authorizationToken into username and password"},
	{"", []string{"AccessKeyId", "Credentials"}, "AWS credentials (as printed by a credential_process), not registry credentials"},
	{"", []string{"access_token", "accessToken", "refresh_token", "token !auth"}, "a cloud access token, as returned by a metadata server or CLI; use it in the username and password of an auth entry"},
	{"", []string{"errors", "error", "code message"}, "an error from a server; if the server returns an error, exit with a nonzero code and do not print the error to standard output"},
	{"", []string{"Kind", "APIVersion", "ApiVersion", "CacheKeyType", "apiversion", "Auth"}, "fields in the wrong case; use kind, apiVersion, cacheKeyType, cacheDuration and auth"},
}

// ExplainValue describes a JSON value that is not a response.
func ExplainValue(data []byte) string {
	var value map[string]json.RawMessage
	if json.Unmarshal(data, &value) != nil {
		return ""
	}
	if value == nil {
		return "null, as printed by jq for a missing value"
	}
	var kind string
	json.Unmarshal(value["kind"], &kind)
	if kind == protocol.KindResponse {
		return ""
	}
	for _, v := range knownValues {
		if v.kind != "" && v.kind == kind || hasAnyFieldList(value, v.fields...) {
			return v.what
		}
	}
	if isLogRecord(value) {
		return "a JSON log line; " + hintLogToStderr
	}
	return ""
}

// hasAnyFieldList reports whether an object matches one of the lists of field names. For
// the syntax, see knownValues.
func hasAnyFieldList(value map[string]json.RawMessage, lists ...string) bool {
	return slices.ContainsFunc(lists, func(list string) bool {
		return !slices.ContainsFunc(strings.Fields(list), func(name string) bool {
			name, absent := strings.CutPrefix(name, "!")
			return (value[name] == nil) != absent
		})
	})
}
