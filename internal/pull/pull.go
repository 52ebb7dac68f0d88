// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package pull pulls an image with a list of credentials, as the kubelet and its container
// runtime do. If there are no credentials, it pulls anonymously. Otherwise it tries each
// credential in order until one succeeds. Only a credential without a user name results in an
// anonymous pull, as in the runtimes (see [login.Runtime]). A [Puller] pulls
// into an OCI image layout:
//
//	p := &pull.Puller{OnRejected: keyring.Invalidate}
//	res, err := p.Pull(ctx, "registry.example/team/app:v1", creds, "./app")
//
// A [Runtime] makes a container runtime pull an image, over CRI.
//
// A Puller sends a credential only to the image's registry and to the token server that the
// registry names. It requires TLS unless the registry is on loopback or [Puller.Insecure] is
// set, and sends no credential along with a redirect. It verifies all content before it adds
// it to the layout, and changes the layout's index last.
package pull

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/layout"
	"github.com/regcred/regcred/internal/login"
	"github.com/regcred/regcred/internal/remote"
)

// Puller pulls images. The zero value is ready to use. A Puller is safe for concurrent
// use, even for pulls into the same directory, but its fields must not change during a
// pull. On systems with flock(2), several processes may also pull into the same
// directory at once. On other systems (Windows), only one process at a time may do so.
type Puller struct {
	// Transport sends the requests; nil means [http.DefaultTransport].
	Transport http.RoundTripper

	// Platform is "os/architecture" or "os/architecture/variant". "" means linux on
	// this program's architecture. "all" stores an index and everything that it lists.
	Platform string

	// Insecure allows plain HTTP to the image's registry, and to no other host, if it
	// does not respond over TLS. Loopback registries may always use plain HTTP.
	Insecure bool

	// Parallel is the number of an image's blobs to download concurrently; 0 means 3,
	// as in most runtimes.
	Parallel int

	// ResponseTimeout ends a request for a manifest or blob if the registry does not respond for
	// this long; 0 means five minutes, as in containerd.
	ResponseTimeout time.Duration

	// IdleTimeout ends a response if no byte arrives for this long; 0 means 30 seconds. A
	// response also ends if fewer than 32 KiB arrive during a minute of waiting. It also
	// replaces ResponseTimeout for the login. The context limits the whole pull.
	IdleTimeout time.Duration

	// Retry configures retries. Its Budget applies to one Pull.
	Retry login.RetryOptions

	// Progress, if not nil, is called with the events of each blob from several
	// goroutines. It must not block.
	Progress func(Event)

	// OnRejected, if not nil, is called with each credential that a registry or its token
	// server rejected with 401. Other failures do not prove that a credential is wrong,
	// because registries return 403 and 404 for other reasons too.
	OnRejected func(regcred.Credential)

	mu sync.Mutex // held while an index.json changes
}

// Result describes a successful pull.
type Result struct {
	Image    string // full reference, recorded in the layout as org.opencontainers.image.ref.name
	Digest   string // digest of the manifest or index in index.json, "sha256:…"
	Resolved string // digest at the registry; differs from Digest if one platform was taken from an index

	MediaType string
	Platform  string // such as "linux/amd64"; "" for an index, or if the image specifies none

	Layers []Layer // in the order of the manifests, without duplicates
	Bytes  int64   // downloaded bytes of blobs and manifests, without retries

	Credential *regcred.Credential // the accepted credential; nil if none was needed
	Failed     []Try               // failed tries before it
}

// Layer is one layer of a pulled image.
type Layer struct {
	Digest string
	Size   int64 // bytes
	Reused bool  // the layout already had the layer, and it was verified
}

