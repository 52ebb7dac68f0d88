// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package client sends requests to the node's credential service ("regcred serve") on its unix
// socket. Programs call it before they run a plugin. Every error means that the caller must run
// the plugin itself, so the service is never a new way to fail:
//
//	s := client.New(os.Getenv)
//	resp, byService, err := client.CallWithFallback(ctx, time.Minute,
//		func(ctx context.Context) (*plugin.Response, error) { return s.Credentials(ctx, selector, req) },
//		func(ctx context.Context) (*plugin.Response, error) { return command.GetCredentials(ctx, req) })
//
// The HTTP/1.1 client is written by hand, because package net/http would double the start time
// of the programs that use it.
package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// DefaultSocket is the path of the service's socket.
const DefaultSocket = "/run/regcred/regcred.sock"

// SocketEnv is the environment variable with the path of the socket. The value [SocketNone]
// disables the service.
const SocketEnv = "REGCRED_SOCKET"

// SocketNone is the value of [SocketEnv] for programs that must not call the service. The service
// sets it for its plugins, because a plugin that called the service would wait for itself.
const SocketNone = "none"

// Headers of requests and responses.
const (
	HeaderEntry        = "Regcred-Entry"         // name of the kubelet's provider entry that the dispatcher serves
	HeaderGeneration   = "Regcred-Generation"    // directory of the dispatcher's current generation
	HeaderProvider     = "Regcred-Provider"      // name of a single provider
	HeaderProviderHash = "Regcred-Provider-Hash" // see [ProviderHash]
	HeaderConfig       = "Regcred-Config"        // configuration that the client would use
	HeaderBinDir       = "Regcred-Bin-Dir"       // plugin directory that the client would use
	HeaderFailed       = "Regcred-Failed"        // number of providers that failed, if another one returned a credential
)

const (
	// FirstByteTimeout limits the time until the first byte of a response. The service sends an
	// interim response if it has to run a plugin.
	FirstByteTimeout = 50 * time.Millisecond

	maxFirstByteTimeout = 2 * time.Second // while the machine is overloaded

	// HeartbeatInterval is the time between two interim responses while a plugin runs.
	HeartbeatInterval = time.Second

	// silenceTimeout is the time without an interim response after which the service is
	// considered stopped. It is longer than the interval, because a node can be overloaded.
	silenceTimeout = 4 * HeartbeatInterval

	maxHeaderBytes = 64 << 10
	maxBodyBytes   = 4 << 20
)

// Service is the service at a socket. The zero value and nil are a service that does not exist.
type Service struct {
	Socket string // path of the socket
}

// New returns the service that the environment selects.
func New(getenv func(string) string) *Service {
	switch socket := getenv(SocketEnv); socket {
	case "":
		return &Service{DefaultSocket}
	case SocketNone:
		return nil
	default:
		return &Service{socket}
	}
}

// Exists reports whether there is a file at the socket's path.
func (s *Service) Exists() bool {
	if s == nil || s.Socket == "" {
		return false
	}
	_, err := os.Lstat(s.Socket)
	return err == nil
}

// ErrUnavailable is wrapped by errors of a service that does not exist, does not respond in
// time or was stopped.
var ErrUnavailable = errors.New("the credential service is unavailable")

// StatusError is the error of a response whose status is not 200.
type StatusError struct {
	Status  int
	Message string // the service's error message, without secrets
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the credential service returned status %d: %s", e.Status, e.Message)
}

// request is a request with a JSON body.
type request struct {
	path   string
	header []string // alternating names and values; empty values are omitted
	body   []byte
}

// response is a complete response.
type response struct {
	status int
	header map[string]string // names in lower case
	body   []byte
}

// do sends a request and waits for the final response. If ctx has no deadline, it waits for as long
// as the service sends interim responses.
func (s *Service) do(ctx context.Context, r request) (*response, error) {
	if s == nil || s.Socket == "" {
		return nil, ErrUnavailable
	}
	resp, err := s.exchange(ctx, r)
	if err != nil {
		if errors.Is(err, ErrUnavailable) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %s: %w", ErrUnavailable, s.Socket, err)
	}
	return resp, nil
}

