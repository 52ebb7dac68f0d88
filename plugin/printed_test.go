// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/regcred/regcred/internal/canary"
)

// TestPrinted: what a plugin printed in place of an answer is named by its kind.
func TestPrinted(t *testing.T) {
	secret := canary.Password
	wide := func(order func(u uint16) string) string {
		var b strings.Builder
		for _, u := range utf16.Encode([]rune(goodResponse)) {
			b.WriteString(order(u))
		}
		return b.String()
	}
	little := wide(func(u uint16) string { return string([]byte{byte(u), byte(u >> 8)}) })
	big := wide(func(u uint16) string { return string([]byte{byte(u >> 8), byte(u)}) })
	const usage, shell, logged, cut, helper = "this is a usage text: look whether args lack a subcommand, such as get-credentials,", "this is the error of a shell: ",
		"a line of a log stands before it: standard output is for the answer alone", "it ends in the middle of a JSON value: the plugin ended before it had written all", "this is the answer of a docker credential helper"
	for name, tt := range map[string]struct{ stdout, want string }{
		"nothing":                  {"", "it is empty: the plugin ended well and printed nothing; look whether args lack a subcommand"},
		"line ends":                {"\n\n", "it is empty: the plugin ended well and printed nothing"},
		"usage of package flag":    {"Usage of ecr:\n  -region string\n    \t" + secret, usage},
		"usage of cobra":           {"ECR plugin " + secret + "\n\nUsage:\n  ecr [command]\n\nAvailable Commands:\n  get-credentials", usage},
		"unknown command":          {"Error: unknown command \"" + secret + "\" for \"ecr\"", usage},
		"klog before it":           {"I0102 15:04:05.000000 1 main.go:12] " + secret + "\n" + goodResponse, "an answer is there, but " + logged},
		"package log before it":    {"2026/01/02 15:04:05 " + secret + "\n" + goodResponse, "an answer is there, but " + logged},
		"slog before it":           {"time=2026-01-02T15:04:05Z level=INFO msg=" + secret + "\n" + goodResponse, "an answer is there, but " + logged},
		"level before it":          {"[WARN] " + secret + "\n" + goodResponse, "an answer is there, but " + logged},
		"JSON log before it":       {`{"level":"info","msg":"` + secret + "\"}\n" + goodResponse, "something follows the JSON value: an answer is there, but a line of a log in JSON stands before it"},
		"text before it":           {"got " + secret + "\nand more\n" + goodResponse, "an answer is there, but lines of text stand before it"},
		"usage in a log":           {"memory usage: " + secret + "\n" + goodResponse, "an answer is there, but a line of text stands before it"},
		"text behind it":           {goodResponse + "\ndone " + secret, "something follows the JSON value: an answer is there, but a line of text stands behind it"},
		"around it":                {"begin\n" + goodResponse + "\nend", "a line of text stands before it, and more behind it"},
		"two answers":              {goodResponse + goodResponse, "something follows the JSON value: an answer is there, but a second JSON value stands behind it"},
		"only a log":               {"I0102 15:04:05.000000 1 main.go:12] " + secret, "this is text: standard output is for the answer alone"},
		"level in brackets":        {"[INFO] " + secret, "this is a line of a log: standard output"},
		"HTML":                     {"<!DOCTYPE html>\n<p>" + secret, "this is an HTML page, as proxies and login pages answer"},
		"XML":                      {"<?xml version=\"1.0\"?>\n<Error>" + secret, "this is XML, such as a cloud's error"},
		"YAML":                     {"kind: CredentialProviderResponse\nauth:\n  r.example:\n    password: " + secret, "this is YAML: print JSON"},
		"a status, no shell":       {"404: " + secret + " not found", "something follows the JSON value: this is text"},
		"push, no shell":           {"cannot push: permission denied", "it is not JSON here: this is text"},
		"refresh, no shell":        {"refresh: token not found", "it is not JSON here: this is text"},
		"a parser, no shell":       {"yaml: line 3: key not found", "it is not JSON here: this is text"},
		"half, and a line end":     {strings.TrimSuffix(goodResponse[:strings.Index(goodResponse, ":")+5], " ") + "\n", "the plugin ended before it had written all"},
		"null":                     {"null\n", "null, as jq prints it for what is not there"},
		"bash of a path":           {"/bin/bash: /opt/x: No such file or directory", shell},
		"sh":                       {"/opt/p: 3: jq: not found\nsh: 1: " + secret + ": not found", shell},
		"dash":                     {"sh: 1: jq: not found", shell},
		"bash":                     {"/opt/bin/p: line 3: jq: command not found\n" + secret, shell},
		"bash, permission":         {"bash: line 1: /opt/x: Permission denied", shell},
		"Go panic":                 {"panic: " + secret + "\n\ngoroutine 1 [running]:", "this is the trace of a crash"},
		"Python":                   {"Traceback (most recent call last):\n  " + secret, "this is the trace of a crash"},
		"helper without":           {"credentials not found in native keychain", "the plugin speaks like a docker credential helper"},
		"byte order mark":          {"\ufeff" + goodResponse, "it is not JSON here: it begins with a byte order mark"},
		"UTF-16":                   {"\xff\xfe" + little, "this is UTF-16, as PowerShell writes it"},
		"UTF-16, big, no mark":     {big, "this is UTF-16"},
		"UTF-16, no mark":          {little, "this is UTF-16"},
		"gzip":                     {"\x1f\x8b\x08\x00\x00", "this is compressed (gzip)"},
		"binary":                   {"\x00\xff\x01" + secret, "this has bytes that are no UTF-8 text"},
		"text":                     {secret, "this is text: standard output is for the answer alone"},
		"Python's quotes":          {"{'kind': '" + secret + "'}", "its strings are in single quotes, as Python prints them"},
		"no quotes":                {"{kind: " + secret + "}", "its names have no quotes"},
		"comma at the end":         {`{"kind":"x",}`, "there is a comma before the closing bracket"},
		"line end in a string":     {"{\"auth\":{\"r.example\":{\"password\":\"" + secret + "\n\"}}}", "a line end or another control character stands in a string"},
		"quote in a string":        {`{"auth":{"r.example":{"password":"a"` + secret + `"}}}`, "a comma or a colon is missing, or a double quote in a string"},
		"empty variable":           {`{"cacheDuration":,"auth":{}}`, "a value is missing or has no quotes"},
		"cut short":                {goodResponse[:len(goodResponse)-4], cut},
		"cut in a string":          {`{"auth":{"r.example":{"password":"` + secret, cut},
		"docker credential helper": {`{"ServerURL":"https://r.example","Username":"u","Secret":"` + secret + `"}`, helper},
		"ExecCredential":           {`{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"` + secret + `"}}`, "this is an ExecCredential, with which kubectl logs in"},
		"Secret":                   {`{"kind":"Secret","apiVersion":"v1","data":{".dockerconfigjson":"` + secret + `"}}`, "this is a Secret of Kubernetes"},
		"Status":                   {`{"kind":"Status","apiVersion":"v1","message":"` + secret + `"}`, "this is a Status of the Kubernetes API"},
		"docker config":            {`{"auths":{"r.example":{"auth":"` + secret + `"}}}`, "this is a docker config file (auths)"},
		"other request":            {`{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1beta1","image":"r.example/x"}`, "the version of the request; this is the request itself"},
		"request":                  {`{"kind":"CredentialProviderRequest","apiVersion":"` + V1 + `","image":"r.example/x"}`, "image: there is no such field; a request has it: does the plugin hand its standard input through?"},
		"configuration":            {`{"kind":"CredentialProviderConfig","apiVersion":"kubelet.config.k8s.io/v1"}`, "this is a CredentialProviderConfig"},
		"aws ecr":                  {`{"authorizationData":[{"authorizationToken":"` + secret + `"}]}`, `this is what "aws ecr get-authorization-token" prints`},
		"credential_process":       {`{"Version":1,"AccessKeyId":"` + secret + `"}`, "this is credentials of AWS, not of a registry"},
		"metadata server":          {`{"access_token":"` + secret + `","token_type":"Bearer"}`, "this is an access token of a cloud"},
		"az":                       {`{"accessToken":"` + secret + `","expiresOn":"x"}`, "this is an access token of a cloud"},
		"error of a registry":      {`{"errors":[{"code":"UNAUTHORIZED","message":"` + secret + `"}]}`, "this is the error of a server"},
		"only a JSON log":          {`{"level":"error","msg":"` + secret + `"}`, "this is a line of a log in JSON"},
		"other case":               {`{"Kind":"CredentialProviderResponse","CacheKeyType":"Image"}`, "written with other case: the fields are kind"},
		"auths":                    {strings.Replace(goodResponse, `"auth"`, `"auths"`, 1), "auths: there is no such field; a docker config file has it; here it is auth"},
		"expirationTimestamp":      {strings.Replace(goodResponse, `"auth"`, `"expirationTimestamp":"x","auth"`, 1), "here it is cacheDuration"},
		"username outside":         {strings.Replace(goodResponse, `"auth"`, `"username":"x","auth"`, 1), "it belongs into an entry of auth"},
		"misspelled":               {strings.Replace(goodResponse, "cacheKeyType", "cacheKeyTpye", 1), "did you mean cacheKeyType?"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeResponse([]byte(tt.stdout), V1)
			if err == nil {
				t.Fatal("it is taken for an answer")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant …%s…", err, tt.want)
			}
			canary.Check(t, "error", err.Error())
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %q", err)
			}
		})
	}
}

