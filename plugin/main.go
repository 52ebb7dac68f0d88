// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"cmp"
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
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/internal/scrub"
)

// maxRequestSize limits the size of a request in bytes. The API server allows 256 KiB of
// annotations, and JSON may encode one byte as six bytes.
const maxRequestSize = 2 << 20

// maxErrorLineLength limits the length of the error line in bytes, because the kubelet logs
// this line.
const maxErrorLineLength = 2 << 10

// The exit codes of a plugin.
const (
	exitOK     = 0
	exitFailed = 1 // the provider failed
	exitUsage  = 2 // standard input was not a valid request
)

// ServeOptions configures [Serve]. The zero value uses the process's streams and
// arguments.
type ServeOptions struct {
	Stdin  io.Reader // nil means os.Stdin
	Stdout io.Writer // nil means os.Stdout
	Stderr io.Writer // nil means os.Stderr

	// Args are the arguments after the program name. nil means os.Args[1:]. If the first
	// argument is "--version", Serve prints Name and Version. If it is "get-credentials", Serve
	// also accepts [OutOfTree] requests. Other arguments are ignored. A program with flags must
	// parse them first.
	Args []string

	Name    string        // "" means the base name of os.Args[0]
	Version string        // "" means the version of the main module
	Timeout time.Duration // limits one run; 0 means 50 seconds, which is less than the kubelet's limit of one minute
}

// Main calls [Serve] with the process's own streams and arguments, and exits.
// SIGTERM and SIGINT cancel the context.
func Main(p Provider) {
	// Do not call stop, because that takes longer than a small plugin runs.
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	os.Exit(Serve(ctx, p, ServeOptions{}))
}

// Serve reads one request and calls p. It writes one response in the version of the request, or
// nothing if there is an error. For [OutOfTree], the response is the credential that the
// kubelet would try first for the image.
//
// Serve returns the exit code: 0 after a response, 1 after a failure, 2 if standard input was
// not a valid request. It reports a failure as one line on standard error. Serve returns when
// the timeout expires or ctx is done, even if p has not returned. p then continues to run, so
// the program should exit soon.
func Serve(ctx context.Context, p Provider, opts ServeOptions) int {
	opts = opts.withDefaults()
	if len(opts.Args) > 0 && (opts.Args[0] == "--version" || opts.Args[0] == "-version") {
		return opts.printVersion()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, opts.Timeout, fmt.Errorf("no response within %v", opts.Timeout))
	defer cancel()

	req, err := await.Call(ctx, "read the request", func() (*Request, error) { return opts.readRequest() })
	if err != nil {
		code := exitFailed
		if _, invalid := errors.AsType[*decodeError](err); invalid {
			code = exitUsage
		}
		return opts.printError(code, err, nil)
	}
	resp, err := await.Call(ctx, "get credentials", func() (*Response, error) { return p.GetCredentials(ctx, req) })
	if err == nil {
		err = writeResponse(opts.Stdout, req, resp)
	}
	if err != nil {
		return opts.printError(exitFailed, err, append(responsePasswords(resp), req.ServiceAccountToken.Reveal()))
	}
	return exitOK
}

func (o ServeOptions) withDefaults() ServeOptions {
	o.Stdin = cmp.Or[io.Reader](o.Stdin, os.Stdin)
	o.Stdout = cmp.Or[io.Writer](o.Stdout, os.Stdout)
	o.Stderr = cmp.Or[io.Writer](o.Stderr, os.Stderr)
	o.Name = cmp.Or(o.Name, filepath.Base(os.Args[0]))
	if o.Args == nil {
		o.Args = os.Args[1:]
	}
	if o.Timeout <= 0 {
		o.Timeout = protocol.ServeTimeout
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

// printError prints err on one line on standard error, with secrets redacted.
func (o ServeOptions) printError(code int, err error, secrets []string) int {
	line := truncateToLine(scrub.Redact(err.Error(), secrets), maxErrorLineLength)
	fmt.Fprintf(o.Stderr, "%s: %s\n", o.Name, line)
	return code
}

func (o ServeOptions) readRequest() (*Request, error) {
	data, err := io.ReadAll(io.LimitReader(o.Stdin, maxRequestSize+1))
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	if len(data) > maxRequestSize {
		return nil, newDecodeError(protocol.KindRequest, StageDecode, "", fmt.Sprintf("longer than %d bytes", maxRequestSize))
	}
	req, err := decodeRequest(data)
	if err == nil && req.APIVersion == OutOfTree && (len(o.Args) == 0 || o.Args[0] != getCredentialsArg) {
		return nil, newDecodeError(protocol.KindRequest, StageDecode, "kind", "must be "+protocol.KindRequest)
	}
	return req, err
}

// writeResponse checks a response and writes it with a single Write.
func writeResponse(w io.Writer, req *Request, resp *Response) error {
	if resp == nil {
		return errNoResponse
	}
	if !protocol.IsValidCacheKeyType(string(resp.CacheKeyType)) {
		return fmt.Errorf("the provider's CacheKeyType must be %s, %s or %s", CacheImage, CacheRegistry, CacheGlobal)
	}
	sent := *resp
	sent.APIVersion = req.APIVersion
	if req.APIVersion == OutOfTree {
		sent.Auth = nil
		if auth, ok := firstCredential(req.Image, resp.Auth); ok {
			sent.Auth = map[string]AuthConfig{"": auth}
		}
	}
	data, err := encodeResponse(&sent, time.Now())
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

var errNoResponse = errors.New("the provider returned neither a response nor an error")

// responsePasswords returns the passwords in a response. resp may be nil.
func responsePasswords(resp *Response) []string {
	var list []string
	if resp != nil {
		for _, auth := range resp.Auth {
			list = append(list, auth.Password.Reveal())
		}
	}
	return list
}
