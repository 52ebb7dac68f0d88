// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package diagnose

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/protocol"
)

func TestExit(t *testing.T) {
	none := func(string) string { return "" }
	for _, tt := range []struct {
		state  string
		code   int
		stderr string
		want   string
	}{
		{"exit status 1", 1, "no route to host", ""},
		{"exit status 2", 2, "", ""},
		{"exit status 2", 2, "panic: x\n\ngoroutine 1 [running]:", "the plugin crashed with a Go panic; report the crash to the plugin's authors"},
		{"exit status 2", 2, "flag provided but not defined: -x", "the plugin rejected a flag in args; compare args with the installed version's --help output"},
		{"exit status 1", 1, "Error: unknown flag: --x", "the plugin rejected a flag in args; compare args with the installed version's --help output"},
		{"exit status 1", 1, `Error: unknown command "get" for "ecr"`, "the plugin rejected the subcommand in args; compare args with the installed version's --help output"},
		{"exit status 126", 126, "", "by shell convention, this exit code means that a command run by the plugin is not executable; check the command's mode and format"},
		{"exit status 127", 127, "sh: jq: not found", "by shell convention, this exit code means that a command or library needed by the plugin was not found; the plugin uses the kubelet's PATH unless env in the plugin's entry sets PATH"},
		{"exit status 137", 137, "", "a command run by the plugin was killed by the system or another process, usually because memory ran out; check \"journalctl -k\" and the memory limit of the kubelet's unit"},
		{"exit status 139", 139, "", "a command run by the plugin crashed"},
		{"signal: killed", -1, "", "killed by the system or another process, usually because memory ran out; check \"journalctl -k\" and the memory limit of the kubelet's unit"},
		{"signal: segmentation fault (core dumped)", -1, "", "the plugin crashed"},
		{"signal: illegal instruction", -1, "", "the plugin was built for a newer CPU, or its file is corrupt"},
		{"signal: bad system call", -1, "", "a system call filter blocked the plugin; check SystemCallFilter in the kubelet's unit"},
		{"signal: user defined signal 1", -1, "", ""},
	} {
		got := FailedExit{State: tt.state, Code: tt.code, Stderr: tt.stderr, FindFlag: none}.Explain()
		if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s, %q: got %q, want …%s…", tt.state, tt.stderr, got, tt.want)
		}
	}
}

// TestExitOutput verifies causes that Explain derives from standard output and the request's
// version.
func TestExitOutput(t *testing.T) {
	none := func(string) string { return "" }
	for name, tt := range map[string]struct {
		exit FailedExit
		want string
	}{
		"helper":      {FailedExit{Stdout: "credentials not found in native keychain\n"}, "it behaves like a docker credential helper"},
		"new version": {FailedExit{Stderr: `no kind "CredentialProviderRequest" is registered for version "` + protocol.VersionV1 + `"`, APIVersion: protocol.VersionV1}, "the plugin does not support the request's version, " + protocol.VersionV1 + "; install a newer plugin"},
		"old version": {FailedExit{Stderr: "unsupported apiVersion", APIVersion: protocol.VersionV1Beta1}, "set apiVersion: " + protocol.VersionV1 + " in the plugin's entry"},
		"none":        {FailedExit{Stdout: "x"}, ""},
	} {
		tt.exit.State, tt.exit.Code, tt.exit.FindFlag = "exit status 1", 1, none
		if got := tt.exit.Explain(); !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
			t.Errorf("%s: got %q, want …%s…", name, got, tt.want)
		}
	}
}

// TestRejectedFlag checks that findRejectedFlag returns the flag in the parser's error message,
// even if standard error contains other flags.
func TestRejectedFlag(t *testing.T) {
	for stderr, want := range map[string]string{
		"Error: unknown flag: --regoin":                                         "--regoin",
		"running p --region x --regoin y\nError: unknown flag: --regoin\nUsage": "--regoin",
		"flag provided but not defined: -v=3":                                   "-v",
		"unknown shorthand flag: 'x' in -xyz":                                   "-xyz",
		"p: error: unrecognized arguments: get --token-file":                    "--token-file",
		"p: unrecognized option '--a'":                                          "--a",
		"p: invalid option -- 'x'":                                              "",
		"unknown flag":                                                          "",
		"":                                                                      "",
	} {
		if got := findRejectedFlag(stderr); got != want {
			t.Errorf("%q: got %q, want %q", stderr, got, want)
		}
	}
	exit := FailedExit{State: "exit status 1", Stderr: "unknown flag: --a", FindFlag: func(flag string) string { return "args[1] for " + flag }}
	if got, want := exit.Explain(), "the plugin rejected the flag in args[1] for --a; compare it with the installed version's --help output"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzOutput checks that the explanations never panic and never quote the output.
func FuzzOutput(f *testing.F) {
	for _, s := range []string{"", "{", "[", "I0102 15:04:05 x\n{}", "a\n{\"auth\":{}}\nb", "\xff\xfe", "<", "kind:", "{'", `{"a":1,}`, "[WARN", "usage:", "null"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ExplainValue(data)
		offset := int64(len(data))
		var value any
		if syntax, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(data, &value)); ok {
			offset = max(0, syntax.Offset-1)
		}
		if why := ExplainOutput(data, offset); strings.ContainsAny(why, "\n\x00") {
			t.Errorf("got %q", why)
		}
	})
}

func TestClosestField(t *testing.T) {
	known := []string{"name", "matchImages", "defaultCacheDuration", "apiVersion", "args", "env", "tokenAttributes"}
	for name, want := range map[string]string{
		"imageMatches": "matchImages", "imageMatchers": "matchImages", "imagesMatch": "matchImages", "image_match": "matchImages", "matchImage": "matchImages",
		"mathcImages": "matchImages", "cacheDurationDefault": "defaultCacheDuration", "durationCache": "", "images": "", "attributesToken": "tokenAttributes",
		"nmae": "name", "image": "",
	} {
		if got := ClosestField(name, known); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
