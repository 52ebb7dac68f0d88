// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package plugintest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// checkCase is a test case: a plugin, a check, and what the check's findings must contain.
type checkCase struct {
	check  string
	plugin string // mode of the test binary, or a script that starts with #!
	want   finding.Severity
	got    string // text that Got or Did must contain
	opts   Options
	change func(testing.TB, *plugin.Command)
	tweak  func(*suite)
}

// withShortTimeout sets a short timeout for tests of plugins that hang.
func withShortTimeout(_ testing.TB, c *plugin.Command) { c.Timeout = 300 * time.Millisecond }

func anyVersion(_ testing.TB, c *plugin.Command) { c.APIVersion = "" }

func withEnviron(entries ...string) func(testing.TB, *plugin.Command) {
	return func(_ testing.TB, c *plugin.Command) { c.Environ = append(os.Environ(), entries...) }
}

func withPath(f func(dir string) string) func(testing.TB, *plugin.Command) {
	return func(t testing.TB, c *plugin.Command) { c.Path = f(t.TempDir()) }
}

// createFile creates a file in dir and returns its path, or the error.
func createFile(dir, name, content string, mode os.FileMode) string {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		return err.Error()
	}
	return path
}

func inSettingsDir(t testing.TB, c *plugin.Command) {
	c.Dir = t.TempDir()
	createFile(c.Dir, "settings.json", "{}", 0o600)
}

