// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

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

func (j *layoutPull) logIn(ctx context.Context, cred *regcred.Credential) (*session, error) {
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

// requestContent requests /v2/<repository>/<kind>/<id>.
func (s *session) requestContent(ctx context.Context, kind, id string, header http.Header) (*http.Response, error) {
	repo := s.target.ref.Context()
	// The client's transport changes the scheme to http if necessary.
	u := url.URL{Scheme: "https", Host: s.target.Host(), Path: "/v2/" + repo.RepositoryStr() + "/" + kind + "/" + id}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header = header
	resp, err := s.client.Do(req)
	switch {
	case errors.Is(err, login.ErrIncompleteCredential):
		return nil, login.ErrIncompleteCredential
	case err != nil:
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
	resp, err := s.requestContent(ctx, "manifests", id, http.Header{"Accept": {acceptedManifestTypes}})
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

// maxManifestSize limits the size of a manifest in bytes. Registries must accept manifests of
// this size, and most reject larger ones (OCI distribution specification, "Pushing
// Manifests").
const maxManifestSize = 4 << 20

// maxBlobSize is one pebibyte, which is larger than any real layer. It prevents integer
// overflows.
const maxBlobSize = 1 << 50

// acceptedManifestTypes lists the media types that a layout can hold.
var acceptedManifestTypes = strings.Join([]string{
	string(types.OCIImageIndex), string(types.OCIManifestSchema1),
	string(types.DockerManifestList), string(types.DockerManifestSchema2),
}, ", ")

// manifest is a verified manifest or index with its descriptor.
type manifest struct {
	raw  []byte
	desc v1.Descriptor
}

// manifestDigest returns the digest of a manifest. If the manifest was requested by digest, the
// two digests must match.
func manifestDigest(id string, raw []byte) (v1.Hash, error) {
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
		return v1.Hash{}, fmt.Errorf("the registry sent content with digest %s", got)
	}
	return got, nil
}

func parseIndex(m manifest) ([]v1.Descriptor, error) {
	var index v1.IndexManifest
	if err := decodeManifest(m, &index); err != nil {
		return nil, err
	}
	return index.Manifests, checkDescriptors(m, index.Manifests)
}

// decodeManifest parses a manifest. Its errors contain the manifest's digest.
func decodeManifest(m manifest, into any) error {
	if err := json.Unmarshal(m.raw, into); err != nil {
		return fmt.Errorf("manifest %s: not valid: %w", m.desc.Digest, err)
	}
	return nil
}

func checkDescriptors(m manifest, list []v1.Descriptor) error {
	for _, d := range list {
		if d.Digest.Hex == "" || d.Size < 0 || d.Size > maxBlobSize {
			return fmt.Errorf("manifest %s: not valid: a descriptor has no digest or has size %d", m.desc.Digest, d.Size)
		}
	}
	return nil
}

// manifestMediaType returns the media type of a manifest. Header and content must agree,
// because a document that one reader treats as an image and another as an index can be
// used in an attack (CVE-2021-41190).
func manifestMediaType(header string, raw []byte) (types.MediaType, error) {
	var doc struct {
		MediaType string            `json:"mediaType"`
		Manifests []json.RawMessage `json:"manifests"`
		Layers    []json.RawMessage `json:"layers"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return "", fmt.Errorf("not a manifest: %w", err)
	}
	mt, _, err := mime.ParseMediaType(header)
	if err != nil {
		mt = doc.MediaType
	}
	if doc.MediaType != "" && doc.MediaType != mt {
		return "", fmt.Errorf("the registry's content type is %q, but the manifest's media type is %q", mt, doc.MediaType)
	}
	kind := types.MediaType(mt)
	switch {
	case kind.IsIndex() && doc.Layers == nil, kind.IsImage() && doc.Manifests == nil:
		return kind, nil
	case kind.IsSchema1():
		return "", fmt.Errorf("media type %q is a pre-2016 Docker image format that runtimes no longer support: push the image again with a newer tool", mt)
	}
	return "", fmt.Errorf("media type %q is neither an image manifest nor an image index", mt)
}
