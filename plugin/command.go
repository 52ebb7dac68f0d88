// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// DefaultTimeout bounds one run of a plugin, as in the kubelet
// (pkg/credentialprovider/plugin/plugin.go).
const DefaultTimeout = time.Minute

// DefaultMaxOutput is how much standard output of a plugin is read, in bytes.
// The kubelet has no bound.
const DefaultMaxOutput = 1 << 20

// Command runs a plugin as a kubelet does. It is itself a [Provider], and
// safe for concurrent use. It prints as its name alone, and no encoder of the
// standard library writes it, since the values of Args and Env are secrets. But
// they are text in exported fields: package fmt prints those of a Command in
// an unexported field of another struct, and go-cmp any.
//
// The zero value is not usable: Path and APIVersion are required.
type Command struct {
	// Path is the executable. It is never searched for in PATH: a name
	// without a separator means a file in the working directory. A relative
	// path is relative to Dir. On Windows the extensions of PATHEXT are tried.
	Path string

	// Name is used in errors; the base name of Path by default.
	Name string

	// Args are the arguments after the program name. In [OutOfTree] the
	// plugin gets get-credentials before them.
	Args []string

	// Environ is the environment that the plugin inherits, as "key=value";
	// nil means that of this process. Env is appended to it, so its entries win.
	Environ []string
	Env     []string

	// Place says where Args[index] (of the field "args") or Env[index] ("env")
	// comes from, such as "config.yaml:12". It stands behind that name where
	// the value is masked in standard error. nil or "" says nothing. It must be
	// safe for concurrent use.
	Place func(field string, index int) string

	// Dir is the working directory; "" means that of this process.
	Dir string

	// APIVersion is the version to speak: [V1], [V1Beta1], [V1Alpha1] or
	// [OutOfTree].
	APIVersion string

	// Timeout bounds one run; 0 means [DefaultTimeout].
	Timeout time.Duration

	// MaxOutput bounds standard output in bytes; 0 means [DefaultMaxOutput].
	MaxOutput int

	// Grace is how long a plugin is given to end by itself after SIGTERM, when
	// its deadline or the end of ctx has come, before it is killed. 0 means
	// that it is killed at once, as by a kubelet, and so it is on Windows.
	Grace time.Duration
}

// Exchange is one run of a plugin as its host saw it.
type Exchange struct {
	Stdin    Secret        // the request, as sent
	Stdout   Secret        // the answer, as received, up to MaxOutput
	Stderr   string        // bounded head and tail of standard error, scrubbed
	ExitCode int           // -1 if the plugin did not exit by itself
	Started  time.Time     // when the process was started
	Duration time.Duration // until the answer was complete or the run had failed
	Response *Response     // the answer; nil if the run failed

	// StderrSecret says that the request's token, or a secret of at least 4
	// bytes in the answer, had to be removed from Stderr. One of less than 8
	// counts where it stands as a word.
	StderrSecret bool

	// Lingering says that the plugin exited and something that it had started
	// still held its output. A kubelet waits for that without a bound.
	Lingering bool
}

// GetCredentials runs the plugin once and returns its answer. One in
// [OutOfTree] has its credential under a key that matches the image.
// Errors are of type [*ExecError].
func (c Command) GetCredentials(ctx context.Context, req *Request) (*Response, error) {
	x, err := c.Run(ctx, req)
	if err != nil {
		return nil, err
	}
	return x.Response, nil
}

// Run runs the plugin once. The Exchange is returned with an error too, as
// far as the run got; errors are of type [*ExecError].
//
// The deadline and ctx hold whatever the plugin does: then its process group
// is killed, after Grace if that is set, and Run returns, as it does when the
// plugin writes more than MaxOutput. (On Windows the plugin alone is killed.)
// In every other case what the plugin started lives on, and what it still
// writes is read and dropped until it closes its end. That is so for the last
// 32 plugins of this process that left something behind, or fewer where
// descriptors are short; what an earlier one left gets SIGPIPE when it writes.
//
// Standard error is scrubbed of the request's token, of every password
// returned, and of the values of Env and Args that have at least 8 bytes and
// are no part of the image, except absolute paths of flags whose name ends in
// -file. Where an answer is no JSON, what stands in quotes
// there counts as those do, and so do words with a digit. The mask of a value says
// which it is, and its [Command.Place]: "[redacted: args[1]]". It is withheld as a whole from an answer with more
// than 1,000 secrets.
func (c Command) Run(ctx context.Context, req *Request) (*Exchange, error) {
	l, stop := c.limits(ctx)
	defer stop()
	return c.run(l, req)
}

// RunRaw is [Command.Run] with stdin in place of an encoded request, for those
// who examine a plugin: stdin may be anything, and the Exchange has no Stdin. A
// reader that blocks keeps the plugin's standard input open; when the run ends
// it is left behind, with the goroutine that reads it.
//
// The secrets are those in stdin. They count as a request's token does. With
// an empty APIVersion the answer is not read, and Response is nil: so programs
// with a protocol of their own are run. The credential of an answer in
// [OutOfTree] stands under the key "", as in [DecodeResponse].
func (c Command) RunRaw(ctx context.Context, stdin io.Reader, secrets ...Secret) (*Exchange, error) {
	l, stop := c.limits(ctx)
	defer stop()
	known := make([]string, len(secrets))
	for i, s := range secrets {
		known[i] = s.Reveal()
	}
	return c.record(func(x *Exchange) *failure { return c.exchange(l, stdin, known, "", x) })
}

