// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package pull pulls an image with a list of credentials, as a kubelet and its
// container runtime would: with none, once anonymously; otherwise once with
// each in order until one succeeds, and never anonymously after that. A
// [Puller] pulls into an OCI image layout:
//
//	p := &pull.Puller{Refused: keyring.Invalidate}
//	res, err := p.Pull(ctx, "registry.example/team/app:v1", creds, "./app")
//
// and a [Runtime] has a container runtime pull, over CRI.
//
// A Puller's credential goes to the image's registry and to the token server
// that this registry names, over TLS unless the registry is on loopback, and
// never along with a redirect. Nothing enters the layout that has not been
// verified, and its index changes only when everything is there.
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

// Puller pulls images. The zero value is ready to use; the fields must not
// change while a pull runs. It is safe for concurrent use, also for pulls
// into one directory. Where the system has flock(2), several processes may
// pull into one directory too; on others (Windows) they must take turns.
type Puller struct {
	// Transport makes the requests; nil means [http.DefaultTransport].
	Transport http.RoundTripper

	// Platform is "os/architecture" or "os/architecture/variant"; "" means
	// linux on this program's architecture. "all" takes an index
	// with all that it lists.
	Platform string

	// Insecure allows plain HTTP to the image's registry (only to that host)
	// where TLS does not answer. Registries on loopback need no permission.
	Insecure bool

	// Parallel is how many blobs of an image are downloaded at a time; 0
	// means 3, as in most runtimes.
	Parallel int

	// IdleTimeout ends a request on which no byte arrives for so long; 0
	// means 30 seconds. One is also ended of which less than 32 KiB arrive in
	// a minute of waiting for it. A deadline for the whole pull is the context's.
	IdleTimeout time.Duration

	// Retry says how failed requests are repeated; its Budget is for one Pull.
	Retry login.Retry

	// Progress, if not nil, is told what happens to each blob, from several
	// goroutines. It must not block.
	Progress func(Event)

	// Refused, if not nil, is called with each credential that a registry or
	// its token server answered with 401. Other failures do not prove a
	// credential wrong: registries answer 403 and 404 for other reasons.
	Refused func(regcred.Credential)

	mu sync.Mutex // held while an index.json changes
}

// Result is a successful pull.
type Result struct {
	Image    string // the full reference, which the layout's index.json carries as org.opencontainers.image.ref.name
	Digest   string // of the manifest or index that index.json names, "sha256:…"
	Resolved string // what the reference names at the registry; differs from Digest where one platform was taken from an index

	MediaType string
	Platform  string // e.g. "linux/amd64"; "" for an index, or where the image names none

	Layers []Layer // in the order of the manifests; each once
	Bytes  int64   // downloaded: blobs and manifests, without retries

	Credential *regcred.Credential // the one that worked; nil if none was needed
	Failed     []Try               // those that were tried before it
}

// Layer is one layer of a pulled image.
type Layer struct {
	Digest string
	Size   int64 // bytes
	Reused bool  // it was in the layout, and was verified there
}

// Pull pulls an image into the OCI image layout at dir, which is created if
// it does not exist. A directory that is neither empty nor a layout is left
// as it is. Blobs that are there already are verified before they are used.
//
// If every try fails the error is an [*Error], which names them all. It
// matches [context.Canceled], [context.DeadlineExceeded] and syscall.ENOSPC
// with [errors.Is]. What has been downloaded and verified by then stays in
// dir/blobs for the next pull; index.json is as before. Only a process that
// is killed leaves temporary files (".tmp-…") behind, which the next pull into
// dir takes away.
func (p *Puller) Pull(ctx context.Context, image string, creds []regcred.Credential, dir string) (*Result, error) {
	t, err := parseTarget(image, p.Insecure)
	if err != nil {
		return nil, fmt.Errorf("pulling %q: %w", image, err)
	}
	want, err := parsePlatform(p.Platform)
	if err != nil {
		return nil, fmt.Errorf("pulling %q: %w", image, err)
	}
	if err := layout.Check(ctx, dir); err != nil {
		return nil, fmt.Errorf("pulling %q: %w", image, err)
	}
	j := &job{p: p, want: want, dir: dir, target: t, registry: &login.Registry{
		Target: t.Target, Secrets: &login.Secrets{},
		Transport: p.Transport, Idle: p.IdleTimeout, Budget: login.NewBudget(p.Retry),
	}}
	var res *Result
	used, failed, err := inTurn(ctx, j.registry.Secrets, t.name, creds, p.Refused, func(cred *regcred.Credential) (err error) {
		res, err = j.try(ctx, cred)
		return err
	})
	if err != nil {
		return nil, err
	}
	res.Credential, res.Failed = used, failed
	return res, nil
}

// job is one call of Pull.
type job struct {
	p        *Puller
	target   target
	registry *login.Registry
	want     platform
	dir      string
}

// try is one whole pull with one credential.
func (j *job) try(ctx context.Context, cred *regcred.Credential) (*Result, error) {
	s, err := j.login(ctx, cred)
	if err != nil {
		return nil, err
	}
	pl, err := s.plan(ctx, j.want)
	if err != nil {
		return nil, err
	}
	lay, err := layout.Open(j.dir)
	if err != nil {
		return nil, err
	}
	defer lay.Close()
	f := &fetcher{session: s, layout: lay, progress: j.p.Progress, parallel: cmp.Or(j.p.Parallel, 3)}
	if err := f.fetch(ctx, pl); err != nil {
		return nil, err
	}
	for !j.p.mu.TryLock() { // not Lock, which would not end with the context
		if !remote.Pause(ctx, 20*time.Millisecond) {
			return nil, cmp.Or(ctx.Err(), context.DeadlineExceeded)
		}
	}
	defer j.p.mu.Unlock()
	if err := lay.Name(ctx, pl.root, j.target.name); err != nil {
		return nil, err
	}
	return j.result(pl, f), nil
}

// result describes what was stored.
func (j *job) result(pl *plan, f *fetcher) *Result {
	res := &Result{
		Image:     j.target.name,
		Digest:    pl.root.Digest.String(),
		Resolved:  pl.resolved.String(),
		MediaType: string(pl.root.MediaType),
		Bytes:     f.bytes.Load(),
	}
	if pl.root.Platform != nil {
		res.Platform = j.registry.Secrets.Scrub(pl.root.Platform.String()) // the registry's words
	}
	for i, b := range pl.blobs {
		if !b.config {
			res.Layers = append(res.Layers, Layer{b.Digest.String(), b.Size, f.reused[i]})
		}
	}
	return res
}
