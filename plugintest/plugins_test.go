// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package plugintest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// modeVar is the environment variable that selects the plugin as which the test binary runs:
// see TestMain.
const (
	modeVar  = "PLUGINTEST_MODE"
	stateVar = "PLUGINTEST_STATE" // the path of a file or directory of the test
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVar); mode != "" {
		os.Exit(runTestPlugin(mode))
	}
	for _, entry := range os.Environ() { // results must not depend on the environment of go test
		if name, _, _ := strings.Cut(entry, "="); isEndpointOverride(name) {
			os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}

// testCommand returns a Command whose plugin is the test binary. The mode is passed in Env,
// because no check changes Env.
func testCommand(t testing.TB, mode string) plugin.Command {
	t.Helper()
	path := must.Get(os.Executable())(t)
	return plugin.Command{
		Path:       path,
		Name:       "test",
		APIVersion: plugin.V1,
		// Without GORACE, the race detector would sleep for a second at exit.
		Env: plugin.NewSecrets(modeVar+"="+mode, "GORACE=atexit_sleep_ms=0", stateVar+"="+filepath.Join(t.TempDir(), "s")),
	}
}

const (
	servedRegistry = "registry.example" // the registry that the plugins serve
	okResponse       = `{"kind":"CredentialProviderResponse","apiVersion":"VERSION","cacheKeyType":"Registry","cacheDuration":"10m0s",` +
		`"auth":{"registry.example":{"username":"ci","password":"` + canary.PasswordSecret + `"}}}` + "\n"
)

type (
	response = plugin.Response
)

// goodProvider is a correct plugin. It has a credential for one registry and no other.
func goodProvider(_ context.Context, req *plugin.Request) (*response, error) {
	if req.Registry() != servedRegistry {
		return &response{CacheKeyType: plugin.CacheImage, CacheDuration: new(time.Minute)}, nil
	}
	return &response{
		CacheKeyType:  plugin.CacheRegistry,
		CacheDuration: new(10 * time.Minute),
		Auth:          map[string]plugin.AuthConfig{servedRegistry: {Username: "ci", Password: plugin.NewSecret(canary.PasswordSecret)}},
	}, nil
}

// goodProviderExcept returns a plugin like good whose response is changed by the function change.
func goodProviderExcept(change func(*plugin.Request, *response) error) plugin.ProviderFunc {
	return func(ctx context.Context, req *plugin.Request) (*response, error) {
		resp, err := goodProvider(ctx, req)
		if err == nil {
			err = change(req, resp)
		}
		return resp, err
	}
}

// withKeys returns a plugin like good that returns its credential with other auth keys.
func withKeys(keys ...string) plugin.ProviderFunc {
	return goodProviderExcept(func(_ *plugin.Request, resp *response) error {
		resp.Auth = map[string]plugin.AuthConfig{}
		for _, key := range keys {
			resp.Auth[key] = plugin.AuthConfig{Username: "ci", Password: plugin.NewSecret(canary.PasswordSecret)}
		}
		return nil
	})
}

// goodWithOtherCredential returns a plugin like good whose credential is changed by the
// function change.
func goodWithOtherCredential(change func(req *plugin.Request, auth *plugin.AuthConfig)) plugin.ProviderFunc {
	return goodProviderExcept(func(req *plugin.Request, resp *response) error {
		if auth, ok := resp.Auth[servedRegistry]; ok {
			change(req, &auth)
			resp.Auth[servedRegistry] = auth
		}
		return nil
	})
}

func withCacheDuration(d *time.Duration) plugin.ProviderFunc {
	return goodProviderExcept(func(_ *plugin.Request, resp *response) error {
		resp.CacheDuration = d
		return nil
	})
}

// testProviders returns the plugins that use plugin.Main. Most have a fault in their response.
func testProviders() map[string]plugin.ProviderFunc {
	return map[string]plugin.ProviderFunc{
		"good": goodProvider,
		"no-cloud": func(context.Context, *plugin.Request) (*response, error) {
			return nil, errors.New("ask the metadata service: connection refused")
		},
		"only-v1beta1": goodProviderExcept(func(req *plugin.Request, _ *response) error {
			if req.APIVersion != plugin.V1Beta1 {
				return errors.New("only v1beta1 is answered")
			}
			return nil
		}),
		"wide":           withKeys("*.*"),
		"wide-tld":       withKeys("*.io", servedRegistry),
		"key-443":        withKeys(servedRegistry + ":443"),
		"key-capitals":   withKeys("Registry.example"),
		"key-glob":       withKeys(servedRegistry + "/team/*"),
		"key-slash":      withKeys(servedRegistry + "/team/app/"),
		"key-scheme":     withKeys("https://" + servedRegistry + "/v2/"),
		"key-dead-too":   withKeys(servedRegistry, servedRegistry+"/*"),
		"key-broken-too": withKeys(servedRegistry, "[::1"),
		"key-static":     withKeys(servedRegistry),
		"key-user":       withKeys("ci:" + canary.PasswordSecret + "@other.example"),
		"any-host": func(_ context.Context, req *plugin.Request) (*response, error) {
			resp, err := goodProvider(context.Background(), &plugin.Request{Image: servedRegistry + "/x"})
			resp.Auth = map[string]plugin.AuthConfig{req.Registry(): resp.Auth[servedRegistry]}
			return resp, err
		},
		"forever":      withCacheDuration(nil),
		"expired":      withCacheDuration(new(-time.Second)),
		"uncached":     withCacheDuration(new(time.Duration(0))),
		"microseconds": withCacheDuration(new(21600 * time.Nanosecond)),
		"two-days":     withCacheDuration(new(48 * time.Hour)),
		"empty": goodProviderExcept(func(_ *plugin.Request, resp *response) error {
			resp.Auth = nil
			return nil
		}),
		"empty-global": goodProviderExcept(func(req *plugin.Request, resp *response) error {
			if resp.CacheKeyType = plugin.CacheGlobal; req.Registry() != servedRegistry {
				resp.Auth = nil
			}
			return nil
		}),
		"image-password": goodWithOtherCredential(func(req *plugin.Request, auth *plugin.AuthConfig) {
			auth.Password = plugin.NewSecret(auth.Password.Reveal() + req.Image)
		}),
		"image-user": goodWithOtherCredential(func(req *plugin.Request, auth *plugin.AuthConfig) { auth.Username = req.Image }),
		"image-key": goodProviderExcept(func(req *plugin.Request, resp *response) error {
			resp.Auth = map[string]plugin.AuthConfig{req.Image: {Username: "ci", Password: plugin.NewSecret(canary.PasswordSecret)}}
			return nil
		}),
		"image-empty": goodProviderExcept(func(req *plugin.Request, resp *response) error {
			if req.Image != DefaultImage {
				resp.Auth = nil
			}
			return nil
		}),
		"global-one-key": func(_ context.Context, req *plugin.Request) (*response, error) {
			resp, err := goodProvider(context.Background(), &plugin.Request{Image: servedRegistry + "/x"})
			resp.CacheKeyType, resp.Auth = plugin.CacheGlobal, map[string]plugin.AuthConfig{req.Registry(): resp.Auth[servedRegistry]}
			return resp, err
		},
		"global": func(_ context.Context, _ *plugin.Request) (*response, error) {
			resp, err := goodProvider(context.Background(), &plugin.Request{Image: servedRegistry + "/x"})
			resp.CacheKeyType = plugin.CacheGlobal
			return resp, err
		},
		"one-image": goodProviderExcept(func(req *plugin.Request, resp *response) error {
			if req.Image != DefaultImage {
				return errors.New("no such repository")
			}
			return nil
		}),
		"rotating": goodWithOtherCredential(func(_ *plugin.Request, auth *plugin.AuthConfig) {
			auth.Password = plugin.NewSecret(auth.Password.Reveal() + rand.Text())
		}),
		"renewing": goodWithOtherCredential(func(_ *plugin.Request, auth *plugin.AuthConfig) { // has a new password from the first run without HOME on
			if os.Getenv("HOME") == "" {
				os.WriteFile(os.Getenv(stateVar), nil, 0o600)
			}
			if _, err := os.Stat(os.Getenv(stateVar)); err == nil {
				auth.Password = plugin.NewSecret(auth.Password.Reveal() + "-2")
			}
		}),
		"anonymous-elsewhere": goodProviderExcept(func(_ *plugin.Request, resp *response) error {
			resp.Auth["*.*"] = plugin.AuthConfig{}
			return nil
		}),
		"random-key": goodProviderExcept(func(_ *plugin.Request, resp *response) error {
			resp.Auth[rand.Text()+".example"] = resp.Auth[servedRegistry]
			return nil
		}),
		"empty-user":     goodWithOtherCredential(func(_ *plugin.Request, auth *plugin.AuthConfig) { auth.Username = "" }),
		"empty-password": goodWithOtherCredential(func(_ *plugin.Request, auth *plugin.AuthConfig) { auth.Password = plugin.Secret{} }),
		"line-end": goodWithOtherCredential(func(_ *plugin.Request, auth *plugin.AuthConfig) {
			auth.Password = plugin.NewSecret(auth.Password.Reveal() + "\n")
		}),
		"padded-user": goodWithOtherCredential(func(_ *plugin.Request, auth *plugin.AuthConfig) { auth.Username = " ci" }),
		"token-echo": goodWithOtherCredential(func(req *plugin.Request, auth *plugin.AuthConfig) {
			if !req.ServiceAccountToken.IsZero() {
				auth.Password = req.ServiceAccountToken
			}
		}),
		"token-needed": goodProviderExcept(func(req *plugin.Request, _ *response) error {
			if req.ServiceAccountToken.IsZero() {
				return errors.New("a service-account token is needed")
			}
			return nil
		}),
		"token-refused": goodProviderExcept(func(req *plugin.Request, _ *response) error {
			if !req.ServiceAccountToken.IsZero() {
				return errors.New("the token service says 400")
			}
			return nil
		}),
		"annotations-need-token": goodProviderExcept(func(req *plugin.Request, resp *response) error {
			if req.ServiceAccountToken.IsZero() && len(req.ServiceAccountAnnotations) > 0 {
				os.Stdout.WriteString("no token for role\n")
			}
			return nil
		}),
		"stderr-password": goodProviderExcept(func(_ *plugin.Request, resp *response) error {
			fmt.Fprintf(os.Stderr, "got %s\n", resp.Auth[servedRegistry].Password.Reveal())
			return nil
		}),
		"stderr-token": goodProviderExcept(func(req *plugin.Request, _ *response) error {
			basic := base64.StdEncoding.EncodeToString([]byte("0000:" + req.ServiceAccountToken.Reveal()))
			if !req.ServiceAccountToken.IsZero() {
				fmt.Fprintln(os.Stderr, "Authorization: Basic", basic)
			}
			return nil
		}),
		"stderr-verbose": goodProviderExcept(func(*plugin.Request, *response) error {
			for i := range 200 {
				fmt.Fprintf(os.Stderr, "line %d of a log that nobody asked for\n", i)
			}
			return nil
		}),
		"needs-setting": goodProviderExcept(func(*plugin.Request, *response) error {
			if os.Getenv("SETTING") == "" {
				return errors.New("SETTING is not set")
			}
			return nil
		}),
		"needs-proxy": goodProviderExcept(func(*plugin.Request, *response) error {
			if os.Getenv("https_proxy") == "" {
				return errors.New("the real cloud would be asked")
			}
			return nil
		}),
		"needs-home": goodProviderExcept(func(*plugin.Request, *response) error {
			_, err := os.UserHomeDir()
			return err
		}),
		"home-decides": goodWithOtherCredential(func(_ *plugin.Request, auth *plugin.AuthConfig) { auth.Username += os.Getenv("HOME") }),
		"needs-file": goodProviderExcept(func(*plugin.Request, *response) error {
			_, err := os.Stat("settings.json")
			return err
		}),
		"writes-file": goodProviderExcept(func(*plugin.Request, *response) error {
			return os.WriteFile("cache.json", nil, 0o600)
		}),
		"writes-temp": goodProviderExcept(func(*plugin.Request, *response) error {
			f, err := os.CreateTemp("", "token-")
			if err == nil {
				f.Close()
			}
			return err
		}),
		"throttled": goodProviderExcept(func(*plugin.Request, *response) error { return failAfterRuns(6) }),
		"drifting": goodProviderExcept(func(_ *plugin.Request, resp *response) error {
			if failAfterRuns(6) != nil {
				resp.CacheKeyType = plugin.CacheImage
			}
			return nil
		}),
		"fork": goodProviderExcept(func(req *plugin.Request, _ *response) error {
			if req.APIVersion != plugin.V1Alpha1 {
				return nil
			}
			self, _ := os.Executable()
			child := exec.Command(self)
			child.Env = append(os.Environ(), modeVar+"=child")
			child.Stdout = os.Stdout
			return child.Start()
		}),
	}
}

// failAfterRuns returns an error if it is called more than most times.
func failAfterRuns(most int64) error {
	f, err := os.OpenFile(os.Getenv(stateVar), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	f.WriteString("x")
	if end, err := f.Seek(0, io.SeekCurrent); err != nil || end > most { // end is the offset after this call's own output
		return errors.New("the token service says 429")
	}
	return nil
}

// readRequest decodes standard input without checking it.
func readRequest() (raw []byte, version, image string) {
	raw, _ = io.ReadAll(os.Stdin)
	var req struct{ APIVersion, Image string }
	json.Unmarshal(raw, &req)
	return raw, req.APIVersion, req.Image
}

// printResponse prints the response of good in a version, with the text old replaced by new.
func printResponse(version, old, new string) int {
	os.Stdout.WriteString(strings.Replace(strings.Replace(okResponse, "VERSION", version, 1), old, new, 1))
	return 0
}

// pluginPrinting returns a plugin that responds in the version of the request, with the text
// old in the response replaced by new.
func pluginPrinting(old, new string) func() int {
	return func() int {
		_, version, _ := readRequest()
		return printResponse(version, old, new)
	}
}

func blockForever() int {
	for {
		time.Sleep(time.Hour)
	}
}

func failingPlugin(w io.Writer, text string) func() int {
	return func() int {
		readRequest()
		io.WriteString(w, text)
		return 1
	}
}

// onInvalidInput returns a plugin that calls f for input that is not a request. Otherwise the plugin
// is correct.
func onInvalidInput(f func() int) func() int {
	return func() int {
		raw, _, _ := readRequest()
		if !isRequest(raw) {
			return f()
		}
		return serveRequest(goodProvider, raw)
	}
}

// isRequest reports whether a correct plugin accepts stdin as a request.
func isRequest(stdin []byte) bool {
	return plugin.Serve(context.Background(), plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) {
		return &plugin.Response{CacheKeyType: plugin.CacheImage}, nil
	}), plugin.ServeOptions{Stdin: bytes.NewReader(stdin), Stdout: io.Discard, Stderr: io.Discard, Args: []string{"get-credentials"}}) == 0
}

