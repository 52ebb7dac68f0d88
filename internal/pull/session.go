// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/regcred/regcred"
)

// maxManifest is what a registry must accept, and most do not exceed
// (OCI distribution specification, "Pushing Manifests"), in bytes.
const maxManifest = 4 << 20

const maxRedirects = 10

// session is a login at a registry.
type session struct {
	target target
	client *http.Client
	budget *budget
}

// login finds out how the registry wants to be asked, and gets a token if it
// wants one. With Basic authentication a password is not tested here.
func (j *job) login(ctx context.Context, cred *regcred.Credential) (*session, error) {
	auth, err := authenticator(cred)
	if err != nil {
		return nil, &opError{"login", err}
	}
	var rt http.RoundTripper = &wire{
		inner:  cmp.Or(j.p.Transport, http.DefaultTransport),
		target: j.target,
		idle:   cmp.Or(j.p.IdleTimeout, 30*time.Second),
	}
	rt = transport.NewUserAgent(&retrier{inner: rt, budget: j.budget}, "regcred")
	repo := j.target.ref.Context()
	login := context.WithValue(ctx, loginKey{}, true)
	rt, err = transport.NewWithContext(login, repo.Registry, auth, rt, []string{repo.Scope(transport.PullScope)})
	if err != nil {
		return nil, &opError{"login", err}
	}
	client := &http.Client{Transport: rt, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) >= maxRedirects {
			return fmt.Errorf("stopped after %d redirects", maxRedirects)
		}
		return nil
	}}
	return &session{target: j.target, client: client, budget: j.budget}, nil
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
	return base64.StdEncoding.EncodeToString([]byte(cred.Username + ":" + string(cred.Password)))
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
		return nil, err
	}
	if err := transport.CheckError(resp, http.StatusOK); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// acceptManifests are the kinds that a layout can hold.
var acceptManifests = strings.Join([]string{
	string(types.OCIImageIndex), string(types.OCIManifestSchema1),
	string(types.DockerManifestList), string(types.DockerManifestSchema2),
}, ", ")

// manifest is the bytes of a manifest or index, verified, with its descriptor.
type manifest struct {
	raw  []byte
	desc v1.Descriptor
}

// manifest gets a manifest by tag or digest.
func (s *session) manifest(ctx context.Context, id string) (manifest, error) {
	for n := 1; ; n++ {
		m, err := s.getManifest(ctx, id)
		if err == nil || !isCut(err) || !s.budget.pause(ctx, n, 0) {
			if err != nil {
				err = &opError{"manifest " + id, err}
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

// hashOf returns the digest of a manifest; if it was asked for by digest, the
// manifest must have that.
func hashOf(id string, raw []byte) (v1.Hash, error) {
	want, err := v1.NewHash(id)
	if err != nil { // a tag
		want = v1.Hash{Algorithm: "sha256"}
	}
	h, err := v1.Hasher(want.Algorithm)
	if err != nil {
		return v1.Hash{}, err
	}
	h.Write(raw)
	got := v1.Hash{Algorithm: want.Algorithm, Hex: fmt.Sprintf("%x", h.Sum(nil))}
	if want.Hex != "" && got != want {
		return v1.Hash{}, fmt.Errorf("the registry sent something else, with digest %s", got)
	}
	return got, nil
}
