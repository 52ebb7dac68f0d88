// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"context"
	"time"
)

// The versions of the exec protocol (KEP-2133). V1 exists since Kubernetes 1.26, V1Beta1 since
// 1.24, and V1Alpha1 since 1.20. In addition to V1, kubelet 1.37 still supports the older two.
const (
	V1       = "credentialprovider.kubelet.k8s.io/v1"
	V1Beta1  = "credentialprovider.kubelet.k8s.io/v1beta1"
	V1Alpha1 = "credentialprovider.kubelet.k8s.io/v1alpha1"
)

// OutOfTree is the version of the earlier proposal "Out-of-Tree Credential Providers", which no
// kubelet supports. The plugin is run with the argument get-credentials and gets a request that
// contains only the image. Its response is one user name and password.
const OutOfTree = "v1alpha1"

// CacheKeyType is the scope for which a response may be cached. The kubelet rejects a response
// with a value other than these three constants.
type CacheKeyType string

const (
	// CacheImage means that the response is cached for the requested repository, with any tag
	// or digest.
	CacheImage CacheKeyType = "Image"
	// CacheRegistry means that the response is cached for all images of the same registry (host
	// and port).
	CacheRegistry CacheKeyType = "Registry"
	// CacheGlobal means that the response is cached for all images that match the provider.
	CacheGlobal CacheKeyType = "Global"
)

// Request is the CredentialProviderRequest that a plugin reads from standard input, in
// any version (KEP-2133; service-account fields: KEP-4412).
type Request struct {
	// APIVersion is V1, V1Beta1, V1Alpha1 or OutOfTree. [Command] replaces it with its
	// own APIVersion.
	APIVersion string

	// Image is the normalized repository without tag and digest, such as
	// "docker.io/library/nginx".
	Image string

	// ServiceAccountToken is a token that is bound to the pod whose image is pulled. It is sent
	// only in V1 and in service-account mode.
	ServiceAccountToken Secret

	// ServiceAccountAnnotations are the annotations of the pod's service account that the
	// configuration selects. They are sent only in V1.
	ServiceAccountAnnotations map[string]string
}

// Response is the CredentialProviderResponse that a plugin writes to standard output,
// in any version.
type Response struct {
	// APIVersion is the version of the request. [Serve] sets it.
	APIVersion string

	// CacheKeyType is required. For OutOfTree it is always CacheImage.
	CacheKeyType CacheKeyType

	// CacheDuration is how long the response may be cached. nil means the configured
	// defaultCacheDuration, and 0 disables caching. A negative duration also disables caching,
	// because the kubelet stores a cache entry that has already expired.
	CacheDuration *time.Duration

	// Auth maps patterns to credentials. The patterns have the syntax of matchImages. Auth is
	// empty if the provider has no credential for the image. An OutOfTree response has at most
	// one credential and no pattern.
	Auth map[string]AuthConfig
}

// AuthConfig is one credential of a [Response]. If both fields are empty, the credential is
// anonymous.
type AuthConfig struct {
	Username string
	Password Secret
}

// Equal reports whether two credentials are equal.
func (a AuthConfig) Equal(b AuthConfig) bool {
	return a.Username == b.Username && a.Password.Equal(b.Password)
}

// Provider returns credentials for images. Implementations must be safe for concurrent use and
// must not retain or modify the request.
//
// If there are no credentials for the image, GetCredentials returns a Response with an empty
// Auth. It returns an error only if it could not determine whether there are any.
type Provider interface {
	GetCredentials(ctx context.Context, req *Request) (*Response, error)
}

// ProviderFunc is an adapter that implements [Provider] with a function.
type ProviderFunc func(ctx context.Context, req *Request) (*Response, error)

// GetCredentials calls f.
func (f ProviderFunc) GetCredentials(ctx context.Context, req *Request) (*Response, error) {
	return f(ctx, req)
}