func serveRequest(p plugin.ProviderFunc, stdin []byte) int {
	return plugin.Serve(context.Background(), p, plugin.ServeOptions{Stdin: bytes.NewReader(stdin)})
}

// testPrograms returns the plugins that read or write their streams in an unusual way.
func testPrograms() map[string]func() int {
	return map[string]func() int{
		"login":       func() int { readRequest(); return outOfTreeResponse("", "") },
		"login-alone": outOfTreeOnly,
		"login-until": func() int {
			readRequest()
			return outOfTreeResponse(`"}`, `","expirationTimestamp":"2001-01-01T00:00:00Z"}`)
		},
		"login-half":      func() int { readRequest(); return outOfTreeResponse(canary.PasswordSecret, "") },
		"login-field":     func() int { readRequest(); return outOfTreeResponse(`{`, `{"email":"ci@registry.example",`) },
		"login-then-fail": func() int { readRequest(); outOfTreeResponse("", ""); return 1 },
		"login-and-tell": func() int {
			readRequest()
			fmt.Fprintln(os.Stderr, "got", canary.PasswordSecret)
			return outOfTreeResponse("", "")
		},
		"only-today":       currentProtocolOnly,
		"with-flags":       withFlags,
		"argument-refused": withArgument(func() int { fmt.Fprintln(os.Stderr, "Usage:\n  plugin [flags]"); return 1 }),
		"argument-login":   withArgument(func() int { return outOfTreeResponse("", "") }),
		"argument-other":   withArgument(func() int { return printResponse(plugin.V1, `"ci"`, `"other"`) }),
		"argument-garbage": withArgument(func() int { fmt.Println("ok"); return 0 }),
		"argument-hang":    withArgument(blockForever),
		"lenient":          func() int { readRequest(); return printResponse(plugin.V1, "", "") },
		"always-beta":      func() int { readRequest(); return printResponse(plugin.V1Beta1, "", "") },
		"hang":             blockForever,
		"hang-on-bad":      onInvalidInput(blockForever),
		"quiet-on-bad":     onInvalidInput(func() int { return 0 }),
		"mute-on-bad":      onInvalidInput(func() int { return 1 }),
		"panic-on-bad":     onInvalidInput(func() int { panic("index out of range") }),
		"python-on-bad": onInvalidInput(func() int {
			fmt.Fprintln(os.Stderr, "Traceback (most recent call last):\n  File \"plugin.py\", line 3\nKeyError: 'image'")
			return 1
		}),
		"die-on-bad": onInvalidInput(func() int {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			return blockForever()
		}),
		"strict": func() int {
			raw, _, _ := readRequest()
			dec := json.NewDecoder(bytes.NewReader(raw))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&struct{ Kind, APIVersion, Image, ServiceAccountToken string }{}); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			return serveRequest(goodProvider, raw)
		},
		"guess": func() int { // returns a different response if the request has an unknown field
			raw, _, _ := readRequest()
			if bytes.Contains(raw, []byte("futureField")) {
				return printResponse(plugin.V1, `"ci"`, `"other"`)
			}
			return serveRequest(goodProvider, raw)
		},
		"log-on-stdout": func() int {
			fmt.Println("level=info msg=starting")
			return pluginPrinting("", "")()
		},
		"nothing":            func() int { readRequest(); return 0 },
		"unknown-field":      pluginPrinting(`"auth"`, `"expires":"soon","auth"`),
		"duration-number":    pluginPrinting(`"10m0s"`, `600`),
		"wrong-kind":         pluginPrinting("ProviderResponse", "ProviderRequest"),
		"wrong-case":         pluginPrinting("cacheKeyType", "cacheKeytype"),
		"no-cache-key":       pluginPrinting(`"cacheKeyType":"Registry",`, ""),
		"service-account":    pluginPrinting(`"Registry"`, `"ServiceAccount"`),
		"flood":              func() int { return pluginPrinting("ci", strings.Repeat("x", 1<<20))() },
		"answer-and-fail":    func() int { _, v, _ := readRequest(); printResponse(v, "", ""); return 1 },
		"error-on-stdout":    failingPlugin(os.Stdout, "cannot reach the metadata service\n"),
		"usage":              failingPlugin(os.Stderr, "Error: no region\nUsage:\n  plugin [flags]\n\nFlags:\n  -h, --help\n"),
		"trace":              failingPlugin(os.Stderr, "panic: no region\n\ngoroutine 1 [running]:\nmain.main()\n"),
		"token-guess":        tokenGuess,
		"panic-on-no-token":  panicOnNoToken,
		"hang-on-no-token":   hangOnNoToken,
		"hang-on-big":        hangOnLargeRequest,
		"crash-on-big":       crashOnLargeRequest,
		"panic-on-big":       panicOnLargeRequest,
		"ignore-term":        ignoreTerm,
		"child":              runChild,
		"password-then-fail": passwordThenFail,
	}
}

