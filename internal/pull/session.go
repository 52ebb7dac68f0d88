// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/login"
)

const maxRedirects = 10

// session is an authenticated session with a registry.
type session struct {
	*login.Registry
	target target
	client *http.Client
}

func (j *job) login(ctx context.Context, cred *regcred.Credential) (*session, error) {
	rt, err := j.registry.Login(ctx, cred)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: rt, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) >= maxRedirects {
			return fmt.Errorf("stopped after %d redirects", maxRedirects)
		}
		return nil
	}}
	return &session{j.registry, j.target, client}, nil
}

// redactURLPath removes the path from a URL on another host than the registry, because
// some hosts put the signature in the path instead of the query.
func (s *session) redactURLPath(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		if u, bad := url.Parse(failed.URL); bad != nil || u.Host != s.target.Host() {
			u = cmp.Or(u, &url.URL{})
			failed.URL = (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
		}
	}
	return err
}

// get requests /v2/<repository>/<kind>/<id>.
func (s *session) get(ctx context.Context, kind, id string, header http.Header) (*http.Response, error) {
	repo := s.target.ref.Context()
	// Logging in changes the scheme to http if necessary.
	u := url.URL{Scheme: "https", Host: s.target.Host(), Path: "/v2/" + repo.RepositoryStr() + "/" + kind + "/" + id}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header = header
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, s.redactURLPath(err)
	}
	if err := transport.CheckError(resp, http.StatusOK); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

func (s *session) fetchManifest(ctx context.Context, id string) (manifest, error) {
	for n := 1; ; n++ {
		m, err := s.getManifest(ctx, id)
		if err == nil || !login.IsBrokenConnection(err) || !s.Budget.Wait(ctx, n, 0) {
			if err != nil {
				err = fmt.Errorf("manifest %s: %w", id, err)
			}
			return m, err
		}
	}
}

func (s *session) getManifest(ctx context.Context, id string) (manifest, error) {
	resp, err := s.get(ctx, "manifests", id, http.Header{"Accept": {acceptedManifestTypes}})
	if err != nil {
		return manifest{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxManifestSize+1))
	if err != nil {
		return manifest{}, err
	}
	if len(raw) > maxManifestSize {
		return manifest{}, fmt.Errorf("larger than %d bytes", maxManifestSize)
	}
	digest, err := manifestDigest(id, raw)
	if err != nil {
		return manifest{}, err
	}
	mediaType, err := manifestMediaType(resp.Header.Get("Content-Type"), raw)
	if err != nil {
		return manifest{}, err
	}
	return manifest{raw, v1.Descriptor{MediaType: mediaType, Size: int64(len(raw)), Digest: digest}}, nil
}

// target is an image and its registry.
type target struct {
	login.Target
	ref  name.Reference
	name string // full reference; docker.io for Docker Hub, as in the kubelet
}

func parseTarget(image string, insecure bool) (target, error) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return target{}, fmt.Errorf("not an image reference (want registry/repository:tag or @digest): %w", err)
	}
	t := target{ref: ref, name: ref.Name()}
	repo := ref.Context()
	if t.Target, err = login.NewTarget(repo.Registry, repo.Scope(transport.PullScope), insecure); err != nil {
		return target{}, err
	}
	if rest, ok := strings.CutPrefix(t.name, name.DefaultRegistry+"/"); ok {
		t.name = "docker.io/" + rest
	}
	return t, nil
}