// lockForChild locks the file on which the child process of runChild waits. It unlocks the file
// when the test ends.
func lockForChild(t testing.TB, c *plugin.Command) {
	path := strings.TrimPrefix(c.Env[len(c.Env)-1].Reveal(), stateVar+"=")
	f := must.Get(os.Create(path))(t)
	must.Do(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	t.Cleanup(func() { f.Close() })
}

func imageOptions(list ...string) Options { return Options{Images: list} }

func accountOptions(a ServiceAccount) Options { return Options{ServiceAccount: &a} }

const (
	elfForAnotherMachine = "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x16\x00\x01\x00\x00\x00"
	pluginScript               = "#!/bin/sh\ncat >/dev/null\n"
	scriptAnswer         = `{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image"}`
)

// checkCases returns all test cases. For each check, at least one plugin must fail with the
// highest severity, and one must pass.
func checkCases() []checkCase {
	return slices.Concat(fileRows(), requestRows(), responseRows(), keyRows(), tokenRows(), outputRows(), processRows(), environmentRows(), predecessorRows())
}

func fileRows() []checkCase {
	return []checkCase{
		{check: "binary-runs", plugin: "good", want: finding.SeverityOK},
		{check: "binary-runs", want: finding.SeverityError, got: "does not exist", change: withPath(func(dir string) string { return filepath.Join(dir, "missing") })},
		{check: "binary-runs", want: finding.SeverityError, got: "no execute permission", change: withPath(func(dir string) string { return createFile(dir, "p", pluginScript, 0o644) })},
		{check: "binary-runs", want: finding.SeverityError, got: "but this machine is", change: withPath(func(dir string) string {
			return createFile(dir, "p", elfForAnotherMachine+strings.Repeat("\x00", 40), 0o755)
		})},
		{check: "binary-runs", want: finding.SeverityError, got: "carriage return", change: withPath(func(dir string) string { return createFile(dir, "p", "#!/bin/sh\r\n", 0o755) })},
		{check: "binary-static", plugin: pluginScript, want: finding.SeverityWarning, got: `a script for "/bin/sh"`},
		{check: "binary-static", want: finding.SeveritySkipped, got: "does not exist", change: withPath(func(dir string) string { return filepath.Join(dir, "missing") })},
	}
}

func requestRows() []checkCase {
	return []checkCase{
		{check: "base-answer", plugin: "good", want: finding.SeverityOK, got: "1 auth key, cacheKeyType Registry"},
		{check: "base-answer", plugin: "no-cloud", want: finding.SeverityWarning, got: "metadata service: connection refused"},
		{check: "base-answer", plugin: "hang", want: finding.SeverityError, got: "no response within", change: withShortTimeout},
		{check: "base-answer", want: finding.SeverityError, got: "no such file", change: withPath(func(dir string) string { return filepath.Join(dir, "missing") })},
		{check: "base-answer", plugin: "good", want: finding.SeverityError, got: "apiVersion", change: func(_ testing.TB, c *plugin.Command) { c.APIVersion = "v1" }},
		{check: "base-answer", plugin: "only-v1beta1", want: finding.SeverityOK, got: "in v1beta1", change: anyVersion},

		{check: "version-v1", plugin: "good", want: finding.SeverityOK},
		{check: "version-v1", plugin: "always-beta", want: finding.SeverityError, got: "a response with a different apiVersion than the request", change: anyVersion},
		{check: "version-v1", plugin: "only-v1beta1", want: finding.SeverityWarning, got: "refused", change: anyVersion},
		{check: "version-v1", plugin: "no-cloud", want: finding.SeveritySkipped, got: "fails with every version"},
		{check: "version-v1", plugin: "hang", want: finding.SeveritySkipped, got: "no response within", change: withShortTimeout},
		{check: "version-v1beta1", plugin: "good", want: finding.SeverityOK},
		{check: "version-v1beta1", plugin: "lenient", want: finding.SeverityError, got: "a response with a different apiVersion than the request"},
		{check: "version-v1alpha1", plugin: "lenient", want: finding.SeverityError, got: "a response with a different apiVersion than the request"},
		{check: "version-v1alpha1", plugin: "only-v1beta1", want: finding.SeverityOK, got: "refused", change: anyVersion},

		{check: "version-unknown", plugin: "good", want: finding.SeverityOK, got: "refused: exit status 2"},
		{check: "version-unknown", plugin: "lenient", want: finding.SeverityWarning, got: "exit code 0 and"},
		{check: "version-unknown", plugin: "hang-on-bad", want: finding.SeverityError, got: "it did not exit", change: withShortTimeout},
		{check: "request-kind", plugin: "good", want: finding.SeverityOK},
		{check: "request-kind", plugin: "lenient", want: finding.SeverityWarning, got: "exit code 0 and"},
		{check: "request-kind", plugin: "hang-on-bad", want: finding.SeverityError, got: "it did not exit", change: withShortTimeout},
		{check: "request-unknown-field", plugin: "good", want: finding.SeverityOK},
		{check: "request-unknown-field", plugin: "strict", want: finding.SeverityError, got: "unknown field"},
		{check: "request-unknown-field", plugin: "guess", want: finding.SeverityError, got: "user name for"},
		{check: "request-unknown-field", plugin: "no-cloud", want: finding.SeveritySkipped, got: "see the base-answer check"},
		{check: "request-unknown-field", plugin: "token-needed", want: finding.SeverityOK, opts: accountOptions(ServiceAccount{})},
		{check: "request-strict", plugin: "good", want: finding.SeverityOK},
		{check: "request-strict", plugin: "lenient", want: finding.SeverityInfo, got: "exit code 0 and"},
		{check: "request-strict", plugin: "hang-on-bad", want: finding.SeverityError, got: "it did not exit", change: withShortTimeout},
		{check: "stdin-garbage", plugin: "good", want: finding.SeverityOK},
		{check: "stdin-garbage", plugin: "lenient", want: finding.SeverityWarning, got: "exit code 0 and"},
		{check: "stdin-garbage", plugin: pluginScript + "echo '" + scriptAnswer + "'\n", want: finding.SeverityWarning, got: "exit code 0 and"},
		{check: "stdin-garbage", plugin: "hang-on-bad", want: finding.SeverityError, got: "it did not exit", change: withShortTimeout},
		{check: "stdin-empty", plugin: "good", want: finding.SeverityOK},
		{check: "stdin-empty", plugin: "quiet-on-bad", want: finding.SeverityWarning, got: "exit code 0 and nothing"},
		{check: "stdin-empty", plugin: "hang-on-bad", want: finding.SeverityError, got: "it did not exit", change: withShortTimeout},
		{check: "stdin-empty", plugin: "#!/bin/sh\nsleep 3600\n", want: finding.SeverityError, got: "it did not exit", change: withShortTimeout},
		{check: "stdin-garbage", plugin: "no-cloud", want: finding.SeverityOK, got: "invalid JSON"},
		{check: "stdin-garbage", plugin: "#!/bin/sh\nif grep -q image; then echo no cloud; else echo no request; fi >&2\nexit 1\n", want: finding.SeverityOK, got: "no request"},
		{check: "stdin-garbage", plugin: "#!/bin/sh\necho no cloud after $$ >&2\nexit 1\n", want: finding.SeveritySkipped, got: "in the same way for a valid request"},
		{check: "request-strict", plugin: "#!/bin/sh\necho no cloud after $$ >&2\nexit 1\n", want: finding.SeveritySkipped, got: "in the same way for a valid request"},
		{check: "stdin-truncated", plugin: "good", want: finding.SeverityOK},
		{check: "stdin-truncated", plugin: "lenient", want: finding.SeverityWarning, got: "exit code 0 and"},
		{check: "stdin-truncated", plugin: "hang-on-bad", want: finding.SeverityError, got: "it did not exit", change: withShortTimeout},
		{check: "stdin-oversized", plugin: "good", want: finding.SeverityOK, got: "longer than 2097152 bytes"},
		{check: "stdin-oversized", plugin: "token-guess", want: finding.SeverityOK, got: "a response with"},
		{check: "stdin-oversized", plugin: "hang-on-big", want: finding.SeverityError, got: "it did not exit", change: func(_ testing.TB, c *plugin.Command) { c.Timeout = 3 * time.Second }},
		{check: "stdin-oversized", plugin: "crash-on-big", want: finding.SeverityError, got: "invalid CredentialProviderResponse"},
	}
}

func inOutOfTree(_ testing.TB, c *plugin.Command) { c.APIVersion = plugin.OutOfTree }

func predecessorRows() []checkCase {
	given := func(_ testing.TB, c *plugin.Command) { c.Args = plugin.NewSecrets("get-credentials", "-v=3") }
	behind := func(_ testing.TB, c *plugin.Command) { c.Args = plugin.NewSecrets("-v=3", "get-credentials") }
	hastyOutOfTree := func(t testing.TB, c *plugin.Command) { withShortTimeout(t, c); inOutOfTree(t, c) }
	return []checkCase{
		{check: "get-credentials", plugin: "good", want: finding.SeverityOK, got: "the same as the base response"},
		{check: "get-credentials", plugin: "good", want: finding.SeverityOK, got: "the same as the base response", change: given},
		{check: "get-credentials", plugin: "rotating", want: finding.SeverityOK},
		{check: "get-credentials", plugin: "argument-refused", want: finding.SeverityInfo, got: "refused: exit status 1"},
		{check: "get-credentials", plugin: "argument-login", want: finding.SeverityError, got: "an out-of-tree response to a request in the current protocol"},
		{check: "get-credentials", plugin: "argument-other", want: finding.SeverityError, got: "the response differs from the base response: the user name"},
		{check: "get-credentials", plugin: "argument-garbage", want: finding.SeverityError, got: "invalid JSON"},
		{check: "get-credentials", plugin: "argument-hang", want: finding.SeverityError, got: "it did not exit", change: withShortTimeout},
		{check: "get-credentials", plugin: "no-cloud", want: finding.SeveritySkipped, got: "see the base-answer check"},
		{check: "get-credentials", want: finding.SeveritySkipped, got: "cannot be started", change: withPath(func(dir string) string { return filepath.Join(dir, "missing") })},
		{check: "get-credentials", plugin: "good", want: finding.SeverityOK, got: "cacheKeyType Registry", change: inOutOfTree},
		{check: "get-credentials", plugin: "login", want: finding.SeverityInfo, got: "an out-of-tree response to a request in the current protocol", change: inOutOfTree},
		{check: "get-credentials", plugin: "no-cloud", want: finding.SeverityOK, got: "refused", change: inOutOfTree},
		{check: "get-credentials", plugin: "hang", want: finding.SeverityError, got: "it did not exit", change: hastyOutOfTree},

		{check: "predecessor", plugin: "good", want: finding.SeverityOK, got: "a response with get-credentials, and an error without get-credentials"},
		{check: "predecessor", plugin: "good", want: finding.SeverityOK, got: "a response with get-credentials, and an error without get-credentials", change: given},
		{check: "predecessor", plugin: "good", want: finding.SeverityOK, got: "a response with get-credentials, and an error without get-credentials", change: inOutOfTree},
		{check: "predecessor", plugin: "with-flags", want: finding.SeverityOK, got: "a response with get-credentials, and an error without get-credentials", change: behind},
		{check: "predecessor", plugin: "only-today", want: finding.SeverityOK, got: "both rejected"},
		{check: "predecessor", plugin: "no-cloud", want: finding.SeverityOK, got: "both rejected"},
		{check: "predecessor", plugin: "argument-login", want: finding.SeverityOK, got: "a response with get-credentials"},
		{check: "predecessor", plugin: "lenient", want: finding.SeverityWarning, got: "returned neither an out-of-tree response nor an error: apiVersion"},
		{check: "predecessor", plugin: "argument-garbage", want: finding.SeverityWarning, got: "invalid JSON"},
		{check: "predecessor", plugin: "login", want: finding.SeverityWarning, got: "without the argument get-credentials\nexit code 0 and"},
		{check: "predecessor", plugin: "argument-hang", want: finding.SeverityError, got: "it did not exit", change: withShortTimeout},
		{check: "predecessor", plugin: "#!/bin/sh\necho no cloud after $$ >&2\nexit 1\n", want: finding.SeveritySkipped, got: "in the same way for a valid request"},

		{check: "base-answer", plugin: "good", want: finding.SeverityOK, got: "in the out-of-tree protocol", change: inOutOfTree},
		{check: "base-answer", plugin: "login", want: finding.SeverityOK, got: "a response with 1 credential, after", change: inOutOfTree},
		{check: "base-answer", plugin: "lenient", want: finding.SeverityError, got: "got a CredentialProviderResponse", change: inOutOfTree},
		{check: "base-answer", plugin: "login", want: finding.SeverityError, got: "got a RegistryCredentialPluginResponse"},
		{check: "answer-fields", plugin: "login", want: finding.SeverityOK, change: inOutOfTree},
		{check: "answer-fields", plugin: "login-field", want: finding.SeverityError, got: "email: unknown field", change: inOutOfTree},
		{check: "cache-duration", plugin: "good", want: finding.SeverityOK, got: "cacheDuration 9m", change: inOutOfTree},
		{check: "cache-duration", plugin: "login", want: finding.SeverityWarning, got: "expirationTimestamp is missing or in the past", change: inOutOfTree},
		{check: "cache-duration", plugin: "login-until", want: finding.SeverityWarning, got: "expirationTimestamp is missing or in the past", change: inOutOfTree},
		{check: "cache-duration", plugin: "two-days", want: finding.SeverityWarning, got: "47h59m", change: inOutOfTree},
		{check: "answer-empty", plugin: "empty", want: finding.SeverityInfo, change: inOutOfTree},
		{check: "answer-stable", plugin: "rotating", want: finding.SeverityOK, got: "a new password each time", change: inOutOfTree},
		{check: "foreign-host", plugin: "good", want: finding.SeverityOK, change: inOutOfTree},
		{check: "foreign-host", plugin: "login", want: finding.SeverityInfo, got: "a credential", change: inOutOfTree},
		{check: "credential-empty", plugin: "login-half", want: finding.SeverityError, got: "\na user name without a password", change: inOutOfTree},
		{check: "credential-space", plugin: "line-end", want: finding.SeverityWarning, got: "\nthe password begins or ends", change: inOutOfTree},
		{check: "request-strict", plugin: "good", want: finding.SeverityOK, got: "both rejected", change: inOutOfTree},
		{check: "request-strict", plugin: "login-alone", want: finding.SeverityInfo, got: "exit code 0 and", change: inOutOfTree},
		{check: "exit-code", plugin: "login-then-fail", want: finding.SeverityError, got: "exit code 1, with a response", change: inOutOfTree},
		{check: "stderr-secret", plugin: "login-and-tell", want: finding.SeverityError, change: inOutOfTree},
		{check: "stderr-usage", plugin: "argument-refused", want: finding.SeverityOK},
		{check: "cache-scope", plugin: "good", want: finding.SeveritySkipped, got: "has no cacheKeyType", change: inOutOfTree},
	}
}

func responseRows() []checkCase {
	one := imageOptions(DefaultImage)
	return []checkCase{
		{check: "answer-json", plugin: "good", want: finding.SeverityOK},
		{check: "answer-json", plugin: "log-on-stdout", want: finding.SeverityError, got: "invalid JSON"},
		{check: "answer-json", plugin: "nothing", want: finding.SeverityError, got: "the plugin exited 0 and wrote nothing"},
		{check: "answer-json", plugin: "flood", want: finding.SeverityError, got: "longer than"},
		{check: "answer-json", plugin: "wrong-kind", want: finding.SeverityOK},
		{check: "answer-json", plugin: "no-cloud", want: finding.SeveritySkipped},
		{check: "answer-fields", plugin: "good", want: finding.SeverityOK},
		{check: "answer-fields", plugin: "unknown-field", want: finding.SeverityError, got: "unknown field"},
		{check: "answer-fields", plugin: "wrong-case", want: finding.SeverityError, got: "unknown field; use cacheKeyType"},
		{check: "answer-fields", plugin: "duration-number", want: finding.SeverityError, got: "cacheDuration"},
		{check: "answer-fields", plugin: "wrong-kind", want: finding.SeverityError, got: "kind"},
		{check: "answer-fields", plugin: "log-on-stdout", want: finding.SeveritySkipped},
		{check: "cache-key-type", plugin: "good", want: finding.SeverityOK},
		{check: "cache-key-type", plugin: "no-cache-key", want: finding.SeverityError, got: "is missing"},
		{check: "cache-key-type", plugin: "service-account", want: finding.SeverityError, got: "must be Image, Registry or Global"},

		{check: "cache-scope", plugin: "good", want: finding.SeverityOK, got: "cacheKeyType Registry, with the same credential for each image"},
		{check: "cache-scope", plugin: "rotating", want: finding.SeverityOK},
		{check: "cache-scope", plugin: "global", want: finding.SeverityOK},
		{check: "cache-scope", plugin: "image-password", want: finding.SeverityError, got: "the password for"},
		{check: "cache-scope", plugin: "image-user", want: finding.SeverityError, got: "the user name for"},
		{check: "cache-scope", plugin: "image-key", want: finding.SeverityError, got: "has no key for"},
		{check: "cache-scope", plugin: "image-empty", want: finding.SeverityError, got: "unlike the plugin's response for that image"},
		{check: "cache-scope", plugin: "global-one-key", want: finding.SeverityError, got: "has no key for"},
		{check: "cache-scope", plugin: "global-one-key", want: finding.SeverityError, got: "other.example/team/app", opts: imageOptions(DefaultImage, "other.example/team/app")},
		{check: "cache-scope", plugin: "empty", want: finding.SeveritySkipped, got: "has no credential"},
		{check: "cache-scope", plugin: "no-cloud", want: finding.SeveritySkipped, got: "no response"},
		{check: "cache-scope", plugin: "one-image", want: finding.SeveritySkipped, got: "nothing to compare; specify more images"},

		{check: "cache-duration", plugin: "good", want: finding.SeverityOK},
		{check: "cache-duration", plugin: "forever", want: finding.SeverityInfo, got: "no cacheDuration"},
		{check: "cache-duration", plugin: "uncached", want: finding.SeverityWarning, got: "0s"},
		{check: "cache-duration", plugin: "expired", want: finding.SeverityError, got: "-1s"},
		{check: "cache-duration", plugin: "microseconds", want: finding.SeverityError, got: "21.6µs"},
		{check: "cache-duration", plugin: "two-days", want: finding.SeverityWarning, got: "48h"},

		{check: "answer-empty", plugin: "good", want: finding.SeverityOK},
		{check: "answer-empty", plugin: "empty", want: finding.SeverityInfo},
		{check: "answer-empty", plugin: "empty", want: finding.SeverityWarning, opts: one},
		{check: "empty-global", plugin: "good", want: finding.SeverityOK},
		{check: "empty-global", plugin: "empty-global", want: finding.SeverityWarning, got: "conformance.invalid"},
		{check: "answer-stable", plugin: "good", want: finding.SeverityOK, got: "the same response"},
		{check: "answer-stable", plugin: "rotating", want: finding.SeverityOK, got: "a new password each time"},
		{check: "answer-stable", plugin: "random-key", want: finding.SeverityWarning, got: "run 2 differs: the auth keys are"},

		{check: "foreign-host", plugin: "good", want: finding.SeverityOK},
		{check: "foreign-host", plugin: "any-host", want: finding.SeverityInfo, got: "a credential"},
		{check: "credential-empty", plugin: "good", want: finding.SeverityOK},
		{check: "credential-empty", plugin: "empty-user", want: finding.SeverityWarning, got: "an empty user name"},
		{check: "credential-empty", plugin: "empty-password", want: finding.SeverityError, got: "without a password"},
		{check: "credential-empty", plugin: "anonymous-elsewhere", want: finding.SeverityOK},
		{check: "credential-empty", plugin: "empty", want: finding.SeveritySkipped, got: "see the answer-empty check"},
		{check: "credential-space", plugin: "good", want: finding.SeverityOK},
		{check: "credential-space", plugin: "line-end", want: finding.SeverityWarning, got: "the password under"},
		{check: "credential-space", plugin: "padded-user", want: finding.SeverityWarning, got: "the user name under"},
	}
}

func keyRows() []checkCase {
	return []checkCase{
		{check: "auth-key-match", plugin: "good", want: finding.SeverityOK},
		{check: "auth-key-match", plugin: "key-scheme", want: finding.SeverityOK},
		{check: "auth-key-match", plugin: "key-443", want: finding.SeverityError, got: "the image has none", opts: imageOptions(servedRegistry + "/team/app:v1")},
		{check: "auth-key-match", plugin: "key-443", want: finding.SeverityError, got: "port:"},
		{check: "auth-key-match", plugin: "key-capitals", want: finding.SeverityError, got: "matching is case-sensitive"},
		{check: "auth-key-match", plugin: "key-glob", want: finding.SeverityError, got: "globs do not work in paths"},
		{check: "auth-key-match", plugin: "key-slash", want: finding.SeverityError, got: "does not begin with"},
		{check: "auth-key-match", plugin: "key-user", want: finding.SeverityError, got: `"…@other.example"`},
		{check: "auth-key-dead", plugin: "good", want: finding.SeverityOK},
		{check: "auth-key-dead", plugin: "key-dead-too", want: finding.SeverityWarning, got: "globs do not work in paths"},
		{check: "auth-key-dead", plugin: "key-broken-too", want: finding.SeverityWarning, got: "is ignored"},
		{check: "auth-key-dead", plugin: "key-capitals", want: finding.SeverityWarning, got: "matches only images with the same capitalization"},
		{check: "auth-key-dead", plugin: "key-443", want: finding.SeverityWarning, got: "port"},
		{check: "auth-key-wide", plugin: "good", want: finding.SeverityOK},
		{check: "auth-key-wide", plugin: "anonymous-elsewhere", want: finding.SeverityOK},
		{check: "auth-key-wide", plugin: "wide", want: finding.SeverityWarning, got: `"*.*"`},
		{check: "auth-key-wide", plugin: "wide-tld", want: finding.SeverityWarning, got: `"*.io"`},
		{check: "auth-key-port", plugin: "good", want: finding.SeverityOK},
		{check: "auth-key-port", plugin: "any-host", want: finding.SeverityOK},
		{check: "auth-key-port", plugin: "key-static", want: finding.SeverityInfo, got: "none of the response's keys"},
	}
}

func tokenRows() []checkCase {
	tokenType := func(cacheType config.TokenCacheType) Options {
		return accountOptions(ServiceAccount{Token: plugin.NewSecret(canary.TokenSecret), CacheType: cacheType})
	}
	return []checkCase{
		{check: "token-absent", plugin: "good", want: finding.SeverityOK},
		{check: "token-absent", plugin: "token-needed", want: finding.SeverityOK, got: "a service-account token is needed", opts: accountOptions(ServiceAccount{Required: true, Annotations: map[string]string{"example.com/role": "r"}})},
		{check: "token-absent", plugin: "good", want: finding.SeverityError, got: "without the required token", opts: accountOptions(ServiceAccount{Required: true})},
		{check: "token-absent", plugin: "panic-on-no-token", want: finding.SeverityError, got: "exit status 2", opts: accountOptions(ServiceAccount{})},
		{check: "token-absent", plugin: "annotations-need-token", want: finding.SeverityError, got: "invalid JSON"},
		{check: "token-absent", plugin: "hang-on-no-token", want: finding.SeverityError, got: "it did not exit", change: withShortTimeout, opts: accountOptions(ServiceAccount{})},
		{check: "token-absent", plugin: "only-v1beta1", want: finding.SeveritySkipped, got: "does not support v1", change: anyVersion},
		{check: "token-used", plugin: "good", want: finding.SeverityOK, got: "needs no tokenAttributes"},
		{check: "token-used", plugin: "good", want: finding.SeverityWarning, opts: accountOptions(ServiceAccount{Token: plugin.NewSecret(canary.TokenSecret)})},
		{check: "token-used", plugin: "token-echo", want: finding.SeverityOK, got: "the password for", opts: accountOptions(ServiceAccount{Token: plugin.NewSecret(canary.TokenSecret)})},
		{check: "token-used", plugin: "token-refused", want: finding.SeverityOK, got: "no response with the token"},
		{check: "token-used", plugin: "token-needed", want: finding.SeverityOK, got: "no response without the token", opts: accountOptions(ServiceAccount{})},
		{check: "token-used", plugin: "rotating", want: finding.SeveritySkipped, got: "gets a new password"},
		{check: "token-used", plugin: "no-cloud", want: finding.SeveritySkipped, got: "with or without the token: see the base-answer check"},
		{check: "token-echo", plugin: "good", want: finding.SeverityOK},
		{check: "token-echo", plugin: "token-echo", want: finding.SeverityWarning, got: "the token itself"},
		{check: "token-echo", plugin: "token-echo", want: finding.SeverityOK, opts: tokenType(config.CachePerToken)},
		{check: "token-echo", plugin: "token-echo", want: finding.SeverityError, opts: tokenType(config.CachePerServiceAccount)},
		{check: "token-echo", plugin: "token-refused", want: finding.SeveritySkipped, got: "generated"},
		{check: "token-old-version", plugin: "good", want: finding.SeverityOK, got: "it is ignored"},
		{check: "token-old-version", plugin: "token-guess", want: finding.SeverityWarning, got: "the token is the password"},
		{check: "token-old-version", plugin: "no-cloud", want: finding.SeveritySkipped, got: "neither v1beta1 nor"},
	}
}

func outputRows() []checkCase {
	return []checkCase{
		{check: "exit-code", plugin: "good", want: finding.SeverityOK},
		{check: "exit-code", plugin: "nothing", want: finding.SeverityError, got: "nothing on standard output"},
		{check: "exit-code", plugin: "answer-and-fail", want: finding.SeverityError, got: "exit code 1, with a response"},
		{check: "failure-stdout", plugin: "good", want: finding.SeverityOK},
		{check: "failure-stdout", plugin: "error-on-stdout", want: finding.SeverityWarning, got: "34 bytes on standard output"},
		{check: "failure-stdout", plugin: "#!/bin/sh\ncat >/dev/null\necho no cloud here\nexit 3\n", want: finding.SeverityWarning, got: "exit status 3"},
		{check: "failure-message", plugin: "good", want: finding.SeverityOK},
		{check: "failure-message", plugin: "mute-on-bad", want: finding.SeverityWarning, got: "and nothing on standard error"},
		{check: "failure-message", plugin: "#!/bin/sh\nexit 3\n", want: finding.SeverityWarning, got: "exit status 3"},
		{check: "crash", plugin: "good", want: finding.SeverityOK, got: "no run crashed"},
		{check: "crash", plugin: "panic-on-bad", want: finding.SeverityError, got: "a Go panic (and "},
		{check: "crash", plugin: "trace", want: finding.SeverityError, got: "a Go panic"},
		{check: "crash", plugin: "python-on-bad", want: finding.SeverityError, got: "a Python traceback"},
		{check: "crash", plugin: "panic-on-big", want: finding.SeverityError, got: "a Go panic"},
		{check: "crash", plugin: "die-on-bad", want: finding.SeverityError, got: "signal: killed"},
		{check: "stderr-secret", plugin: "good", want: finding.SeverityOK},
		{check: "stderr-secret", plugin: "stderr-password", want: finding.SeverityError},
		{check: "stderr-secret", plugin: "password-then-fail", want: finding.SeverityError, got: "v9"},
		{check: "stderr-secret", plugin: "stderr-token", want: finding.SeverityError, got: "generated"},
		{check: "stderr-secret", plugin: "stderr-token", want: finding.SeverityError, opts: accountOptions(ServiceAccount{Token: plugin.NewSecret(canary.TokenSecret)})},
		{check: "stderr-volume", plugin: "good", want: finding.SeverityOK},
		{check: "stderr-volume", plugin: "stderr-verbose", want: finding.SeverityWarning},
		{check: "stderr-usage", plugin: "good", want: finding.SeverityOK},
		{check: "stderr-usage", plugin: "usage", want: finding.SeverityWarning, got: "exit status 1, with a usage message"},
		{check: "leaves-process", plugin: "good", want: finding.SeverityOK},
		{check: "leaves-process", plugin: "fork", want: finding.SeverityError, got: "in v1alpha1", change: lockForChild},
	}
}

func processRows() []checkCase {
	return []checkCase{
		{check: "time-to-answer", plugin: "good", want: finding.SeverityOK},
		{check: "time-to-answer", plugin: "good", want: finding.SeverityWarning, tweak: func(s *suite) { s.slow = 1 }},
		{check: "time-to-answer", plugin: "no-cloud", want: finding.SeverityWarning, tweak: func(s *suite) { s.slow = 1 }},
		{check: "time-to-answer", plugin: "good", want: finding.SeverityError, tweak: func(s *suite) { s.kubeletTimeout = 1 }},
		{check: "time-to-answer", plugin: "hang", want: finding.SeverityError, got: "still running after", change: withShortTimeout},
		{check: "sigterm", plugin: "good", want: finding.SeverityOK, got: "exited after"},
		{check: "sigterm", plugin: "#!/bin/sh\ncat >/dev/null\n", want: finding.SeverityOK, got: "exited after"},
		{check: "sigterm", plugin: "ignore-term", want: finding.SeverityWarning, got: "was killed", tweak: func(s *suite) { s.termTimeout = 300 * time.Millisecond }},
		{check: "sigterm", plugin: "#!/bin/sh\necho '" + scriptAnswer + "'\n", want: finding.SeveritySkipped, got: "does not wait"},
		{check: "sigterm", plugin: "#!/bin/sh\nexit 1\n", want: finding.SeveritySkipped, got: "does not wait"},
		{check: "concurrent", plugin: "good", want: finding.SeverityOK, got: "every run returned the same response"},
		{check: "concurrent", plugin: "throttled", want: finding.SeverityError, got: `6 of 10 runs failed; first failure: exit status 1; stderr: "plugintest.test: the token service says 429"`, opts: Options{Concurrency: 10}},
		{check: "concurrent", plugin: "drifting", want: finding.SeverityError, got: "cacheKeyType is Image, not Registry", opts: Options{Concurrency: 10}},
		{check: "concurrent", plugin: "no-cloud", want: finding.SeveritySkipped, got: "see the base-answer check"},
	}
}

// cloudEndpointEnv returns environment variables with which a plugin does not call the real cloud.
func cloudEndpointEnv() []string {
	return []string{"AWS_ENDPOINT_URL_ECR=http://127.0.0.1:1", "AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:1"}
}

func environmentRows() []checkCase {
	return []checkCase{
		{check: "env-empty", plugin: "good", want: finding.SeverityOK},
		{check: "env-empty", plugin: "needs-setting", want: finding.SeverityWarning, got: "SETTING is not set", change: withEnviron("SETTING=1")},
		{check: "env-empty", plugin: "good", want: finding.SeveritySkipped, got: "(AWS_EC2_METADATA_SERVICE_ENDPOINT, AWS_ENDPOINT_URL_ECR)", change: withEnviron(cloudEndpointEnv()...)},
		{check: "env-empty", plugin: "good", want: finding.SeverityOK, change: func(t testing.TB, c *plugin.Command) {
			withEnviron(cloudEndpointEnv()...)(t, c)
			c.Env = append(c.Env, plugin.NewSecrets(cloudEndpointEnv()...)...)
		}},
		{check: "env-empty", plugin: "needs-proxy", want: finding.SeverityOK, change: withEnviron("https_proxy=http://127.0.0.1:1")},
		{check: "env-empty", plugin: "needs-setting", want: finding.SeveritySkipped, got: "see the base-answer check"},
		{check: "env-empty", plugin: "needs-setting", want: finding.SeverityOK, change: func(_ testing.TB, c *plugin.Command) { c.Env = append(c.Env, plugin.NewSecret("SETTING=1")) }},
		{check: "env-no-home", plugin: "good", want: finding.SeverityOK},
		{check: "env-no-home", plugin: "needs-home", want: finding.SeverityError, got: "exit status 1", change: withEnviron("HOME=/root")},
		{check: "env-no-home", plugin: "renewing", want: finding.SeverityOK, change: withEnviron("HOME=/root")},
		{check: "env-no-home", plugin: "home-decides", want: finding.SeverityError, got: "the response differs: the user name", change: withEnviron("HOME=/root")},
		{check: "dir-root", plugin: "good", want: finding.SeverityOK},
		{check: "dir-root", plugin: "needs-file", want: finding.SeverityError, got: "exit status 1", change: inSettingsDir},
		{check: "dir-read-only", plugin: "good", want: finding.SeverityOK},
		{check: "dir-read-only", plugin: "writes-file", want: finding.SeverityError, got: "cache.json", change: inSettingsDir},
		{check: "leaves-files", plugin: "good", want: finding.SeverityOK},
		{check: "leaves-files", plugin: "writes-file", want: finding.SeverityWarning, got: `"work/cache.json"`, change: inSettingsDir},
		{check: "leaves-files", plugin: "writes-temp", want: finding.SeverityWarning, got: `"temp/token-`},
	}
}

func TestChecks(t *testing.T) {
	byID := map[string]check{}
	for _, c := range allChecks() {
		byID[c.ID] = c
	}
	for i, tt := range checkCases() {
		t.Run(fmt.Sprintf("%d/%s/%s", i, tt.check, pluginName(tt.plugin)), func(t *testing.T) {
			t.Parallel()
			c, ok := byID[tt.check]
			if !ok {
				t.Fatal("there is no such check")
			}
			checkFindings(t, c, tt, c.runCheck(newRowSuite(t, tt)))
		})
	}
}

func pluginName(plugin string) string {
	if strings.HasPrefix(plugin, "#!") {
		return "script"
	}
	return plugin
}

func newRowSuite(t testing.TB, tt checkCase) *suite {
	mode := tt.plugin
	cmd := testCommand(t, mode)
	if strings.HasPrefix(mode, "#!") {
		cmd.Path = createFile(t.TempDir(), "plugin", mode, 0o755)
	}
	if tt.change != nil {
		tt.change(t, &cmd)
	}
	s := newSuite(t.Context(), cmd, tt.opts)
	if tt.tweak != nil {
		tt.tweak(s)
	}
	return s
}

// checkFindings fails the test unless each finding matches the row and is well-formed.
func checkFindings(t *testing.T, c check, tt checkCase, findings []Finding) {
	t.Helper()
	if len(findings) == 0 {
		t.Fatal("no finding")
	}
	text := must.Get(json.Marshal(findings))(t)
	canary.AssertAbsent(t, "a finding", string(text)+fmt.Sprintf("%v %+v", findings, findings))
	for _, f := range findings {
		if f.Severity != tt.want {
			t.Errorf("got severity %s, want %s:\n%v", f.Severity, tt.want, f)
		}
		if !strings.Contains(f.Did+"\n"+f.Message, tt.got) {
			t.Errorf("got:\n%v\nwant …%s…", f, tt.got)
		}
		checkFinding(t, c, f)
	}
	if f := findings[0]; len(findings) > 1 && (f.Severity == finding.SeverityOK || f.Severity == finding.SeveritySkipped) {
		t.Errorf("%d findings, though the first is %s", len(findings), f.Severity)
	}
}

// severities returns all severities in ascending order.
func severities() []finding.Severity {
	return []finding.Severity{finding.SeverityOK, finding.SeveritySkipped, finding.SeverityInfo, finding.SeverityWarning, finding.SeverityError}
}

func checkFinding(t *testing.T, c check, f Finding) {
	t.Helper()
	bad := f.Severity != finding.SeverityOK && f.Severity != finding.SeveritySkipped
	switch order := severities(); {
	case f.Rule != c.ID:
		t.Errorf("the finding is of check %q", f.Rule)
	case slices.Index(order, f.Severity) > slices.Index(order, c.Severity):
		t.Errorf("severity %s: Checks says that %s is the worst", f.Severity, c.Severity)
	case f.Message == "" || f.Severity != finding.SeveritySkipped && f.Did == "":
		t.Errorf("the finding lacks the request or the result:\n%v", f)
	case bad != (f.Kubelet != "") || bad != (f.Fix != ""):
		t.Errorf("a finding needs the effect on the kubelet, and a fix if there is one:\n%v", f)
	}
}

// TestEveryCheckFails verifies that the test cases contain, for each check, a plugin that fails
// with the check's severity and a plugin that passes.
func TestEveryCheckFails(t *testing.T) {
	all := checkCases()
	for _, c := range Checks() {
		worst := func(r checkCase) bool { return r.check == c.ID && r.want == c.Severity }
		if !slices.ContainsFunc(all, worst) {
			t.Errorf("%s: no plugin gets %s from it", c.ID, c.Severity)
		}
		passes := func(r checkCase) bool { return r.check == c.ID && r.want == finding.SeverityOK }
		if !slices.ContainsFunc(all, passes) && c.ID != "binary-static" { // TestGoodPluginPasses tests this check
			t.Errorf("%s: no plugin passes it", c.ID)
		}
	}
}
