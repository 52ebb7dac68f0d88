// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"strings"
	"time"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/containerd"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/probe"
	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/internal/registriesconf"
	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/internal/route"
)

// Runtime is a node's container runtime.
type Runtime struct {
	node   node.Node
	found  *node.Runtime // nil if none was found
	config string        // config.toml of the containerd that serves the kubelet; "" if unknown

	version containerd.Version // zero if unknown
}

// versionTimeout limits how long to wait for a runtime's name and version.
const versionTimeout = 2 * time.Second

// FindRuntime finds a kubelet's container runtime and queries its version. If the
// kubelet's CRI endpoint is unknown, it looks for the node's runtime. o may be nil.
func FindRuntime(ctx context.Context, n *node.Reader, o *node.Origin) *Runtime {
	endpoint, err := n.RuntimeEndpoint(node.AutoEndpoint, cmp.Or(o, &node.Origin{}))
	if err != nil { // no endpoint, or several
		endpoint = ""
	}
	r := &Runtime{node: n.Node}
	pid := 0
	if socket, ok := strings.CutPrefix(endpoint, "unix://"); ok {
		if served, err := containerd.FindDaemon(ctx, socket); err == nil {
			pid, r.config, r.version = served.PID, served.File, served.Version
		}
		if dialed, err := pull.DialRuntime(ctx, endpoint, pull.RuntimeOptions{Timeout: versionTimeout}); err == nil {
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

// ProbeSettings returns the runtime's proxies and CAs for package probe. If there is no
// runtime, it returns the settings of this process, whose environment is own.
func (r *Runtime) ProbeSettings(own []string) probe.Runtime {
	if r.found == nil {
		return probe.Runtime{Source: "this process, because no runtime was found", Environ: own, CallerEnviron: own}
	}
	return probe.Runtime{Name: r.found.Name, Source: r.found.From, Environ: r.found.Environ, Started: r.found.Started, CallerEnviron: own}
}

// Route returns the hosts that the runtime queries for an image.
func (r *Runtime) Route(image route.Image) (*route.Route, error) {
	all, err := r.mirrorConfigs()
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
	return OriginRoute(image, name), nil
}

// ConfiguredRoute returns the route of an image. It returns nil if no file of the
// runtime configures the route, or if the files cannot be read.
func (r *Runtime) ConfiguredRoute(image string) *route.Route {
	ref, err := route.Parse(image)
	if image == "" || err != nil {
		return nil
	}
	way, err := r.Route(ref)
	if err != nil || way.FailureReason == "" && len(way.Hops) == 1 && way.Hops[0].File == "" && !way.UsesOwnCredential() && len(way.Findings) == 0 {
		return nil
	}
	return way
}

// containerdRuntimes returns the configuration of the containerd that serves the
// kubelet. If that is unknown, it returns the configuration of each containerd on the
// node.
func (r *Runtime) containerdRuntimes() ([]*containerd.Runtime, error) {
	paths := containerdConfigPaths()
	switch {
	case r.config != "":
		paths = []string{r.config}
	case r.found != nil && r.found.Name != "containerd":
		return nil, nil
	}
	var found []*containerd.Runtime
	for _, path := range paths {
		read, err := containerd.Read(r.node.Root, path, r.version)
		switch {
		case errors.Is(err, fs.ErrNotExist): // then containerd uses its defaults
		case errors.Is(err, containerd.ErrNoCRI) && r.config == "":
		case err != nil:
			return nil, err
		default:
			found = append(found, read)
		}
	}
	return found, nil
}

// containerdConfigPaths returns the usual paths of config.toml, including k3s and RKE2.
func containerdConfigPaths() []string {
	list := []string{"/etc/containerd/config.toml"}
	for _, c := range node.RuntimeConfigs() {
		list = append(list, c.Containerd)
	}
	return list
}

// OriginRoute returns an image's route without mirrors.
func OriginRoute(image route.Image, runtime string) *route.Route {
	host := image.Host
	if host == registry.DockerHub {
		host = registry.DockerHubServer
	}
	hop := route.NewHop("https", host, "v2", image.Path)
	hop.IsOrigin = true
	hop.TriesHTTPSFirst = isLoopback(host)
	return &route.Route{Runtime: runtime, Repository: image.Repository, Files: []string{}, Hops: []route.Hop{hop}}
}

// isLoopback reports whether a host, ignoring its port, is a loopback address.
func isLoopback(host string) bool { return registry.IsLoopback((&url.URL{Host: host}).Hostname()) }

// mirrorConfig is the mirror configuration of a runtime.
type mirrorConfig interface {
	Hosts() []string // image hosts with their own settings
	Route(route.Image) *route.Route
	Check() []finding.Finding
}

// mirrorConfigs reads the mirror configuration of the runtime. If the runtime is unknown, it
// reads the configuration of each possible runtime.
func (r *Runtime) mirrorConfigs() (list []mirrorConfig, err error) {
	found, err := r.containerdRuntimes()
	if err != nil {
		return nil, err
	}
	for _, c := range found {
		list = append(list, c)
	}
	c, err := r.registriesConfig()
	if c != nil {
		list = append(list, c)
	}
	return list, err
}

// registriesConfig reads CRI-O's registries.conf files. It returns nil if CRI-O is not
// on the node.
func (r *Runtime) registriesConfig() (*registriesconf.Config, error) {
	const crio = registriesconf.CRIO
	switch {
	case r.found != nil && r.found.Name != crio:
		return nil, nil
	case r.found == nil && !(inroot.FS{Root: r.node.Root}).Exists("/etc/crio"):
		return nil, nil
	}
	return registriesconf.Read(registriesconf.Options{Runtime: crio, Root: r.node.Root})
}