// outOfTreeResponse prints a response of the out-of-tree protocol, with the text old replaced
// by new.
func outOfTreeResponse(old, new string) int {
	os.Stdout.WriteString(strings.Replace(`{"username":"ci","password":"`+canary.PasswordSecret+`"}`, old, new, 1))
	return 0
}

// outOfTreeOnly is a plugin that supports only the out-of-tree protocol. It does not reject
// duplicate images.
func outOfTreeOnly() int {
	raw, _, _ := readRequest()
	if bytes.Contains(raw, []byte("kind")) {
		fmt.Fprintln(os.Stderr, "this is no request of the predecessor's")
		return 1
	}
	return outOfTreeResponse("", "")
}

// currentProtocolOnly is a plugin like good that does not support the out-of-tree protocol.
func currentProtocolOnly() int {
	raw, version, _ := readRequest()
	if version == "" {
		fmt.Fprintln(os.Stderr, "apiVersion is missing")
		return 1
	}
	return serveRequest(goodProvider, raw)
}

// withFlags is a plugin like good that also accepts get-credentials after its flags.
func withFlags() int {
	raw, _, _ := readRequest()
	args := slices.DeleteFunc(os.Args[1:], func(arg string) bool { return strings.HasPrefix(arg, "-") })
	return plugin.Serve(context.Background(), plugin.ProviderFunc(goodProvider), plugin.ServeOptions{Stdin: bytes.NewReader(raw), Args: args})
}

