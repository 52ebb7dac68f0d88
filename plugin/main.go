// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/regcred/regcred/internal/await"
	"github.com/regcred/regcred/internal/scrub"
)

// DefaultServeTimeout is how long [Serve] waits for a provider. It is below
// the kubelet's minute, so that the plugin can still say that it was too slow.
const DefaultServeTimeout = 50 * time.Second

// maxRequest bounds a request in bytes. The API server allows 256 KiB of
// annotations, of which JSON may write every byte as six.
const maxRequest = 2 << 20

// maxErrorLine bounds an error on standard error, in bytes. A kubelet logs it.
const maxErrorLine = 2 << 10

// The exit codes of a plugin.
const (
	exitOK     = 0
	exitFailed = 1 // the provider could not answer
	exitUsage  = 2 // standard input was not a request
)

// ServeOptions says how [Serve] runs a provider. The zero value is that of a
// plugin: the process's own streams and arguments.
type ServeOptions struct {
	Stdin  io.Reader // nil means os.Stdin
	Stdout io.Writer // nil means os.Stdout
	Stderr io.Writer // nil means os.Stderr

	// Args are the arguments after the program name; nil means os.Args[1:].
	// "--version" as the first prints Name and Version, and "get-credentials"
	// allows a request of [OutOfTree]; configurations of GKE and EKS pass it
	// with today's protocol, which it does not change. All others are ignored.
	// A program with flags parses them first.
	Args []string

	Name    string        // of the plugin; "" means the base name of os.Args[0]
	Version string        // "" means that of the main module
	Timeout time.Duration // bounds one run; 0 means [DefaultServeTimeout]
}

// Main turns p into a plugin: it calls [Serve] with the process's own streams
// and arguments, and exits. SIGTERM and an interrupt cancel the context.
func Main(p Provider) {
	// Not undone at the end, which takes longer than a small plugin runs.
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	os.Exit(Serve(ctx, p, ServeOptions{}))
}

// Serve reads one request, asks p, and writes one answer in the version of
// the request, whole or not at all. The answer to a request of [OutOfTree] is
// the credential of p's answer that a kubelet would try first for the image.
// Serve returns the exit code: 0 for an answer, 1 if there is none, 2 if
// standard input was not a request; then one line on standard error says why.
// It never waits longer than the timeout, or than ctx lasts, even if p does:
// call it last.
func Serve(ctx context.Context, p Provider, opts ServeOptions) int {
	opts = opts.withDefaults()
	if len(opts.Args) > 0 && (opts.Args[0] == "--version" || opts.Args[0] == "-version") {
		return opts.printVersion()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, opts.Timeout, fmt.Errorf("no response within %v", opts.Timeout))
	defer cancel()

	req, err := await.Result(ctx, "read the request", func() (*Request, error) { return opts.readRequest() })
	if err != nil {
		var invalid *DecodeError
		if errors.As(err, &invalid) {
			return opts.fail(exitUsage, err, nil)
		}
		return opts.fail(exitFailed, err, nil)
	}
	resp, err := await.Result(ctx, "get credentials", func() (*Response, error) { return p.GetCredentials(ctx, req) })
	if err == nil {
		err = writeResponse(opts.Stdout, req, resp)
	}
	if err != nil {
		return opts.fail(exitFailed, err, append(passwords(resp), req.ServiceAccountToken.Reveal()))
	}
	return exitOK
}

func (o ServeOptions) withDefaults() ServeOptions {
	if o.Stdin == nil {
		o.Stdin = os.Stdin
	}
	if o.Stdout == nil {
		o.Stdout = os.Stdout
	}
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	if o.Args == nil {
		o.Args = os.Args[1:]
	}
	if o.Name == "" {
		o.Name = filepath.Base(os.Args[0])
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultServeTimeout
	}
	return o
}

func (o ServeOptions) printVersion() int {
	if o.Version == "" {
		o.Version = "(devel)"
		if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
			o.Version = info.Main.Version
		}
	}
	if _, err := fmt.Fprintf(o.Stdout, "%s %s\n", o.Name, o.Version); err != nil {
		return exitFailed
	}
	return exitOK
}

// fail says on one line of standard error what went wrong. The line holds
// none of the secrets.
func (o ServeOptions) fail(code int, err error, secrets []string) int {
	line := oneLine(scrub.Text(err.Error(), secrets), maxErrorLine)
	fmt.Fprintf(o.Stderr, "%s: %s\n", o.Name, line)
	return code
}

// readRequest reads standard input to its end.
func (o ServeOptions) readRequest() (*Request, error) {
	data, err := io.ReadAll(io.LimitReader(o.Stdin, maxRequest+1))
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	if len(data) > maxRequest {
		return nil, decodeError(KindRequest, StageDecode, "", fmt.Sprintf("longer than %d bytes", maxRequest))
	}
	req, err := DecodeRequest(data)
	if err == nil && req.APIVersion == OutOfTree && (len(o.Args) == 0 || o.Args[0] != getCredentials) {
		return nil, decodeError(KindRequest, StageDecode, "kind", "must be "+KindRequest)
	}
	return req, err
}

// writeResponse checks an answer and writes it at one stroke.
func writeResponse(w io.Writer, req *Request, resp *Response) error {
	if resp == nil {
		return errNoAnswer
	}
	if !resp.CacheKeyType.Valid() {
		return fmt.Errorf("the provider's CacheKeyType must be %s, %s or %s", CacheImage, CacheRegistry, CacheGlobal)
	}
	answer := *resp
	answer.APIVersion = req.APIVersion
	if req.APIVersion == OutOfTree {
		answer.Auth = nil
		if auth, ok := firstFor(req.Image, resp.Auth); ok {
			answer.Auth = map[string]AuthConfig{"": auth}
		}
	}
	data, err := EncodeResponse(&answer)
	if err != nil {
		return err
	}
	n, err := w.Write(data)
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("write the response: %w", err)
	}
	return nil
}
