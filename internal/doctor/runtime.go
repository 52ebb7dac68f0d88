// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/containerd"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/probe"
	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/internal/route"
)

// Runtime is the runtime of a node, as far as an image's way depends on it.
type Runtime struct {
	node   node.Node
	found  *node.Runtime // nil: none is found
	config string        // of the containerd that serves the kubelet; "" if that is not known

	version containerd.Version // of that one; zero if it is not known
}

// maxGreeting is how long a runtime may take to say what it is.
const maxGreeting = 2 * time.Second

// FindRuntime finds the runtime that serves an endpoint of CRI, and asks it which
// version it is; without one, or where it cannot be told who serves it, that of the
// node.
func FindRuntime(ctx context.Context, n *node.Reading, endpoint string) *Runtime {
	r := &Runtime{node: n.Node}
	pid := 0
	if socket, ok := strings.CutPrefix(endpoint, "unix://"); ok {
		if served, err := containerd.Serving(ctx, socket); err == nil {
			pid, r.config, r.version = served.PID, served.File, served.Version
		}
		if dialed, err := pull.DialRuntime(ctx, endpoint, pull.RuntimeOptions{Timeout: maxGreeting}); err == nil {
			r.version = containerd.ParseVersion(dialed.Version)
			if dialed.Name != "containerd" {
				r.config = ""
			}
			dialed.Close()
		}
	}
	r.found = n.Runtime(ctx, pid)
	return r
}

// Probe is what counts of it for who asks in its place; own is this process's
// environment, which counts where the runtime's is not known.
func (r *Runtime) Probe(own []string) probe.Runtime {
	if r.found == nil {
		return probe.Runtime{Where: "this process, because no runtime was found", Environ: own, Own: own}
	}
	return probe.Runtime{Name: r.found.Name, Where: r.found.From, Environ: r.found.Environ, Started: r.found.Started, Own: own}
}

// Route is the way of an image through it.
func (r *Runtime) Route(image route.Image) (*route.Route, error) {
	all, err := r.mirrors()
	if err != nil {
		return nil, err
	}
	if len(all) > 0 {
		return all[0].Route(image), nil
	}
	name := "the runtime"
	if r.found != nil {
		name = r.found.Name
	}
	return OriginAlone(image, name), nil
}

// Says is the way of an image, if files say something of it; nil if they do not, or
// cannot be read.
func (r *Runtime) Says(image string) *route.Route {
	ref, err := route.Parse(image)
	if image == "" || err != nil {
		return nil
	}
	way, err := r.Route(ref)
	if err != nil || way.Fails == "" && len(way.Hops) == 1 && way.Hops[0].File == "" && len(way.Findings) == 0 {
		return nil
	}
	return way
}

// containerds are the configuration of the one that serves the kubelet, or of each
// that there is if that cannot be told.
func (r *Runtime) containerds() ([]*containerd.Runtime, error) {
	switch {
	case r.config != "":
		read, err := containerd.Read(r.node.Root, r.config, r.version)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil // the defaults count
		}
		if err != nil {
			return nil, err
		}
		return []*containerd.Runtime{read}, nil
	case r.found != nil && r.found.Name != "containerd":
		return nil, nil
	}
	var found []*containerd.Runtime
	for _, path := range containerdConfigs() {
		read, err := containerd.Read(r.node.Root, path, r.version)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, containerd.ErrNoCRI):
		case err != nil:
			return nil, err
		default:
			found = append(found, read)
		}
	}
	return found, nil
}

// containerdConfigs are where containerd's configuration is; that of k3s and
// RKE2 is their own.
func containerdConfigs() []string {
	list := []string{"/etc/containerd/config.toml"}
	for _, c := range node.RuntimeConfigs() {
		list = append(list, c.Containerd)
	}
	return list
}

// OriginAlone is the way of an image where no mirror is configured.
func OriginAlone(image route.Image, runtime string) *route.Route {
	host := image.Host
	if host == "docker.io" {
		host = "registry-1.docker.io"
	}
	hop := route.NewHop("https", host, "v2", image.Path)
	hop.Origin = true
	hop.HTTPToo = isLoopback(host)
	return &route.Route{Runtime: runtime, Repository: image.Repository, Files: []string{}, Hops: []route.Hop{hop}}
}

// isLoopback reports whether a host with a port is this machine by its name alone.
func isLoopback(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	addr, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && addr.Unmap().IsLoopback()
}
