// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider/secrets"
	"k8s.io/kubernetes/pkg/util/parsers"

	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/kubelet"
)

func match(string) ([]any, error) {
	type vector struct {
		Pattern corpus.Text `json:"pattern"`
		Image   corpus.Text `json:"image"`
		Match   bool        `json:"match"`
		Invalid bool        `json:"invalid,omitempty"` // the pattern does not parse
	}
	var out []any
	for _, p := range corpus.Match() {
		ok, _ := credentialprovider.URLsMatchStr(p.Pattern, p.Image)
		_, err := credentialprovider.ParseSchemelessURL(p.Pattern)
		out = append(out, vector{corpus.Text(p.Pattern), corpus.Text(p.Image), ok, err != nil})
	}
	return out, nil
}

func references(string) ([]any, error) {
	type vector struct {
		Reference  corpus.Text `json:"reference"`
		Repository string      `json:"repository,omitempty"`
		Error      bool        `json:"error,omitempty"`
	}
	var out []any
	for _, ref := range corpus.References() {
		repo, _, _, err := parsers.ParseImageName(ref)
		out = append(out, vector{corpus.Text(ref), repo, err != nil})
	}
	return out, nil
}

func config(tmp string) ([]any, error) {
	type vector struct {
		corpus.Config
		LoadError     string             `json:"loadError,omitempty"`
		ValidateError string             `json:"validateError,omitempty"`
		Hash          string             `json:"hash,omitempty"`
		Providers     []kubelet.Provider `json:"providers,omitempty"`
	}
	var out []any
	for i, c := range corpus.Configs() {
		dir := filepath.Join(tmp, fmt.Sprint(i))
		path, err := c.Write(dir)
		if err != nil {
			return nil, err
		}
		v := vector{Config: c}
		cfg, hash, err := kubelet.ReadConfig(path)
		if err != nil {
			v.LoadError = clean(err, dir)
		} else {
			v.Hash, v.Providers = hash, kubelet.Providers(cfg)
			if err := kubelet.Validate(cfg); err != nil {
				v.ValidateError = clean(err, dir)
			}
		}
		out = append(out, v)
	}
	return out, nil
}

// clean makes an error the same on every machine, and short.
func clean(err error, dir string) string {
	msg := strings.ReplaceAll(err.Error(), dir, "DIR")
	if len(msg) > 500 {
		msg = strings.ToValidUTF8(msg[:500], "") + "…"
	}
	return msg
}

func request(tmp string) ([]any, error) {
	type vector struct {
		corpus.Request
		Bytes corpus.Text `json:"bytes"`
	}
	execs, err := newExecs(tmp)
	if err != nil {
		return nil, err
	}
	var out []any
	for _, r := range corpus.Requests() {
		data, err := execs.encode(r)
		if err != nil {
			return nil, err
		}
		out = append(out, vector{r, corpus.Text(data)})
	}
	return out, nil
}

func response(tmp string) ([]any, error) {
	type vector struct {
		corpus.Response
		Decoded *kubelet.Response `json:"decoded"` // null if it is refused
	}
	execs, err := newExecs(tmp)
	if err != nil {
		return nil, err
	}
	var out []any
	for _, r := range corpus.Responses() {
		decoded, err := execs.decode(r)
		if err != nil {
			return nil, err
		}
		out = append(out, vector{r, decoded})
	}
	return out, nil
}

func keyring(string) ([]any, error) {
	type vector struct {
		corpus.Keyring
		Credentials []corpus.Auth `json:"credentials"`
	}
	var out []any
	for _, k := range corpus.Keyrings() {
		repo, _, _, err := parsers.ParseImageName(k.Image)
		if err != nil {
			return nil, err
		}
		out = append(out, vector{k, kubelet.Lookup(k.Answers, repo)})
	}
	return out, nil
}

