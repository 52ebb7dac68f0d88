// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"github.com/regcred/regcred/plugin"
)

// The variables that [Options.ReadEnviron] reads.
const (
	EnvCacheDuration = "KUBE_SIDECAR_CACHE_DURATION"
	EnvCacheType     = "KUBE_SIDECAR_CACHE_TYPE"
	EnvMetadataHost  = "GCE_METADATA_HOST"
	EnvMetadataIP    = "GCE_METADATA_IP"
)

// EnvCredentials is the variable that names a file like
// [Options.CredentialsFile]. [InPod] reads it, and no plugin.
const EnvCredentials = "GOOGLE_APPLICATION_CREDENTIALS"

// ReadEnviron takes from an environment how long and for what answers are
// reused, and where the metadata server is. Variables that are empty change
// nothing.
func (o *Options) ReadEnviron(getenv func(string) string) error {
	if text := getenv(EnvCacheDuration); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return fmt.Errorf("%s=%q must be a duration such as 10m or 0s", EnvCacheDuration, text)
		}
		o.CacheDuration = &d
	}
	if text := getenv(EnvCacheType); text != "" {
		scope, ok := map[string]plugin.CacheKeyType{
			"image": plugin.CacheImage, "registry": plugin.CacheRegistry, "global": plugin.CacheGlobal,
		}[text]
		if !ok {
			return fmt.Errorf("%s=%q must be image, registry or global, in lowercase", EnvCacheType, text)
		}
		o.CacheKeyType = scope
	}
	if host := cmp.Or(getenv(EnvMetadataHost), brackets(getenv(EnvMetadataIP))); host != "" {
		if !isAddress(host) {
			return fmt.Errorf("%s or %s=%q must be host[:port]", EnvMetadataHost, EnvMetadataIP, host)
		}
		o.MetadataHost = host
	}
	return nil
}

// brackets writes an IPv6 address as it stands in a URL.
func brackets(ip string) string {
	if addr, err := netip.ParseAddr(ip); err == nil && addr.Is6() {
		return "[" + ip + "]"
	}
	return ip
}
