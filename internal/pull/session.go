// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/regcred/regcred"
)

const maxRedirects = 10

// registry is where an image is, and how to speak to it.
type registry struct {
	target    target
	transport http.RoundTripper
	idle      time.Duration
	budget    *budget
	exchange  *exchange
}

// session is a login at a registry.
type session struct {
	registry
	client *http.Client
}

// login finds out how the registry wants to be asked, and gets a token if it
// wants one. With Basic authentication a password is not tested here.
func (r registry) login(ctx context.Context, cred *regcred.Credential) (*session, error) {
	auth, err := authenticator(cred)
	if err != nil {
		return nil, fmt.Errorf("login: %w", err)
	}
	var rt http.RoundTripper = &wire{inner: r.transport, target: r.target, idle: r.idle, exchange: r.exchange}
	rt = transport.NewUserAgent(&retrier{inner: rt, budget: r.budget}, "regcred")
	repo := r.target.ref.Context()
	rt, err = transport.NewWithContext(ctx, repo.Registry, auth, rt, []string{repo.Scope(transport.PullScope)})
	if err != nil {
		return nil, fmt.Errorf("login: %w", err)
	}
	client := &http.Client{Transport: rt, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) >= maxRedirects {
			return fmt.Errorf("stopped after %d redirects", maxRedirects)
		}
		return nil
	}}
	return &session{r, client}, nil
}

// authenticator never makes an anonymous login of a credential.
func authenticator(cred *regcred.Credential) (authn.Authenticator, error) {
	if cred == nil {
		return authn.Anonymous, nil
	}
	// containerd refuses such a credential too.
	if cred.Username == "" {
		return nil, errNoUser
	}
	// Not as user name and password: go-containerregistry sends nothing at
	// all where one of them is empty.
	return authn.FromConfig(authn.AuthConfig{Auth: basicAuth(cred)}), nil
}

func basicAuth(cred *regcred.Credential) string {
	return base64.StdEncoding.EncodeToString([]byte(cred.Username + ":" + cred.Password.Reveal()))
}

// withoutPath takes the path out of the URL of another host than the
// registry's: some sign their addresses there, not in the query.
func (s *session) withoutPath(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		if u, bad := url.Parse(failed.URL); bad != nil || u.Host != s.target.host {
			u = cmp.Or(u, &url.URL{})
			failed.URL = (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
		}
	}
	return err
}

// get requests /v2/<repository>/<kind>/<id>.
func (s *session) get(ctx context.Context, kind, id string, header http.Header) (*http.Response, error) {
	repo := s.target.ref.Context()
	// The login knows whether the scheme is to be http, and changes it.
	u := url.URL{Scheme: "https", Host: s.target.host, Path: "/v2/" + repo.RepositoryStr() + "/" + kind + "/" + id}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header = header
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, s.withoutPath(err)
	}
	if err := transport.CheckError(resp, http.StatusOK); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// manifest gets a manifest by tag or digest.
func (s *session) manifest(ctx context.Context, id string) (manifest, error) {
	for n := 1; ; n++ {
		m, err := s.getManifest(ctx, id)
		if err == nil || !isCut(err) || !s.budget.pause(ctx, n, 0) {
			if err != nil {
				err = fmt.Errorf("manifest %s: %w", id, err)
			}
			return m, err
		}
	}
}

func (s *session) getManifest(ctx context.Context, id string) (manifest, error) {
	resp, err := s.get(ctx, "manifests", id, http.Header{"Accept": {acceptManifests}})
	if err != nil {
		return manifest{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
	if err != nil {
		return manifest{}, err
	}
	if len(raw) > maxManifest {
		return manifest{}, fmt.Errorf("larger than %d bytes", maxManifest)
	}
	digest, err := hashOf(id, raw)
	if err != nil {
		return manifest{}, err
	}
	mediaType, err := mediaTypeOf(resp.Header.Get("Content-Type"), raw)
	if err != nil {
		return manifest{}, err
	}
	return manifest{raw, v1.Descriptor{MediaType: mediaType, Size: int64(len(raw)), Digest: digest}}, nil
}
