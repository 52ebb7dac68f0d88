// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// Request is the argument to [Keyring.Lookup]. Exactly one of Image and Registry is
// required.
type Request struct {
	// Image is an image reference. It is normalized as in the kubelet: "nginx:1.25"
	// becomes "docker.io/library/nginx".
	Image string

	// Registry is a host with an optional port, for callers that have no image name.
	// Providers whose patterns have a path are skipped.
	Registry string

	// Pod is the pod that pulls the image. It may be nil.
	Pod *Pod

	// PullSecrets lists the pod's image pull secrets. They are not cached.
	PullSecrets []PullSecret

	// Token and Annotations identify a service account for which the caller already has a
	// token. Responses are then cached by the token's hash.
	//
	// A provider gets the token only if its serviceAccountTokenAudience is one of the token's
	// audiences ("aud"). Otherwise, or if the token is not a JSON Web Token, its attempt fails
	// at [StageToken].
	Token       plugin.Secret
	Annotations map[string]string

	// NotBefore, if not zero, excludes cached responses that were stored earlier, for example
	// because a registry may have rejected them. The plugin is run again, and its response
	// replaces the cached one.
	NotBefore time.Time
}

// Pod identifies a pod and its service account. ServiceAccount may be empty.
type Pod struct {
	Namespace, Name, UID string
	ServiceAccount       string
}

// ServiceAccountClient reads service accounts and requests tokens for providers with
// tokenAttributes (KEP-4412). Implementations must be safe for concurrent use. When ctx
// is done, the keyring stops waiting and discards the result. Errors are displayed and
// logged, so they must not contain secrets.
type ServiceAccountClient interface {
	// GetServiceAccount reads a service account. The kubelet does this for each lookup;
	// an implementation may cache the result for a few seconds.
	GetServiceAccount(ctx context.Context, namespace, name string) (*ServiceAccount, error)
	// RequestToken returns a token with the API's default expiry. Like the kubelet, an
	// implementation should reuse a pod's token for most of its lifetime, because with
	// cacheType Token, the token is part of the cache key.
	RequestToken(ctx context.Context, req TokenRequest) (plugin.Secret, error)
}

// ServiceAccount has the fields of a Kubernetes service account that a keyring uses.
type ServiceAccount struct {
	Namespace, Name, UID string
	Annotations          map[string]string
}

// TokenRequest describes a service-account token for one audience that is bound to a
// pod.
type TokenRequest struct {
	Namespace, ServiceAccount, ServiceAccountUID string
	PodName, PodUID                              string
	Audience                                     string
}

func (r *Request) normalizedName() (string, error) {
	switch {
	case r.Image != "" && r.Registry != "":
		return "", errors.New("a request must name either an image or a registry, not both")
	case r.Registry != "":
		return match.Registry(r.Registry)
	default:
		return match.Repository(r.Image)
	}
}

// lookupKey is the image or registry for which a lookup searches credentials.
type lookupKey struct {
	name     string // normalized repository, or the host in a registry lookup
	registry string // name up to the first slash, including the port
	location location.Location

	notBefore time.Time // Request.NotBefore
}

func newLookupKey(req Request) (lookupKey, error) {
	name, err := req.normalizedName()
	if err != nil {
		return lookupKey{}, err
	}
	if len(name) > math.MaxUint16 {
		return lookupKey{}, fmt.Errorf("the image name is too long for a cache key (%d bytes)", len(name))
	}
	at, err := location.Parse(name)
	if err != nil {
		return lookupKey{}, err
	}
	registry, _, _ := strings.Cut(name, "/")
	return lookupKey{name: name, registry: registry, location: at, notBefore: req.NotBefore}, nil
}

// isRegistry reports whether k is a registry rather than an image.
func (k lookupKey) isRegistry() bool { return k.name == k.registry }

// scopedName returns the part of k.name that a cached response with the given scope covers.
func (k lookupKey) scopedName(scope plugin.CacheKeyType) string {
	switch scope {
	case plugin.CacheRegistry:
		return k.registry
	case plugin.CacheGlobal:
		return ""
	default:
		return k.name
	}
}
