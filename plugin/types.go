// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"context"
	"time"
)

// The versions of the exec protocol (KEP-2133): V1 since Kubernetes 1.26, V1Beta1 since
// 1.24, V1Alpha1 since 1.20; kubelet 1.37 still supports all three.
const (
	V1       = "credentialprovider.kubelet.k8s.io/v1"
	V1Beta1  = "credentialprovider.kubelet.k8s.io/v1beta1"
	V1Alpha1 = "credentialprovider.kubelet.k8s.io/v1alpha1"
)

// OutOfTree is the version of the earlier proposal "Out-of-Tree Credential
// Providers", which no kubelet supports. The plugin gets the argument
// get-credentials and a request that contains only the image. Its response is one
// user name and password.
const OutOfTree = "v1alpha1"

// CacheKeyType is the scope in which a response may be cached. The kubelet discards
// responses whose value is not one of the three constants.
type CacheKeyType string

const (
	// CacheImage caches for the repository of the request, with any tag or digest.
	CacheImage CacheKeyType = "Image"
	// CacheRegistry caches for all images of the request's registry (host and port).
	CacheRegistry CacheKeyType = "Registry"
	// CacheGlobal caches for all images that match the provider.
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

	// ServiceAccountToken is a token bound to the pod whose image is pulled. It is sent
	// only in V1 and in service-account mode.
	ServiceAccountToken Secret

	// ServiceAccountAnnotations are those annotations of the pod's service account that
	// are selected in the configuration. They are sent only in V1.
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
	// defaultCacheDuration, and 0 disables caching. For a negative duration, the
	// kubelet adds an entry that has already expired.
	CacheDuration *time.Duration

	// Auth maps patterns, in the syntax of matchImages, to credentials. It is empty if
	// the provider has no credential for the image. An OutOfTree response has at most
	// one credential and no pattern.
	Auth map[string]AuthConfig
}

// AuthConfig is one credential of a [Response]. Both fields may be empty, which means
// anonymous.
type AuthConfig struct {
	Username string
	Password Secret
}

// Equal reports whether two credentials are equal.
func (a AuthConfig) Equal(b AuthConfig) bool {
	return a.Username == b.Username && a.Password.Equal(b.Password)
}

// Provider returns credentials for images. Implementations must be safe for concurrent
// use and must not retain or modify the request.
//
// If there are no credentials for the image, it returns a Response with an empty Auth.
// It returns an error if it could not determine whether there are any.
type Provider interface {
	GetCredentials(ctx context.Context, req *Request) (*Response, error)
}

// ProviderFunc is an adapter that implements [Provider] with a function.
type ProviderFunc func(ctx context.Context, req *Request) (*Response, error)

// GetCredentials calls f.
func (f ProviderFunc) GetCredentials(ctx context.Context, req *Request) (*Response, error) {
	return f(ctx, req)
}