// withArgument returns a plugin that calls f if it has an argument. Otherwise it is like good.
func withArgument(f func() int) func() int {
	return func() int {
		raw, _, _ := readRequest()
		if len(os.Args) > 1 {
			return f()
		}
		return serveRequest(goodProvider, raw)
	}
}

func tokenGuess() int {
	raw, version, _ := readRequest()
	var req struct{ ServiceAccountToken string }
	json.Unmarshal(raw, &req)
	if req.ServiceAccountToken == "" {
		return printResponse(version, "", "")
	}
	return printResponse(version, canary.PasswordSecret, req.ServiceAccountToken)
}

func panicOnNoToken() int {
	raw, version, _ := readRequest()
	if !bytes.Contains(raw, []byte("serviceAccountToken")) {
		panic("no token")
	}
	return printResponse(version, "", "")
}

func hangOnNoToken() int {
	raw, version, _ := readRequest()
	if !bytes.Contains(raw, []byte("serviceAccountToken")) {
		return blockForever()
	}
	return printResponse(version, "", "")
}

func hangOnLargeRequest() int {
	raw, version, _ := readRequest()
	if len(raw) > 1<<20 {
		return blockForever()
	}
	return printResponse(version, "", "")
}

func crashOnLargeRequest() int {
	raw, version, _ := readRequest()
	if len(raw) > 1<<20 {
		return printResponse(version, "}", "")
	}
	return printResponse(version, "", "")
}