// Pull pulls an image into the OCI image layout at dir, which it creates if necessary.
// It does not modify a directory that is neither empty nor a layout. Existing blobs are
// verified before they are used.
//
// If every try fails, Pull returns an [*Error] that contains all tries. With
// [errors.Is], the error matches [context.Canceled], [context.DeadlineExceeded] and
// syscall.ENOSPC. Verified blobs stay in dir/blobs for the next pull, and index.json
// does not change. Temporary files (".tmp-…") remain only if the process is killed;
// the next pull into dir removes them.
func (p *Puller) Pull(ctx context.Context, image string, creds []regcred.Credential, dir string) (*Result, error) {
	t, err := parseTarget(image, p.Insecure)
	if err != nil {
		return nil, fmt.Errorf("pulling %q: %w", image, err)
	}
	want, err := parsePlatform(p.Platform)
	if err != nil {
		return nil, fmt.Errorf("pulling %q: %w", image, err)
	}
	if err := layout.CheckDir(ctx, dir); err != nil {
		return nil, fmt.Errorf("pulling %q: %w", image, err)
	}
	j := &layoutPull{p: p, want: want, dir: dir, target: t, registry: &login.Registry{
		Target: t.Target, Secrets: &login.Secrets{},
		Transport: p.Transport, ResponseTimeout: p.ResponseTimeout, IdleTimeout: p.IdleTimeout, Budget: login.NewRetryBudget(p.Retry),
	}}
	var res *Result
	used, failed, err := tryEach(ctx, j.registry.Secrets, t.name, creds, p.OnRejected, func(cred *regcred.Credential) (err error) {
		res, err = j.try(ctx, cred)
		return err
	})
	if err != nil {
		return nil, err
	}
	res.Credential, res.Failed = used, failed
	return res, nil
}

// layoutPull holds the state of one call of [Puller.Pull].
type layoutPull struct {
	p        *Puller
	target   target
	registry *login.Registry
	want     platform
	dir      string
}

// try runs a complete pull with one credential.
func (j *layoutPull) try(ctx context.Context, cred *regcred.Credential) (*Result, error) {
	s, err := j.logIn(ctx, cred)
	if err != nil {
		return nil, err
	}
	pl, err := s.newPlan(ctx, j.want)
	if err != nil {
		return nil, err
	}
	lay, err := layout.Open(j.dir)
	if err != nil {
		return nil, err
	}
	defer lay.Close()
	f := &fetcher{session: s, layout: lay, progress: j.p.Progress, parallel: cmp.Or(j.p.Parallel, 3)}
	if err := f.fetchImage(ctx, pl); err != nil {
		return nil, err
	}
	for !j.p.mu.TryLock() { // Lock would ignore the context
		if !remote.Sleep(ctx, 20*time.Millisecond) {
			return nil, cmp.Or(ctx.Err(), context.DeadlineExceeded)
		}
	}
	defer j.p.mu.Unlock()
	if err := lay.Tag(ctx, pl.root, j.target.name); err != nil {
		return nil, err
	}
	return j.newResult(pl, f), nil
}

// newResult returns the result of a successful pull.
func (j *layoutPull) newResult(pl *plan, f *fetcher) *Result {
	res := &Result{
		Image:     j.target.name,
		Digest:    pl.root.Digest.String(),
		Resolved:  pl.resolved.String(),
		MediaType: string(pl.root.MediaType),
		Bytes:     f.downloaded.Load(),
	}
	if pl.root.Platform != nil {
		res.Platform = j.registry.Secrets.Redact(pl.root.Platform.String()) // the string comes from the registry
	}
	for i, b := range pl.blobs {
		if !b.config {
			res.Layers = append(res.Layers, Layer{b.Digest.String(), b.Size, f.reused[i]})
		}
	}
	return res
}

// EventKind identifies the kind of an [Event].
type EventKind string

// Events for one blob, in this order: queued, start, any number of advance events,
// done. A restart event means that the download starts over. A blob that fails has no
// done event: either the pull fails, or the next credential starts again with queued.
const (
	EventQueued  EventKind = "queued"  // the blob is part of the image
	EventStart   EventKind = "start"   // the download starts, or the verification if the layout has the blob
	EventAdvance EventKind = "advance" // more bytes have arrived
	EventRestart EventKind = "restart" // received bytes were discarded after an interruption or digest mismatch
	EventDone    EventKind = "done"    // the layout has the blob
)

// Event reports progress. It contains no secrets.
type Event struct {
	Kind   EventKind
	Digest string
	Config bool  // the blob is an image configuration, not a layer
	Size   int64 // size in bytes, from the manifest
	Bytes  int64 // bytes received so far
	Reused bool  // with EventDone: the layout already had it
}
