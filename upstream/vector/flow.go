// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package vector

import (
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	credentialproviderapi "k8s.io/kubelet/pkg/apis/credentialprovider"
	"k8s.io/kubernetes/pkg/util/parsers"

	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/kubelet"
)

// plug is an in-process plugin that records its requests.
type plug struct {
	runs     int
	asked    kubelet.Asked
	scope    string
	duration *time.Duration
	auth     map[string]corpus.Auth
	echo     bool // return the token as password
}

func (p *plug) respond(a kubelet.Asked) kubelet.Answer {
	p.runs++
	p.asked = a
	answer := &credentialproviderapi.CredentialProviderResponse{
		CacheKeyType: credentialproviderapi.PluginCacheKeyType(p.scope), Auth: map[string]credentialproviderapi.AuthConfig{},
	}
	if p.duration != nil {
		answer.CacheDuration = &metav1.Duration{Duration: *p.duration}
	}
	for key, auth := range p.auth {
		password := string(auth.Password)
		if p.echo {
			password = a.Token
		}
		answer.Auth[key] = credentialproviderapi.AuthConfig{Username: string(auth.Username), Password: password}
	}
	return answer
}

// answering registers n plugins that match all images and whose responses are not cached.
func (a *Asker) answering(n int) error {
	ready := fmt.Sprintf("answering-%d", n)
	if a.ready == ready {
		return nil
	}
	cfg := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("p%03d", 999-i))
		cfg += fmt.Sprintf("- {name: %s, matchImages: ['%s'], defaultCacheDuration: 0s, apiVersion: %s}\n", names[i], strings.Join(corpus.Everything, "', '"), corpus.Versions[0])
	}
	a.plugs = make([]plug, n)
	for i := range a.plugs {
		a.plugs[i].scope = "Image"
	}
	return a.registerPlugs(ready, cfg, names, kubelet.Tokens{})
}

// one registers a configuration with one provider, served by p.
func (a *Asker) one(cfg string, tokens kubelet.Tokens, p plug) (*plug, error) {
	a.plugs = []plug{p}
	return &a.plugs[0], a.registerPlugs("one", cfg, []string{"p"}, tokens)
}

// registerPlugs registers plugins that a.plugs serve.
func (a *Asker) registerPlugs(ready, cfg string, names []string, tokens kubelet.Tokens) error {
	if err := a.register(ready, cfg, "", names, tokens); err != nil {
		return err
	}
	for i := range a.plugs {
		if err := kubelet.SetRespond(i, a.plugs[i].respond); err != nil {
			return err
		}
	}
	return nil
}

// ServiceAccount is a vector of serviceaccount.json.
type ServiceAccount struct {
	corpus.Account
	Ran         bool              `json:"ran"`
	GotToken    bool              `json:"gotToken,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"` // the annotations passed to the plugin
	Credentials int               `json:"credentials"`
	From        string            `json:"from,omitempty"` // namespace/name/uid in the credential's coordinates
}

func (a *Asker) serviceAccount(c corpus.Account) (ServiceAccount, error) {
	cfg := c.Config()
	if !kubelet.This.CacheType {
		cfg = strings.Replace(cfg, "cacheType: "+c.CacheType+", ", "", 1)
	}
	p, err := a.one(cfg, tokens(c), plug{scope: "Image", echo: c.Echo, auth: map[string]corpus.Auth{"registry.io": {Username: "u", Password: "p"}}})
	if err != nil {
		return ServiceAccount{}, err
	}
	creds, _ := kubelet.Keyring("ns", "pod", "pod-uid", c.Account).Lookup("registry.io/app")
	v := ServiceAccount{Account: c, Ran: p.runs > 0, GotToken: p.asked.Token == corpus.Token, Annotations: p.asked.Annotations, Credentials: len(creds)}
	if len(creds) > 0 {
		v.From = kubelet.From(creds[0])
	}
	return v, nil
}

// tokens simulates the API server of a case.
func tokens(c corpus.Account) kubelet.Tokens {
	return kubelet.Tokens{
		ServiceAccount: func(namespace, name string) (*corev1.ServiceAccount, error) {
			if c.Fails == "get" {
				return nil, errors.New("refused")
			}
			return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid", Annotations: c.Have}}, nil
		},
		Token: func(_, _ string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
			if c.Fails == "token" {
				return nil, errors.New("refused")
			}
			tr.Status.Token = corpus.Token
			return tr, nil
		},
	}
}

// Cache is a vector of cache.json.
type Cache struct {
	corpus.Cache
	Ran         []bool `json:"ran"` // whether the plugin ran, per image
	Credentials []int  `json:"credentials"`
}

func (a *Asker) cache(c corpus.Cache) (Cache, error) {
	p := plug{scope: c.Scope, auth: map[string]corpus.Auth{}}
	for _, key := range c.Keys {
		p.auth[key] = corpus.Auth{Username: corpus.Text(key)}
	}
	if c.Duration != nil {
		d, err := time.ParseDuration(*c.Duration)
		if err != nil {
			return Cache{}, err
		}
		p.duration = &d
	}
	asked, err := a.one(c.Config(), kubelet.Tokens{}, p)
	if err != nil {
		return Cache{}, err
	}
	v := Cache{Cache: c}
	for _, image := range c.Images {
		repo, _, _, err := parsers.ParseImageName(image)
		if err != nil {
			return Cache{}, err
		}
		before := asked.runs
		creds, _ := kubelet.Keyring("", "", "", "").Lookup(repo)
		v.Ran = append(v.Ran, asked.runs > before)
		v.Credentials = append(v.Credentials, len(creds))
	}
	return v, nil
}