func dockerConfig(string) ([]any, error) {
	type lookup struct {
		Image       string        `json:"image"`
		Credentials []corpus.Auth `json:"credentials"`
	}
	type vector struct {
		corpus.Secret
		Error   bool     `json:"error,omitempty"` // the secret is refused
		Lookups []lookup `json:"lookups,omitempty"`
	}
	var out []any
	for _, s := range corpus.Secrets() {
		v := vector{Secret: s}
		ring, err := secrets.MakeDockerKeyring([]corev1.Secret{{
			Type: corev1.SecretType(s.Type), Data: map[string][]byte{s.Key: []byte(s.Data)},
		}}, credentialprovider.UnionDockerKeyring{})
		v.Error = err != nil
		if err == nil {
			for _, image := range s.Images {
				creds, _ := ring.Lookup(image)
				v.Lookups = append(v.Lookups, lookup{image, kubelet.Auths(creds)})
			}
		}
		out = append(out, v)
	}
	return out, nil
}

func cacheKey(string) ([]any, error) {
	type vector struct {
		corpus.Identities
		Same   bool `json:"same"`
		ErrorA bool `json:"errorA,omitempty"`
		ErrorB bool `json:"errorB,omitempty"`
	}
	var out []any
	for _, ids := range corpus.Keys() {
		a, errA := kubelet.CacheKey(ids.CacheType, ids.A.Expand())
		b, errB := kubelet.CacheKey(ids.CacheType, ids.B.Expand())
		out = append(out, vector{ids, errA == nil && errB == nil && a == b, errA != nil, errB != nil})
	}
	return out, nil
}

// execs are the kubelet's runners of plugins, one per API version.
type execs struct {
	dir  string
	exec map[string]*kubelet.Exec
}

// newExecs registers a provider per version whose executable keeps its
// standard input and writes a prepared answer.
func newExecs(dir string) (*execs, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	cfg := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
	for i, v := range corpus.Versions {
		cfg += fmt.Sprintf("- {name: p%d, matchImages: ['*'], defaultCacheDuration: 0s, apiVersion: %s}\n", i, v)
		script := fmt.Sprintf("#!/bin/sh\ncat > '%s/stdin'\ncat '%s/stdout'\n", dir, dir)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("p%d", i)), []byte(script), 0o700); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(path, []byte(cfg), 0o600); err != nil {
		return nil, err
	}
	if err := kubelet.Register(path, dir, kubelet.Tokens{}); err != nil {
		return nil, err
	}
	x := &execs{dir, map[string]*kubelet.Exec{}}
	for i, v := range corpus.Versions {
		e, err := kubelet.ExecOf(i)
		if err != nil {
			return nil, err
		}
		x.exec[v] = e
	}
	return x, nil
}

// encode returns the request's bytes, and checks them against what a real
// process is given.
func (x *execs) encode(r corpus.Request) ([]byte, error) {
	if err := os.WriteFile(filepath.Join(x.dir, "stdout"), nil, 0o600); err != nil {
		return nil, err
	}
	data, err := x.exec[r.APIVersion].EncodeRequest(string(r.Image), r.Token, r.Annotations)
	if err != nil {
		return nil, err
	}
	x.exec[r.APIVersion].Run(string(r.Image), r.Token, r.Annotations) // the answer is empty, hence an error
	got, err := os.ReadFile(filepath.Join(x.dir, "stdin"))
	if err == nil && string(got) != string(data) {
		err = errors.New("a real process is given other bytes than encodeRequest returns")
	}
	return data, err
}

// decode returns the kubelet's view of an output, nil if it refuses it, and
// checks it against a real run.
func (x *execs) decode(r corpus.Response) (*kubelet.Response, error) {
	if err := os.WriteFile(filepath.Join(x.dir, "stdout"), []byte(r.Output), 0o600); err != nil {
		return nil, err
	}
	decoded, errDecode := x.exec[r.APIVersion].DecodeResponse([]byte(r.Output))
	real, errRun := x.exec[r.APIVersion].Run("registry.io/app", "", nil)
	if (errDecode == nil) != (errRun == nil) || !same(decoded, real) {
		return nil, fmt.Errorf("%s: DecodeResponse and a real run disagree: %v, %v", r.Name, errDecode, errRun)
	}
	return decoded, nil
}

func same(a, b *kubelet.Response) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}
