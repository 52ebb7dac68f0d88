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

// recordingPlugin is an in-process plugin that records its requests.
type recordingPlugin struct {
	runs        int
	lastRequest kubelet.PluginRequest
	scope       string
	duration    *time.Duration
	auth        map[string]corpus.Auth
	echoToken   bool // return the token as password
}

func (p *recordingPlugin) respond(a kubelet.PluginRequest) kubelet.PluginResponse {
	p.runs++
	p.lastRequest = a
	answer := &credentialproviderapi.CredentialProviderResponse{
		CacheKeyType: credentialproviderapi.PluginCacheKeyType(p.scope), Auth: map[string]credentialproviderapi.AuthConfig{},
	}
	if p.duration != nil {
		answer.CacheDuration = &metav1.Duration{Duration: *p.duration}
	}
	for key, auth := range p.auth {
		password := string(auth.Password)
		if p.echoToken {
			password = a.Token
		}
		answer.Auth[key] = credentialproviderapi.AuthConfig{Username: string(auth.Username), Password: password}
	}
	return answer
}

// registerUncached registers n plugins that match all images and whose responses are not cached.
func (a *VectorRunner) registerUncached(n int) error {
	ready := fmt.Sprintf("answering-%d", n)
	if a.registeredKey == ready {
		return nil
	}
	cfg := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("p%03d", 999-i))
		cfg += fmt.Sprintf("- {name: %s, matchImages: ['%s'], defaultCacheDuration: 0s, apiVersion: %s}\n", names[i], strings.Join(corpus.MatchAllPatterns, "', '"), corpus.Versions[0])
	}
	a.inProcess = make([]recordingPlugin, n)
	for i := range a.inProcess {
		a.inProcess[i].scope = "Image"
	}
	return a.registerInProcess(ready, cfg, names, kubelet.TokenFuncs{})
}

// registerOne registers a configuration with one provider, which p implements.
func (a *VectorRunner) registerOne(cfg string, tokens kubelet.TokenFuncs, p recordingPlugin) (*recordingPlugin, error) {
	a.inProcess = []recordingPlugin{p}
	return &a.inProcess[0], a.registerInProcess("one", cfg, []string{"p"}, tokens)
}

// registerInProcess registers plugins that are implemented by ..newInProcessKeyring.
func (a *VectorRunner) registerInProcess(ready, cfg string, names []string, tokens kubelet.TokenFuncs) error {
	if err := a.registerPlugins(ready, cfg, "", names, tokens); err != nil {
		return err
	}
	for i := range a.inProcess {
		if err := kubelet.SetPluginFunc(i, a.inProcess[i].respond); err != nil {
			return err
		}
	}
	return nil
}

// ServiceAccountVector is a vector of serviceaccount.json.
type ServiceAccountVector struct {
	corpus.ServiceAccountCase
	Ran         bool              `json:"ran"`
	GotToken    bool              `json:"gotToken,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"` // the annotations passed to the plugin
	Credentials int               `json:"credentials"`
	From        string            `json:"from,omitempty"` // namespace/name/uid of the credential's service account
}

func (a *VectorRunner) serviceAccountVector(c corpus.ServiceAccountCase) (ServiceAccountVector, error) {
	cfg := c.ConfigFile()
	if !kubelet.LinkedFeatures.HasCacheType {
		cfg = strings.Replace(cfg, "cacheType: "+c.CacheType+", ", "", 1)
	}
	p, err := a.registerOne(cfg, newTokenFuncs(c), recordingPlugin{scope: "Image", echoToken: c.Echo, auth: map[string]corpus.Auth{"registry.io": {Username: "u", Password: "p"}}})
	if err != nil {
		return ServiceAccountVector{}, err
	}
	creds, _ := kubelet.NewKeyring("ns", "pod", "pod-uid", c.Account).Lookup("registry.io/app")
	v := ServiceAccountVector{ServiceAccountCase: c, Ran: p.runs > 0, GotToken: p.lastRequest.Token == corpus.IssuedToken, Annotations: p.lastRequest.Annotations, Credentials: len(creds)}
	if len(creds) > 0 {
		v.From = kubelet.CredentialAccount(creds[0])
	}
	return v, nil
}

// newTokenFuncs returns functions that simulate the API server of a case.
func newTokenFuncs(c corpus.ServiceAccountCase) kubelet.TokenFuncs {
	return kubelet.TokenFuncs{
		ServiceAccount: func(namespace, name string) (*corev1.ServiceAccount, error) {
			if c.RejectedRequest == "get" {
				return nil, errors.New("refused")
			}
			return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid", Annotations: c.AccountAnnotations}}, nil
		},
		Token: func(_, _ string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
			if c.RejectedRequest == "token" {
				return nil, errors.New("refused")
			}
			tr.Status.Token = corpus.IssuedToken
			return tr, nil
		},
	}
}

// CacheVector is a vector of cache.json.
type CacheVector struct {
	corpus.CacheCase
	Ran         []bool `json:"ran"` // whether the plugin ran, per image
	Credentials []int  `json:"credentials"`
}

func (a *VectorRunner) cacheVector(c corpus.CacheCase) (CacheVector, error) {
	p := recordingPlugin{scope: c.Scope, auth: map[string]corpus.Auth{}}
	for _, key := range c.Keys {
		p.auth[key] = corpus.Auth{Username: corpus.RawString(key)}
	}
	if c.Duration != nil {
		d, err := time.ParseDuration(*c.Duration)
		if err != nil {
			return CacheVector{}, err
		}
		p.duration = &d
	}
	asked, err := a.registerOne(c.ConfigFile(), kubelet.TokenFuncs{}, p)
	if err != nil {
		return CacheVector{}, err
	}
	v := CacheVector{CacheCase: c}
	for _, image := range c.Images {
		repo, _, _, err := parsers.ParseImageName(image)
		if err != nil {
			return CacheVector{}, err
		}
		before := asked.runs
		creds, _ := kubelet.NewKeyring("", "", "", "").Lookup(repo)
		v.Ran = append(v.Ran, asked.runs > before)
		v.Credentials = append(v.Credentials, len(creds))
	}
	return v, nil
}