func panicOnLargeRequest() int {
	raw, version, _ := readRequest()
	if len(raw) > 1<<20 {
		panic("makeslice: len out of range")
	}
	return printResponse(version, "", "")
}

func ignoreTerm() int {
	signal.Ignore(syscall.SIGTERM)
	raw, _, _ := readRequest()
	return serveRequest(goodProvider, raw)
}

// runChild keeps standard output open until the test releases the lock of lockForChild.
func runChild() int {
	if f, err := os.Open(os.Getenv(stateVar)); err == nil {
		syscall.Flock(int(f.Fd()), syscall.LOCK_SH)
	}
	return 0
}

// passwordThenFail is a plugin that prints its password to standard error when it rejects a
// request.
func passwordThenFail() int {
	raw, _, _ := readRequest()
	if !isRequest(raw) {
		fmt.Fprintln(os.Stderr, "no use for", canary.PasswordSecret)
		return 1
	}
	return serveRequest(goodProvider, raw)
}

func runTestPlugin(mode string) int {
	if program := testPrograms()[mode]; program != nil {
		return program()
	}
	p := testProviders()[mode]
	if p == nil {
		fmt.Fprintf(os.Stderr, "there is no plugin %q\n", mode)
		return 99
	}
	plugin.Main(p)
	return 0
}
