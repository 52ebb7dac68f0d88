// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/regcred/regcred/internal/canary"
)

// TestOutputHints verifies the errors for output that is not a response.
func TestOutputHints(t *testing.T) {
	secret := canary.PasswordSecret
	wide := func(order func(u uint16) string) string {
		var b strings.Builder
		for _, u := range utf16.Encode([]rune(goodResponse)) {
			b.WriteString(order(u))
		}
		return b.String()
	}
	little := wide(func(u uint16) string { return string([]byte{byte(u), byte(u >> 8)}) })
	big := wide(func(u uint16) string { return string([]byte{byte(u >> 8), byte(u)}) })
	const usage, logged, cut, helper = "the output is a usage message; check whether args lacks a required subcommand, such as get-credentials, or has one that this plugin version does not support", "there is a log line before the response; write only the response to standard output and everything else to standard error", "unexpected end of JSON: the plugin did not write the whole response; check whether it was killed or its output was truncated by a pipe or a variable", "got a response from a docker credential helper (ServerURL, Username, Secret), which uses a different protocol; configure the vendor's kubelet plugin"
	for name, tt := range map[string]struct{ stdout, want string }{
		"nothing":                  {"", "the plugin exited 0 and wrote nothing to standard output; check whether args lacks a required subcommand,"},
		"line ends":                {"\n\n", "the plugin exited 0 and wrote nothing to standard output"},
		"usage of package flag":    {"Usage of ecr:\n  -region string\n    \t" + secret, usage},
		"usage of cobra":           {"ECR plugin " + secret + "\n\nUsage:\n  ecr [command]\n\nAvailable Commands:\n  get-credentials", usage},
		"unknown command":          {"Error: unknown command \"" + secret + "\" for \"ecr\"", usage},
		"klog before it":           {"I0102 15:04:05.000000 1 main.go:12] " + secret + "\n" + goodResponse, logged},
		"package log before it":    {"2026/01/02 15:04:05 " + secret + "\n" + goodResponse, logged},
		"slog before it":           {"time=2026-01-02T15:04:05Z level=INFO msg=" + secret + "\n" + goodResponse, logged},
		"level before it":          {"[WARN] " + secret + "\n" + goodResponse, logged},
		"JSON log before it":       {`{"level":"info","msg":"` + secret + "\"}\n" + goodResponse, "unexpected data after the JSON value: there is a JSON log line before the response"},
		"text before it":           {"got " + secret + "\nand more\n" + goodResponse, "there are lines of text before the response"},
		"usage in a log":           {"memory usage: " + secret + "\n" + goodResponse, "there is a line of text before the response"},
		"text behind it":           {goodResponse + "\ndone " + secret, "unexpected data after the JSON value: there is a line of text after the response"},
		"around it":                {"begin\n" + goodResponse + "\nend", "there is a line of text before the response, and there is more text after the response"},
		"two answers":              {goodResponse + goodResponse, "unexpected data after the JSON value: there is another JSON value after the response"},
		"only a log":               {"I0102 15:04:05.000000 1 main.go:12] " + secret, "the output is text; write only the response to standard output and everything else to standard error"},
		"level in brackets":        {"[INFO] " + secret, "the output is a log line; write only"},
		"HTML":                     {"<!DOCTYPE html>\n<p>" + secret, "the output is an HTML page, such as a proxy's error or login page; if the plugin receives an HTML page, it must exit with an error"},
		"XML":                      {"<?xml version=\"1.0\"?>\n<Error>" + secret, "the output is XML, such as a cloud API error; write the response as JSON, and exit with a nonzero code on errors"},
		"YAML":                     {"kind: CredentialProviderResponse\nauth:\n  r.example:\n    password: " + secret, "the output is YAML; the response must be JSON"},
		"a status, no shell":       {"404: " + secret + " not found", "unexpected data after the JSON value: the output is text"},
		"push, no shell":           {"cannot push: permission denied", "invalid JSON: the output is text"},
		"refresh, no shell":        {"refresh: token not found", "invalid JSON: the output is text"},
		"a parser, no shell":       {"yaml: line 3: key not found", "invalid JSON: the output is text"},
		"half, and a line end":     {strings.TrimSuffix(goodResponse[:strings.Index(goodResponse, ":")+5], " ") + "\n", "the plugin did not write the whole response; check whether it was killed or its output was truncated by a pipe or a variable"},
		"null":                     {"null\n", "null, as printed by jq for a missing value"},
		"bash of a path":           {"/bin/bash: /opt/x: No such file or directory", "the output is text; write only the response"},
		"sh":                       {"/opt/p: 3: jq: not found\nsh: 1: " + secret + ": not found", "the output is text; write only the response"},
		"dash":                     {"sh: 1: jq: not found", "the output is text; write only the response"},
		"bash":                     {"/opt/bin/p: line 3: jq: command not found\n" + secret, "the output is text; write only the response"},
		"bash, permission":         {"bash: line 1: /opt/x: Permission denied", "the output is text; write only the response"},
		"Go panic":                 {"panic: " + secret + "\n\ngoroutine 1 [running]:", "the output is a stack trace"},
		"Python":                   {"Traceback (most recent call last):\n  " + secret, "the output is a stack trace"},
		"helper without":           {"credentials not found in native keychain", "the plugin behaves like a docker credential helper, which uses a different protocol; install the vendor's kubelet plugin instead"},
		"byte order mark":          {"\ufeff" + goodResponse, "invalid JSON: the output starts with a byte order mark (BOM); write UTF-8 without a BOM"},
		"UTF-16":                   {"\xff\xfe" + little, "the output is encoded as UTF-16 (the Windows PowerShell default); encode it as UTF-8"},
		"UTF-16, big, no mark":     {big, "the output is encoded as UTF-16 (the Windows PowerShell default); encode it as UTF-8"},
		"UTF-16, no mark":          {little, "the output is encoded as UTF-16 (the Windows PowerShell default); encode it as UTF-8"},
		"gzip":                     {"\x1f\x8b\x08\x00\x00", "the output is not UTF-8 text"},
		"binary":                   {"\x00\xff\x01" + secret, "the output is not UTF-8 text"},
		"text":                     {secret, "the output is text; write only the response to standard output and everything else to standard error"},
		"Python's quotes":          {"{'kind': '" + secret + "'}", "strings are in single quotes, as when Python prints a dict; JSON requires double quotes"},
		"no quotes":                {"{kind: " + secret + "}", "field names are not quoted, as in YAML or JavaScript; JSON requires double quotes"},
		"comma at the end":         {`{"kind":"x",}`, "there is a trailing comma before a closing bracket"},
		"line end in a string":     {"{\"auth\":{\"r.example\":{\"password\":\"" + secret + "\n\"}}}", "a string contains a line break or another control character; write it as \\n, or trim the password"},
		"quote in a string":        {`{"auth":{"r.example":{"password":"a"` + secret + `"}}}`, "a comma or colon is missing, or a double quote in a string is not escaped"},
		"empty variable":           {`{"cacheDuration":,"auth":{}}`, "a value is missing or not quoted; check whether a script variable is empty"},
		"cut short":                {goodResponse[:len(goodResponse)-4], cut},
		"cut in a string":          {`{"auth":{"r.example":{"password":"` + secret, cut},
		"docker credential helper": {`{"ServerURL":"https://r.example","Username":"u","Secret":"` + secret + `"}`, helper},
		"ExecCredential":           {`{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"` + secret + `"}}`, "got an ExecCredential, which kubectl uses to log in to an API server"},
		"Secret":                   {`{"kind":"Secret","apiVersion":"v1","data":{".dockerconfigjson":"` + secret + `"}}`, "got a Kubernetes Secret"},
		"Status":                   {`{"kind":"Status","apiVersion":"v1","message":"` + secret + `"}`, "got a Status, which is a Kubernetes API"},
		"docker config":            {`{"auths":{"r.example":{"auth":"` + secret + `"}}}`, "got a docker config file (auths); move its entries to auth, with username and password in plain text"},
		"other request":            {`{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1beta1","image":"r.example/x"}`, "the request's version; got the request"},
		"request":                  {`{"kind":"CredentialProviderRequest","apiVersion":"` + V1 + `","image":"r.example/x"}`, "image: unknown field; this is a request field; check whether the plugin copies its standard input to standard output"},
		"configuration":            {`{"kind":"CredentialProviderConfig","apiVersion":"kubelet.config.k8s.io/v1"}`, "got a CredentialProviderConfig"},
		"aws ecr":                  {`{"authorizationData":[{"authorizationToken":"` + secret + `"}]}`, `got the output of "aws ecr get-authorization-token"; decode authorizationToken into username and password`},
		"credential_process":       {`{"Version":1,"AccessKeyId":"` + secret + `"}`, "got AWS credentials (as printed by a credential_process), not registry credentials"},
		"metadata server":          {`{"access_token":"` + secret + `","token_type":"Bearer"}`, "got a cloud access token, as returned by a metadata server or CLI; use it in the username and password of an auth entry"},
		"az":                       {`{"accessToken":"` + secret + `","expiresOn":"x"}`, "got a cloud access token, as returned by a metadata server or CLI; use it in the username and password of an auth entry"},
		"error of a registry":      {`{"errors":[{"code":"UNAUTHORIZED","message":"` + secret + `"}]}`, "got an error from a server"},
		"only a JSON log":          {`{"level":"error","msg":"` + secret + `"}`, "got a JSON log line"},
		"other case":               {`{"Kind":"CredentialProviderResponse","CacheKeyType":"Image"}`, "fields in the wrong case; use kind, apiVersion, cacheKeyType, cacheDuration and auth"},
		"auths":                    {strings.Replace(goodResponse, `"auth"`, `"auths"`, 1), "auths: unknown field; this is a docker config field; use auth, with username and password in plain text"},
		"expirationTimestamp":      {strings.Replace(goodResponse, `"auth"`, `"expirationTimestamp":"x","auth"`, 1), "use cacheDuration, the time for which the response may be cached"},
		"username outside":         {strings.Replace(goodResponse, `"auth"`, `"username":"x","auth"`, 1), "move this field into the registry's entry under auth"},
		"misspelled":               {strings.Replace(goodResponse, "cacheKeyType", "cacheKeyTpye", 1), "did you mean cacheKeyType?"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeResponse([]byte(tt.stdout), V1)
			if err == nil {
				t.Fatal("it is taken for a response")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant …%s…", err, tt.want)
			}
			canary.AssertAbsent(t, "error", err.Error())
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %q", err)
			}
		})
	}
}
