// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/diagnose"
	"github.com/regcred/regcred/internal/process"
	"github.com/regcred/regcred/internal/protocol"
)

// defaultMaxOutput limits standard output in bytes. The kubelet has no such limit.
const defaultMaxOutput = 1 << 20

// Command runs a plugin as the kubelet does. It implements [Provider] and is safe for
// concurrent use.
//
// The zero value is not valid: Path and APIVersion are required.
type Command struct {
	// Path is the executable. PATH is never searched: a name without a separator means a file
	// in the working directory. A relative path is relative to Dir. On Windows, the extensions
	// in PATHEXT are tried.
	Path string

	// Name is used in errors; "" means the base name of Path.
	Name string

	// Args are the arguments after the program name. See [NewSecrets]. With [OutOfTree],
	// get-credentials is inserted before them.
	Args []Secret

	// Environ is the environment that the plugin inherits, as "key=value".
	// nil means os.Environ.
	Environ []string

	// Env is appended to Environ and overrides it. Each entry has the form "key=value".
	Env []Secret

	// Place, if not nil, returns where Args[index] (field "args") or Env[index] (field "env")
	// is configured, such as "config.yaml:12", or "". If the value is redacted in standard
	// error, the result is printed there. Place must be safe for concurrent use.
	Place func(field string, index int) string

	// Dir is the working directory; "" means the current directory.
	Dir string

	// APIVersion is the version of the request: [V1], [V1Beta1], [V1Alpha1] or
	// [OutOfTree].
	APIVersion string

	// Timeout limits the duration of a run. 0 means one minute, as in the kubelet.
	Timeout time.Duration

	// MaxOutput limits standard output in bytes; 0 means 1 MiB.
	MaxOutput int

	// Grace is the time between SIGTERM and SIGKILL when the timeout expires or ctx is
	// done. 0 means SIGKILL immediately, as in the kubelet and on Windows.
	Grace time.Duration
}

// Format writes only the name of c, for every verb, because Environ may hold secrets.
func (c Command) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "plugin %q", c.displayName()) }

// Exchange describes one run of a plugin.
type Exchange struct {
	Stdin    Secret        // the request; empty for [Command.RunRaw]
	Stdout   Secret        // standard output, at most MaxOutput bytes
	Stderr   string        // the first and last 4 KiB of standard error, redacted
	ExitCode int           // -1 if the plugin did not exit on its own
	Started  time.Time     // when the process was started
	Duration time.Duration // time until the response was complete or the run failed
	Response *Response     // nil if the run failed

	// StderrSecret reports whether the plugin's standard error contained the request's token or
	// a secret of the response. Stderr contains a mask instead. Secrets shorter than 4 bytes
	// are ignored. Secrets shorter than 8 bytes are found only as whole words.
	StderrSecret bool

	// Lingering reports whether a child process still held the plugin's output after the plugin
	// had exited. The kubelet waits for such a process.
	Lingering bool
}

// GetCredentials runs the plugin once and returns its response. For [OutOfTree], the response
// has an auth key that matches the image of the request. Errors are of type [*ExecError].
func (c Command) GetCredentials(ctx context.Context, req *Request) (*Response, error) {
	x, err := c.Run(ctx, req)
	if err != nil {
		return nil, err
	}
	return x.Response, nil
}

// Run runs the plugin once. The Exchange is never nil, even if there is an error. Errors are of
// type [*ExecError].
//
// Deadline: Run kills the plugin's process group (on Windows only the plugin) when Timeout has
// passed, when ctx is done, or when the plugin writes more than MaxOutput. It then returns,
// whatever the plugin does.
//
// Child processes: if the plugin exits by itself, its child processes continue to run. Their
// output is discarded. After ten minutes their next write fails with SIGPIPE.
//
// Redaction: in standard error, each of the following values is replaced by a mask such as
// "[redacted: args[1]]", which names the value and its Place:
//   - the request's token and every password of the response;
//   - values of Env and Args with at least 8 bytes that are not part of the
//     image, except absolute paths of flags whose name ends in -file;
//   - in output that is not JSON, text in quotes and words with a digit.
//
// If a response has more than 1,000 secrets, standard error is omitted.
func (c Command) Run(ctx context.Context, req *Request) (*Exchange, error) {
	sent := *req
	sent.APIVersion = c.APIVersion
	stdin, err := EncodeRequest(&sent)
	if err != nil {
		x := &Exchange{ExitCode: -1}
		return x, c.execError(x, StageStart, err)
	}
	x, err := c.run(ctx, bytes.NewReader(stdin), []string{sent.ServiceAccountToken.Reveal()}, sent.Image)
	x.Stdin = NewSecret(string(stdin))
	return x, err
}

// RunRaw is like [Command.Run], but with any standard input. It is for tests of plugins. The
// secrets in stdin are redacted like a request's token.
//
// A stdin that blocks does not delay the end of the run, but the goroutine that reads it
// remains. If APIVersion is empty, the response is not decoded. The key of an [OutOfTree]
// response is "", as in [DecodeResponse].
func (c Command) RunRaw(ctx context.Context, stdin io.Reader, secrets ...Secret) (*Exchange, error) {
	return c.run(ctx, stdin, revealAll(secrets), "")
}

