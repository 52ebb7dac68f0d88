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

// CacheKeyType is the scope for which a response may be cached. A kubelet
// discards responses with other values than the three constants.
type CacheKeyType string

const (
	// CacheImage is for the repository of the request, with any tag or digest.
	CacheImage CacheKeyType = "Image"
	// CacheRegistry is for all images of the request's registry (host and port).
	CacheRegistry CacheKeyType = "Registry"
	// CacheGlobal is for all images that match the provider.
	CacheGlobal CacheKeyType = "Global"
)

// Request is the CredentialProviderRequest on a plugin's standard input, in any
// version (KEP-2133; service-account fields: KEP-4412).
type Request struct {
	// APIVersion is V1, V1Beta1, V1Alpha1 or OutOfTree. [Command] replaces it
	// by its own APIVersion.
	APIVersion string

	// Image is the normalized repository, without tag or digest, for example
	// "docker.io/library/nginx".
	Image string

	// ServiceAccountToken is bound to the pod for which the image is pulled. It
	// is sent only in V1 and in service-account mode.
	ServiceAccountToken Secret

	// ServiceAccountAnnotations are the annotations of the pod's service account
	// that the configuration selects. They are sent only in V1.
	ServiceAccountAnnotations map[string]string
}

// Response is the CredentialProviderResponse on a plugin's standard output, in
// any version.
type Response struct {
	// APIVersion is the version of the request. [Serve] sets it.
	APIVersion string

	// CacheKeyType is required. For OutOfTree it is always CacheImage.
	CacheKeyType CacheKeyType

	// CacheDuration is how long the response may be cached. nil means the
	// defaultCacheDuration of the host's configuration. 0 disables caching; for a
	// negative duration a kubelet adds an entry that has expired.
	CacheDuration *time.Duration

	// Auth maps patterns, in the syntax of matchImages, to credentials. It is
	// empty if the provider knows no credential for the image. An OutOfTree
	// response has at most one credential, without a pattern.
	Auth map[string]AuthConfig
}

// AuthConfig is one credential of a [Response]. Both fields may be empty, which means
// anonymous.
type AuthConfig struct {
	Username string
	Password Secret
}

// Equal reports whether two credentials are the same.
func (a AuthConfig) Equal(b AuthConfig) bool {
	return a.Username == b.Username && a.Password.Equal(b.Password)
}

// A Provider returns credentials for images. Implementations must be safe for
// concurrent use and must not keep or change the request.
//
// Without credentials for the image, it returns a Response with an empty Auth. An error
// means that it could not find out.
type Provider interface {
	GetCredentials(ctx context.Context, req *Request) (*Response, error)
}

// ProviderFunc is a function that implements [Provider].
type ProviderFunc func(ctx context.Context, req *Request) (*Response, error)

// GetCredentials calls f.
func (f ProviderFunc) GetCredentials(ctx context.Context, req *Request) (*Response, error) {
	return f(ctx, req)
}