// limits begins the time that a run has.
func (c Command) limits(ctx context.Context) (l limits, stop func() bool) {
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	deadline := time.NewTimer(timeout)
	return limits{ctx: ctx, deadline: deadline.C, timeout: timeout, maxOutput: c.maxOutput(), polite: c.Grace}, deadline.Stop
}

func (c Command) run(l limits, req *Request) (*Exchange, error) {
	sent := *req
	sent.APIVersion = c.APIVersion
	return c.record(func(x *Exchange) *failure {
		stdin, err := EncodeRequest(&sent)
		if err != nil {
			return &failure{StageStart, err}
		}
		x.Stdin = NewSecret(string(stdin))
		return c.exchange(l, bytes.NewReader(stdin), []string{sent.ServiceAccountToken.Reveal()}, sent.Image, x)
	})
}

// record returns what run has filled in, and how it failed.
func (c Command) record(run func(*Exchange) *failure) (*Exchange, error) {
	x := &Exchange{ExitCode: -1}
	begun := time.Now()
	failed := run(x)
	if x.Started.IsZero() {
		x.Duration = time.Since(begun)
	}
	if failed != nil {
		return x, &ExecError{Name: c.name(), Stage: failed.stage, ExitCode: x.ExitCode, Stderr: x.Stderr, Err: failed.err}
	}
	return x, nil
}

// exchange runs the plugin and fills x in, as far as it gets.
func (c Command) exchange(l limits, stdin io.Reader, secrets []string, image string, x *Exchange) *failure {
	p, failed := c.start(l)
	if failed != nil {
		return failed
	}
	x.Started = p.started
	failed = p.run(l, stdin)
	x.Duration = time.Since(x.Started)
	x.Lingering = (failed == nil || failed.stage == StageExec) && !closed(p.settled)
	stdout, stderr := p.release()
	if x.Lingering {
		left.add(p.pipes)
	}
	x.Stdout, x.ExitCode = NewSecret(string(stdout)), p.exitCode()
	switch {
	case failed == nil || c.APIVersion == "": // a program with a protocol of its own may mean anything
	case failed.stage == StageTimeout && !c.hasProxy():
		failed.err = fmt.Errorf("%w; if the network requires a proxy, set HTTPS_PROXY and NO_PROXY in the plugin's env", failed.err)
	case failed.stage == StageExec:
		failed.err = c.whyEnded(p.cmd.ProcessState, string(stdout), string(stderr.head)+string(stderr.tail))
	}
	if len(stderr.head) > 0 {
		inAnswer, maybe := answerSecrets(stdout)
		secrets = append(secrets, inAnswer...)
		x.StderrSecret = stderr.holds(secrets)
		x.Stderr = stderr.text(c.secrets(secrets, maybe, image))
	}
	if failed != nil || c.APIVersion == "" {
		return failed
	}
	x.Response, failed = c.answer(stdout, image)
	return failed
}

// answer reads what the plugin wrote about an image.
func (c Command) answer(stdout []byte, image string) (*Response, *failure) {
	resp, err := DecodeResponse(stdout, c.APIVersion)
	var invalid *DecodeError
	switch {
	case errors.As(err, &invalid):
		return nil, &failure{invalid.Stage, err}
	case !resp.CacheKeyType.Valid():
		// kubelet: checked after decoding, by the caller of ExecPlugin.
		msg := fmt.Sprintf("must be %s, %s or %s", CacheImage, CacheRegistry, CacheGlobal)
		if resp.CacheKeyType == "" {
			msg = "is missing; " + msg
		}
		return nil, &failure{StageCacheKeyType, decodeError(KindResponse, StageCacheKeyType, "cacheKeyType", msg)}
	}
	if auth, ok := resp.Auth[""]; ok && c.APIVersion == OutOfTree {
		resp.Auth = map[string]AuthConfig{imageKey(image): auth}
	}
	return resp, nil
}

// getCredentials is the argument that belongs to [OutOfTree], and that
// configurations of today's protocol pass too.
const getCredentials = "get-credentials"

func (c Command) args() []string {
	if c.APIVersion != OutOfTree {
		return c.Args
	}
	return append([]string{getCredentials}, c.Args...)
}

func (c Command) name() string {
	if c.Name != "" {
		return c.Name
	}
	return filepath.Base(c.Path)
}

func (c Command) maxOutput() int {
	if c.MaxOutput > 0 {
		return c.MaxOutput
	}
	return DefaultMaxOutput
}

// hasProxy reports whether the plugin is told of a proxy.
func (c Command) hasProxy() bool {
	return slices.ContainsFunc(c.environ(), func(entry string) bool {
		name, _, _ := strings.Cut(strings.ToLower(entry), "=")
		return name == "https_proxy" || name == "http_proxy"
	})
}

// environ is never nil, which os/exec would take for "inherit".
func (c Command) environ() []string {
	inherited := c.Environ
	if inherited == nil {
		inherited = os.Environ()
	}
	return append(append([]string{}, inherited...), c.Env...)
}
