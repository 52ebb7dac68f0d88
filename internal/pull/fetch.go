// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/regcred/regcred/internal/layout"
	"github.com/regcred/regcred/internal/login"
)

// fetcher stores the contents of an image in a layout.
type fetcher struct {
	session    *session
	layout     *layout.Layout
	progress   func(Event)
	parallel   int
	downloaded atomic.Int64 // downloaded
	reused     []bool       // indexed like plan.blobs; each element is written by one goroutine
}

// fetchImage stores the blobs and manifests of an image in the layout. It does not change
// index.json.
func (f *fetcher) fetchImage(ctx context.Context, pl *plan) error {
	f.reused = make([]bool, len(pl.blobs))
	for _, b := range pl.blobs {
		f.reportBlob(EventQueued, b, 0, false)
	}
	first := 0
	if !pl.forPlatform { // the image is not from an index, so check its platform first
		if err := f.fetchBlob(ctx, 0, pl.blobs[0]); err != nil {
			return err
		}
		if err := f.checkPlatform(ctx, pl); err != nil {
			return err
		}
		first = 1
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(f.parallel)
	for i := first; i < len(pl.blobs); i++ {
		g.Go(func() error { return f.fetchBlob(gctx, i, pl.blobs[i]) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, m := range pl.manifests {
		if err := f.layout.PutBlob(ctx, m.desc, m.raw); err != nil {
			return err
		}
		f.downloaded.Add(int64(len(m.raw)))
	}
	return nil
}

// checkPlatform checks whether the configuration of an image is for the requested platform.
// It is called only for images that are not from an index, before their layers are
// downloaded.
func (f *fetcher) checkPlatform(ctx context.Context, pl *plan) error {
	config := pl.blobs[0].Descriptor
	if !config.MediaType.IsConfig() {
		return nil // artifact without a platform
	}
	if config.Size > maxManifestSize {
		return fmt.Errorf("configuration %s is larger than %d bytes", config.Digest, maxManifestSize)
	}
	raw, err := f.layout.ReadBlob(ctx, config)
	if err != nil {
		return err
	}
	var have v1.Platform
	if err := json.Unmarshal(raw, &have); err != nil {
		return fmt.Errorf("configuration %s: not valid: %w", config.Digest, err)
	}
	if have.OS == "" || have.Architecture == "" {
		return nil // some builders omit the platform
	}
	if !pl.want.matches(have) {
		return fmt.Errorf("no image for platform %s; available: %s", pl.want, have)
	}
	pl.root.Platform = &v1.Platform{OS: have.OS, Architecture: have.Architecture, Variant: have.Variant}
	return nil
}

func (f *fetcher) reportBlob(kind EventKind, b blob, n int64, reused bool) {
	if f.progress != nil {
		f.progress(Event{Kind: kind, Digest: b.Digest.String(), Config: b.config, Size: b.Size, Bytes: n, Reused: reused})
	}
}

// fetchBlob stores one blob. It downloads the blob if necessary, with retries.
func (f *fetcher) fetchBlob(ctx context.Context, i int, b blob) error {
	f.reportBlob(EventStart, b, 0, false)
	have, err := f.layout.VerifyBlob(ctx, b.Descriptor)
	if err != nil {
		return err
	}
	if have {
		f.reused[i] = true
		f.reportBlob(EventDone, b, b.Size, true)
		return nil
	}
	for n := 1; ; n++ {
		err := f.downloadBlob(ctx, b)
		if err == nil {
			f.downloaded.Add(b.Size)
			f.reportBlob(EventDone, b, b.Size, false)
			return nil
		}
		// Retry a corrupt download only once, because a broken proxy or disk corrupts data
		// repeatedly.
		again := login.IsBrokenConnection(err) || errors.Is(err, layout.ErrMismatch) && n == 1
		if ctx.Err() != nil || isLocalError(err) || !again || !f.session.Budget.Wait(ctx, n, 0) {
			return fmt.Errorf("blob %s: %w", b.Digest, f.explainForeignLayer(b, err))
		}
		f.reportBlob(EventRestart, b, 0, false)
	}
}

// explainForeignLayer explains a 404 for a foreign layer. Registries often lack these layers,
// because their licenses do not allow redistribution. The layer's URLs are not followed,
// because they may point anywhere.
func (f *fetcher) explainForeignLayer(b blob, err error) error {
	if login.StatusCode(err) == http.StatusNotFound && len(b.URLs) > 0 {
		return fmt.Errorf("the registry does not have this foreign layer (push the image with its foreign layers): %w", err)
	}
	return err
}

// downloadBlob makes one attempt to download a blob.
func (f *fetcher) downloadBlob(ctx context.Context, b blob) error {
	// Request identity encoding, because blobs are already compressed and the digest
	// covers the compressed bytes.
	resp, err := f.session.requestContent(ctx, "blobs", b.Digest.String(), http.Header{"Accept": {"*/*"}, "Accept-Encoding": {"identity"}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.ContentLength >= 0 && resp.ContentLength != b.Size {
		return fmt.Errorf("%w: expected %d bytes, but the registry has %d", layout.ErrMismatch, b.Size, resp.ContentLength)
	}
	w, err := f.layout.CreateBlob(b.Descriptor)
	if err != nil {
		return err
	}
	defer w.Abort()
	// Read one extra byte to detect a blob that is too large.
	n, err := io.Copy(w, io.LimitReader(&progressReader{resp.Body, f, b, 0}, b.Size+1))
	if err != nil {
		return err
	}
	if n < b.Size {
		return fmt.Errorf("%d of %d bytes: %w", n, b.Size, io.ErrUnexpectedEOF)
	}
	return w.Commit()
}

// progressReader reports progress as bytes are read.
type progressReader struct {
	io.Reader
	f *fetcher
	b blob
	n int64
}

func (m *progressReader) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if n > 0 {
		m.n += int64(n)
		m.f.reportBlob(EventAdvance, m.b, min(m.n, m.b.Size), false)
	}
	return n, err
}
