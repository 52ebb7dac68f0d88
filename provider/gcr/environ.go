// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/regcred/regcred/plugin"
)

// Variables read by [Options.ReadEnviron].
const (
	EnvCacheDuration = "KUBE_SIDECAR_CACHE_DURATION"
	EnvCacheType     = "KUBE_SIDECAR_CACHE_TYPE"
	EnvMetadataHost  = "GCE_METADATA_HOST"
	EnvMetadataIP    = "GCE_METADATA_IP"
)

// EnvCredentials is the variable that sets [Options.CredentialsFile] in [InPod].
const EnvCredentials = "GOOGLE_APPLICATION_CREDENTIALS"

func (o *Options) getenv(name string) string {
	if o.Getenv == nil {
		return os.Getenv(name)
	}
	return o.Getenv(name)
}

// ReadEnviron sets CacheDuration, CacheKeyType and MetadataHost from the environment.
// It ignores empty variables.
func (o *Options) ReadEnviron() error {
	if text := o.getenv(EnvCacheDuration); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return fmt.Errorf("%s=%q must be a duration such as 10m or 0s", EnvCacheDuration, text)
		}
		o.CacheDuration = &d
	}
	if text := o.getenv(EnvCacheType); text != "" {
		scope, ok := map[string]plugin.CacheKeyType{
			"image": plugin.CacheImage, "registry": plugin.CacheRegistry, "global": plugin.CacheGlobal,
		}[text]
		if !ok {
			return fmt.Errorf("%s=%q must be image, registry or global, in lowercase", EnvCacheType, text)
		}
		o.CacheKeyType = scope
	}
	if host := cmp.Or(o.getenv(EnvMetadataHost), bracketIPv6(o.getenv(EnvMetadataIP))); host != "" {
		if !isHostPort(host) {
			return fmt.Errorf("%s or %s=%q must be host[:port]", EnvMetadataHost, EnvMetadataIP, host)
		}
		o.MetadataHost = host
	}
	return nil
}

// bracketIPv6 encloses an IPv6 address in brackets, as URLs require.
func bracketIPv6(ip string) string {
	if addr, err := netip.ParseAddr(ip); err == nil && addr.Is6() {
		return "[" + ip + "]"
	}
	return ip
}

// InPod returns a provider for a program in a pod. It uses the workload identity federation
// configured by GOOGLE_APPLICATION_CREDENTIALS. Without this variable, it queries the metadata
// server. On GKE with workload identity, the metadata server returns the pod's identity. Elsewhere,
// it returns the node's identity. InPod also calls [Options.ReadEnviron].
func InPod(opts Options) (*Provider, error) {
	if file := opts.getenv(EnvCredentials); file != "" {
		opts.CredentialsFile = file
	}
	if err := opts.ReadEnviron(); err != nil {
		return nil, err
	}
	p, err := New(opts)
	if err != nil {
		return nil, err
	}
	p.inPod = true
	return p, nil
}
