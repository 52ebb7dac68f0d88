// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package vector

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/kubelet"
)

// RequestVector is a vector of request.json.
type RequestVector struct {
	corpus.Request
	Bytes corpus.RawString `json:"bytes"`
}

func (a *VectorRunner) requestVector(r corpus.Request) (RequestVector, error) {
	exec, err := a.execPlugin(r.APIVersion)
	if err != nil {
		return RequestVector{}, err
	}
	data, err := exec.EncodeRequest(string(r.Image), r.Token, r.Annotations)
	if err == nil && a.Processes {
		err = a.checkRequest(exec, r, data)
	}
	return RequestVector{r, corpus.RawString(data)}, err
}

// checkRequest compares a request with the input of a real process.
func (a *VectorRunner) checkRequest(exec *kubelet.ExecPlugin, r corpus.Request, data []byte) error {
	if err := os.WriteFile(filepath.Join(a.execDirPath(), "stdout"), nil, 0o600); err != nil {
		return err
	}
	exec.Run(string(r.Image), r.Token, r.Annotations) // fails because the response is empty
	got, err := os.ReadFile(filepath.Join(a.execDirPath(), "stdin"))
	if err == nil && string(got) != string(data) {
		err = errors.New("a real process is given other bytes than encodeRequest returns")
	}
	return err
}

// ResponseVector is a vector of response.json.
type ResponseVector struct {
	corpus.Response
	Decoded *kubelet.Response `json:"decoded"` // null if the response is rejected
}

func (a *VectorRunner) responseVector(r corpus.Response) (ResponseVector, error) {
	exec, err := a.execPlugin(r.APIVersion)
	if err != nil {
		return ResponseVector{}, err
	}
	decoded, errDecode := exec.DecodeResponse([]byte(r.Output))
	if a.Processes {
		err = a.checkResponse(exec, r, decoded, errDecode)
	}
	return ResponseVector{r, decoded}, err
}

// checkResponse compares a response with the result of a real process that writes the
// same output.
func (a *VectorRunner) checkResponse(exec *kubelet.ExecPlugin, r corpus.Response, decoded *kubelet.Response, errDecode error) error {
	if err := os.WriteFile(filepath.Join(a.execDirPath(), "stdout"), []byte(r.Output), 0o600); err != nil {
		return err
	}
	real, errRun := exec.Run("registry.io/app", "", nil)
	if (errDecode == nil) != (errRun == nil) || !isSameResponse(decoded, real) {
		return fmt.Errorf("%s: DecodeResponse and a real run disagree: %v, %v", r.Name, errDecode, errRun)
	}
	return nil
}

func isSameResponse(a, b *kubelet.Response) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

func (a *VectorRunner) execDirPath() string { return filepath.Join(a.dir, "exec") }

// execPlugin returns the kubelet's exec plugin for a version of the protocol.
func (a *VectorRunner) execPlugin(version string) (*kubelet.ExecPlugin, error) {
	if a.execs == nil {
		if err := a.registerExecs(); err != nil {
			return nil, err
		}
	}
	if a.execs[version] == nil {
		return nil, fmt.Errorf("no version of the protocol: %q", version)
	}
	return a.execs[version], nil
}

// registerExecs registers a provider per version. Its executable saves its standard input and
// writes a prepared response.
func (a *VectorRunner) registerExecs() error {
	dir := a.execDirPath()
	cfg := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
	script := fmt.Sprintf("#!/bin/sh\ncat > '%s/stdin'\ncat '%s/stdout'\n", dir, dir)
	var names []string
	for i, v := range corpus.Versions {
		names = append(names, fmt.Sprintf("p%d", i))
		cfg += fmt.Sprintf("- {name: p%d, matchImages: ['*'], defaultCacheDuration: 0s, apiVersion: %s}\n", i, v)
	}
	if err := a.registerPlugins("exec", cfg, script, names, kubelet.TokenFuncs{}); err != nil {
		return err
	}
	a.execs = map[string]*kubelet.ExecPlugin{}
	for i, v := range corpus.Versions {
		e, err := kubelet.ExecPluginAt(i)
		if err != nil {
			return err
		}
		a.execs[v] = e
	}
	return nil
}

// registerPlugins registers a configuration. All of its plugins are the same script.
func (a *VectorRunner) registerPlugins(ready, cfg, script string, names []string, tokens kubelet.TokenFuncs) error {
	a.registeredKey = ""
	dir := filepath.Join(a.dir, ready)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			return err
		}
	}
	path := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(path, []byte(cfg), 0o600); err != nil {
		return err
	}
	if err := kubelet.RegisterPlugins(path, dir, tokens); err != nil {
		return err
	}
	a.registeredKey = ready
	return nil
}