func (s *Service) exchange(ctx context.Context, r request) (*response, error) {
	head, err := r.head()
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Deadline: time.Now().Add(maxFirstByteTimeout)} // a unix socket is connected at once, or not at all
	conn, err := d.DialContext(ctx, "unix", s.Socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := checkServer(conn.(*net.UnixConn)); err != nil {
		return nil, err
	}
	if err := conn.SetWriteDeadline(time.Now().Add(maxFirstByteTimeout)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(append(head, r.body...)); err != nil {
		return nil, err
	}
	return readResponse(conn)
}

// awaitFirstByte waits for the first byte of the response. It waits longer while the machine is
// overloaded, because running another plugin would increase the load.
func awaitFirstByte(conn net.Conn, r *bufio.Reader) error {
	end := time.Now().Add(maxFirstByteTimeout)
	for {
		if err := conn.SetReadDeadline(time.Now().Add(FirstByteTimeout)); err != nil {
			return err
		}
		_, err := r.Peek(1)
		switch {
		case err == nil || !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case !isOverloaded() || time.Now().After(end):
			return fmt.Errorf("no response within %v", FirstByteTimeout)
		}
	}
}

// isOverloaded reports whether several processes wait for each CPU. It returns false if that is
// unknown.
func isOverloaded() bool {
	data, err := os.ReadFile("/proc/loadavg") // "0.20 0.18 0.12 3/80 11206"
	fields := strings.Fields(string(data))
	if err != nil || len(fields) < 4 {
		return false
	}
	runnable, _, _ := strings.Cut(fields[3], "/")
	n, err := strconv.Atoi(runnable)
	return err == nil && n > 3*runtime.NumCPU()
}

// head returns the request line and the headers.
func (r request) head() ([]byte, error) {
	b := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", r.path, len(r.body))
	for i := 0; i < len(r.header); i += 2 {
		name, value := r.header[i], r.header[i+1]
		if value == "" {
			continue
		}
		if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return nil, fmt.Errorf("header %s: invalid value", name)
		}
		b = fmt.Appendf(b, "%s: %s\r\n", name, value)
	}
	return append(b, "\r\n"...), nil
}

// readResponse reads interim responses and the final response.
func readResponse(conn net.Conn) (*response, error) {
	all := &io.LimitedReader{R: conn, N: maxHeaderBytes}
	r := bufio.NewReader(all)
	if err := awaitFirstByte(conn, r); err != nil {
		return nil, err
	}
	for {
		if err := conn.SetReadDeadline(time.Now().Add(silenceTimeout)); err != nil {
			return nil, err
		}
		resp, err := readHead(r)
		if err != nil {
			return nil, err
		}
		if resp.status < 200 {
			all.N = maxHeaderBytes
			continue
		}
		size, err := strconv.Atoi(resp.header["content-length"])
		if err != nil || size < 0 || size > maxBodyBytes {
			return nil, errors.New("invalid response: Content-Length")
		}
		all.N = int64(size)
		resp.body = make([]byte, size)
		if _, err := io.ReadFull(r, resp.body); err != nil {
			return nil, fmt.Errorf("read the response: %w", err)
		}
		return resp, nil
	}
}

// readHead reads a status line and headers.
func readHead(r *bufio.Reader) (*response, error) {
	line, err := readLine(r)
	if err != nil {
		return nil, err
	}
	version, status, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(status, " ")
	resp := &response{header: map[string]string{}}
	if resp.status, err = strconv.Atoi(code); version != "HTTP/1.1" || err != nil || resp.status < 100 || resp.status > 599 {
		return nil, errors.New("invalid response: status line")
	}
	for {
		if line, err = readLine(r); err != nil || line == "" {
			return resp, err
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, errors.New("invalid response: header")
		}
		resp.header[strings.ToLower(name)] = strings.TrimSpace(value)
	}
}

func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n') // fails if the line is longer than the buffer
	if err != nil {
		return "", fmt.Errorf("read the response: %w", err)
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}