func (c Command) run(ctx context.Context, stdin io.Reader, secrets []string, image string) (*Exchange, error) {
	res, err := c.processCommand().Run(ctx, stdin)
	x := &Exchange{
		Stdout:    NewSecret(string(res.Stdout)),
		ExitCode:  res.ExitCode(),
		Started:   res.Started,
		Duration:  res.Duration,
		Lingering: res.ChildHoldsOutput,
	}
	if len(res.Stderr.Head) > 0 {
		inResponse, maybe := responseSecrets(res.Stdout)
		secrets = append(secrets, inResponse...)
		x.StderrSecret = containsSecret(&res.Stderr, secrets)
		x.Stderr = redactStderr(&res.Stderr, c.secretsToRedact(secrets, maybe, image))
	}
	if failed, ok := errors.AsType[*process.Error](err); ok {
		return x, c.execError(x, processStages[failed.Reason], c.explainFailure(failed, res))
	}
	if c.APIVersion == "" {
		return x, nil
	}
	if x.Response, err = c.decodeOutput(res.Stdout, image); err != nil {
		return x, c.execError(x, err.(*decodeError).Stage, err)
	}
	return x, nil
}

// processCommand returns the program to run, with its arguments, environment and limits.
func (c Command) processCommand() process.Command {
	p := process.Command{
		Path: c.Path, Args: revealAll(c.Args), Environ: c.environ(), Dir: c.Dir,
		Timeout: c.Timeout, MaxOutput: c.MaxOutput, Grace: c.Grace,
	}
	if c.APIVersion == OutOfTree {
		p.Args = slices.Insert(p.Args, 0, getCredentialsArg)
	}
	if p.Timeout <= 0 {
		p.Timeout = protocol.KubeletTimeout
	}
	if p.MaxOutput <= 0 {
		p.MaxOutput = defaultMaxOutput
	}
	return p
}

// getCredentialsArg is the argument that [OutOfTree] requires. Some configurations for the
// kubelet's protocol also pass it.
const getCredentialsArg = "get-credentials"

func (c Command) environ() []string {
	inherited := c.Environ
	if inherited == nil {
		inherited = os.Environ()
	}
	return slices.Concat(inherited, revealAll(c.Env))
}

// processStages maps the failure reasons of package process to stages.
var processStages = map[process.FailureReason]Stage{
	process.ReasonNotStarted:    StageStart,
	process.ReasonExited:        StageExec,
	process.ReasonTimedOut:      StageTimeout,
	process.ReasonCanceled:      StageCanceled,
	process.ReasonOutputTooLong: StageOutput,
}

func (c Command) execError(x *Exchange, stage Stage, cause error) error {
	return &ExecError{Name: c.displayName(), Stage: stage, ExitCode: x.ExitCode, Stderr: x.Stderr, Err: cause}
}

// explainFailure returns the cause of a failed run, with a hint if possible. If APIVersion is
// empty, the program may not be a plugin, so there are no hints.
func (c Command) explainFailure(failed *process.Error, res *process.Result) error {
	switch {
	case c.APIVersion == "":
	case failed.Reason == process.ReasonTimedOut && !c.hasProxy():
		return fmt.Errorf("%w; if the network requires a proxy, set HTTPS_PROXY and NO_PROXY in the plugin's env", failed.Err)
	case failed.Reason == process.ReasonExited:
		exit := diagnose.FailedExit{
			State: res.State.String(), Code: res.ExitCode(),
			Stdout: string(res.Stdout), Stderr: string(res.Stderr.Head) + string(res.Stderr.Tail),
			APIVersion: c.APIVersion, FindFlag: c.findFlag,
		}
		if why := exit.Explain(); why != "" {
			return fmt.Errorf("%w: %s", failed.Err, why)
		}
	}
	return failed.Err
}

// findFlag returns the name and Place of the argument that contains the flag, such as "args[1],
// config.yaml:12". It returns "" if Args do not contain the flag.
func (c Command) findFlag(flag string) string {
	i := slices.IndexFunc(c.Args, func(arg Secret) bool {
		name, _, _ := strings.Cut(arg.Reveal(), "=")
		return flag != "" && strings.HasPrefix(name, "-") && strings.TrimLeft(name, "-") == strings.TrimLeft(flag, "-")
	})
	if i < 0 {
		return ""
	}
	return c.describeValue("args", i)
}

// decodeOutput decodes the response for an image. Errors are of type *decodeError.
func (c Command) decodeOutput(stdout []byte, image string) (*Response, error) {
	resp, err := DecodeResponse(stdout, c.APIVersion)
	if err != nil {
		return nil, err
	}
	if !protocol.IsValidCacheKeyType(string(resp.CacheKeyType)) {
		// kubelet: the caller of ExecPlugin checks this after decoding.
		msg := fmt.Sprintf("must be %s, %s or %s", CacheImage, CacheRegistry, CacheGlobal)
		if resp.CacheKeyType == "" {
			msg = "is missing; " + msg
		}
		return nil, newDecodeError(protocol.KindResponse, StageCacheKeyType, "cacheKeyType", msg)
	}
	if auth, ok := resp.Auth[""]; ok && c.APIVersion == OutOfTree {
		resp.Auth = map[string]AuthConfig{authKeyForImage(image): auth}
	}
	return resp, nil
}

func (c Command) displayName() string { return cmp.Or(c.Name, filepath.Base(c.Path)) }

func (c Command) hasProxy() bool {
	return slices.ContainsFunc(c.environ(), func(entry string) bool {
		name, _, _ := strings.Cut(strings.ToLower(entry), "=")
		return name == "https_proxy" || name == "http_proxy"
	})
}