// FuzzPrinted: whatever was printed, there is no panic, and the same verdict as
// without a guess.
func FuzzPrinted(f *testing.F) {
	for _, s := range []string{"", goodResponse, "{", "[", "I0102 15:04:05 x\n{}", "a\n{\"auth\":{}}\nb", "\xff\xfe", "<", "kind:", "{'", `{"a":1,}`, "[WARN", "usage:"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		printed(data)
		printedKind(data)
		refused := checkWhole(data, KindResponse)
		_, err := DecodeResponse(data, V1)
		if refused != nil && err == nil {
			t.Errorf("%q is an answer", data)
		}
	})
}

func TestWhyEnded(t *testing.T) {
	for _, tt := range []struct {
		state  string
		code   int
		stderr string
		want   string
	}{
		{"exit status 1", 1, "no route to host", ""},
		{"exit status 2", 2, "", ""},
		{"exit status 2", 2, "panic: x\n\ngoroutine 1 [running]:", "it crashed (a panic of a Go program)"},
		{"exit status 2", 2, "flag provided but not defined: -x", "it does not know one of its args"},
		{"exit status 1", 1, "Error: unknown flag: --x", "it does not know one of its args"},
		{"exit status 1", 1, `Error: unknown command "get" for "ecr"`, "it does not know the subcommand in args"},
		{"exit status 126", 126, "", "was found and could not be executed"},
		{"exit status 127", 127, "sh: jq: not found", "was not found: the PATH is that of the kubelet"},
		{"exit status 137", 137, "", "the command that the plugin ran was killed by something else, most often for want of memory"},
		{"exit status 139", 139, "", "the command that the plugin ran crashed"},
		{"signal: killed", -1, "", "killed by something else, most often for want of memory"},
		{"signal: segmentation fault (core dumped)", -1, "", "it crashed"},
		{"signal: illegal instruction", -1, "", "it was built for a newer processor"},
		{"signal: bad system call", -1, "", "a filter of system calls forbids"},
		{"signal: user defined signal 1", -1, "", ""},
	} {
		got := endedBy(tt.state, tt.code, strings.ToLower(tt.stderr))
		if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s, %q: got %q, want …%s…", tt.state, tt.stderr, got, tt.want)
		}
	}
}
