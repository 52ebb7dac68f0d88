// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	credentialproviderapi "k8s.io/kubelet/pkg/apis/credentialprovider"
	"k8s.io/kubernetes/pkg/util/parsers"

	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/kubelet"
)

// stub is a plugin in this process that notes what it was asked.
type stub struct {
	runs     int
	request  credentialproviderapi.CredentialProviderRequest
	response credentialproviderapi.CredentialProviderResponse
	echo     bool
}

func (s *stub) ExecPlugin(_ context.Context, image, token string, annotations map[string]string) (*credentialproviderapi.CredentialProviderResponse, error) {
	s.runs++
	s.request = credentialproviderapi.CredentialProviderRequest{Image: image, ServiceAccountToken: token, ServiceAccountAnnotations: annotations}
	resp := s.response
	if s.echo {
		resp.Auth = map[string]credentialproviderapi.AuthConfig{"registry.io": {Username: "u", Password: token}}
	}
	return &resp, nil
}

// register registers a configuration with one provider, which s answers.
func register(dir, config string, tokens kubelet.Tokens, s *stub) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "p"), nil, 0o700); err != nil {
		return err
	}
	if err := kubelet.Register(path, dir, tokens); err != nil {
		return err
	}
	return kubelet.SetPlugin(0, s)
}

func serviceAccount(tmp string) ([]any, error) {
	type vector struct {
		corpus.Account
		Ran         bool              `json:"ran"`
		GotToken    bool              `json:"gotToken,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"` // those that the plugin was given
		Credentials int               `json:"credentials"`
		From        string            `json:"from,omitempty"` // namespace/name/uid in the credential's coordinates
	}
	var out []any
	for _, a := range corpus.Accounts() {
		s := &stub{echo: a.Echo, response: credentialproviderapi.CredentialProviderResponse{
			CacheKeyType: credentialproviderapi.ImagePluginCacheKeyType,
			Auth:         map[string]credentialproviderapi.AuthConfig{"registry.io": {Username: "u", Password: "p"}},
		}}
		if err := register(tmp, a.Config(), tokens(a), s); err != nil {
			return nil, err
		}
		creds, _ := kubelet.Keyring("ns", "pod", "pod-uid", a.Account).Lookup("registry.io/app")
		v := vector{Account: a, Ran: s.runs > 0, GotToken: s.request.ServiceAccountToken == corpus.Token, Annotations: s.request.ServiceAccountAnnotations, Credentials: len(creds)}
		if len(creds) > 0 && creds[0].Source != nil && creds[0].Source.ServiceAccount != nil {
			from := creds[0].Source.ServiceAccount
			v.From = from.Namespace + "/" + from.Name + "/" + from.UID
		}
		out = append(out, v)
	}
	return out, nil
}

// tokens is the API server of a case.
func tokens(a corpus.Account) kubelet.Tokens {
	return kubelet.Tokens{
		ServiceAccount: func(namespace, name string) (*corev1.ServiceAccount, error) {
			if a.Fails == "get" {
				return nil, errors.New("refused")
			}
			return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid", Annotations: a.Have}}, nil
		},
		Token: func(_, _ string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
			if a.Fails == "token" {
				return nil, errors.New("refused")
			}
			tr.Status.Token = corpus.Token
			return tr, nil
		},
	}
}

func cache(tmp string) ([]any, error) {
	type vector struct {
		corpus.Cache
		Ran         []bool `json:"ran"` // whether the plugin ran, per image
		Credentials []int  `json:"credentials"`
	}
	var out []any
	for _, c := range corpus.Caches() {
		s := &stub{response: credentialproviderapi.CredentialProviderResponse{
			CacheKeyType: credentialproviderapi.PluginCacheKeyType(c.Scope), Auth: map[string]credentialproviderapi.AuthConfig{},
		}}
		for _, key := range c.Keys {
			s.response.Auth[key] = credentialproviderapi.AuthConfig{Username: key}
		}
		if c.Duration != nil {
			d, err := time.ParseDuration(*c.Duration)
			if err != nil {
				return nil, err
			}
			s.response.CacheDuration = &metav1.Duration{Duration: d}
		}
		if err := register(tmp, c.Config(), kubelet.Tokens{}, s); err != nil {
			return nil, err
		}
		v := vector{Cache: c}
		for _, image := range c.Images {
			repo, _, _, err := parsers.ParseImageName(image)
			if err != nil {
				return nil, err
			}
			before := s.runs
			creds, _ := kubelet.Keyring("", "", "", "").Lookup(repo)
			v.Ran = append(v.Ran, s.runs > before)
			v.Credentials = append(v.Credentials, len(creds))
		}
		out = append(out, v)
	}
	return out, nil
}
