// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package pluginhost runs plugins in another container than the controller, so that they cannot
// read the controller's API token. The containers share a Unix socket:
//
//	err := pluginhost.Serve(ctx, "/run/plugins/socket", func() (*config.Config, error) { … }, "/plugins")
//	…
//	provider := pluginhost.Client{Socket: "/run/plugins/socket"}.Provider("ecr-credential-provider")
//
// A request contains the input of a plugin, and the response its standard output. Both may contain
// secrets, and neither is logged.
package pluginhost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/plugin"
)

const (
	maxRequest  = 1 << 20
	maxResponse = 2 << 20
	timeout     = time.Minute // of a plugin's run, as in the kubelet
)

// versionHeader contains the apiVersion of the plugin's response.
const versionHeader = "Regcred-Api-Version"

// wireError is the body of a failed run.
type wireError struct {
	Stage    plugin.Stage `json:"stage"`
	ExitCode int          `json:"exitCode"`
	Stderr   string       `json:"stderr"` // redacted
	Error    string       `json:"error"`
}

// wireRequest is the body of a request.
type wireRequest struct {
	Image       string            `json:"image"`
	Token       string            `json:"token,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Serve listens on a Unix socket until ctx is done. load returns the current configuration: it is
// called for each request.
func Serve(ctx context.Context, socket string, load func() (*config.Config, error), binDir string) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           handler{load, binDir},
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}

type handler struct {
	load   func() (*config.Config, error)
	binDir string
}

// ServeHTTP runs a plugin: POST /NAME.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out, version, err := h.run(r)
	if err == nil {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set(versionHeader, version)
		_, _ = io.WriteString(w, out.Reveal()) // the client notices a short response
		return
	}
	e := wireError{Stage: plugin.StageStart, ExitCode: -1, Error: err.Error()}
	if failed, ok := errors.AsType[*plugin.ExecError](err); ok {
		e = wireError{failed.Stage, failed.ExitCode, failed.Stderr, fmt.Sprint(failed.Err)}
	}
	w.WriteHeader(http.StatusBadGateway)
	_ = json.NewEncoder(w).Encode(e)
}

func (h handler) run(r *http.Request) (stdout plugin.Secret, apiVersion string, err error) {
	if r.Method != http.MethodPost {
		return stdout, "", errors.New("the method must be POST")
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxRequest))
	if err != nil {
		return stdout, "", errors.New("the request is too large or incomplete")
	}
	var in wireRequest
	if json.Unmarshal(body, &in) != nil {
		return stdout, "", errors.New("the request is not JSON")
	}
	c, err := h.load()
	if err != nil {
		return stdout, "", err
	}
	i := slices.IndexFunc(c.Providers, func(p config.Provider) bool { return "/"+p.Name == r.URL.Path })
	if i < 0 {
		return stdout, "", errors.New("the provider is not configured")
	}
	command := c.Command(i, h.binDir)
	command.Timeout = timeout
	x, err := command.Run(r.Context(), &plugin.Request{Image: in.Image, ServiceAccountToken: plugin.NewSecret(in.Token), ServiceAccountAnnotations: in.Annotations})
	if err != nil {
		return stdout, "", err
	}
	return x.Stdout, command.APIVersion, nil
}

// Client sends requests to [Serve].
type Client struct{ Socket string }

// Provider returns a provider that runs a plugin in the other container.
func (c Client) Provider(name string) plugin.Provider {
	return plugin.ProviderFunc(func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
		return c.call(ctx, name, req)
	})
}

func (c Client) call(ctx context.Context, name string, req *plugin.Request) (*plugin.Response, error) {
	body, err := json.Marshal(wireRequest{req.Image, req.ServiceAccountToken.Reveal(), req.ServiceAccountAnnotations})
	if err != nil {
		return nil, err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://plugins/"+name, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", c.Socket)
	}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(post)
	if err != nil {
		return nil, fmt.Errorf("call the plugin container: %w", err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(regularfile.WithContext(ctx, resp.Body), maxResponse+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the plugin container's response: %w", err)
	case len(data) > maxResponse:
		return nil, fmt.Errorf("the plugin container's response is larger than %d bytes", maxResponse)
	case resp.StatusCode == http.StatusOK:
		return decode(data, resp.Header.Get(versionHeader), req)
	}
	var e wireError
	if json.Unmarshal(data, &e) != nil {
		return nil, fmt.Errorf("the plugin container returned HTTP status %d", resp.StatusCode)
	}
	return nil, &plugin.ExecError{Name: name, Stage: e.Stage, ExitCode: e.ExitCode, Stderr: e.Stderr, Err: errors.New(e.Error)}
}

// decode decodes a plugin's standard output like [plugin.Command].
func decode(stdout []byte, apiVersion string, req *plugin.Request) (*plugin.Response, error) {
	resp, err := plugin.DecodeResponse(stdout, apiVersion)
	if err != nil || apiVersion != plugin.OutOfTree {
		return resp, err
	}
	if auth, ok := resp.Auth[""]; ok {
		resp.Auth = map[string]plugin.AuthConfig{req.Image: auth}
	}
	return resp, nil
}
