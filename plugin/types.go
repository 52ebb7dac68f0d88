// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"context"
	"time"
)

// Group is the API group of the exec protocol (KEP-2133).
const Group = "credentialprovider.kubelet.k8s.io"

// The versions of the exec protocol that a kubelet speaks. V1 exists since
// Kubernetes 1.26, V1Beta1 since 1.24, V1Alpha1 since 1.20; kubelet 1.37 still
// speaks all three.
const (
	V1       = Group + "/v1"
	V1Beta1  = Group + "/v1beta1"
	V1Alpha1 = Group + "/v1alpha1"
)

// OutOfTree is the apiVersion under which [Command] and [Request] name the
// protocol of the predecessor, "Out-of-Tree Credential Providers", as its
// document writes it. No kubelet has ever spoken it. The plugin gets the argument
// get-credentials and a request that is nothing but the image; its answer is
// one user name and password.
const OutOfTree = "v1alpha1"

// The kinds of the exec protocol.
const (
	KindRequest  = "CredentialProviderRequest"
	KindResponse = "CredentialProviderResponse"
)

// What the predecessor's document calls the two kinds. Its requests do not
// say their kind, and its answers need not.
const (
	KindOutOfTreeRequest  = "RegistryCredentialPluginRequest"
	KindOutOfTreeResponse = "RegistryCredentialPluginResponse"
)

// CacheKeyType says for what an answer may be reused.
// Values other than the three constants make a kubelet drop the answer.
type CacheKeyType string

const (
	// CacheImage: for the image of the request alone (its repository, without tag or digest).
	CacheImage CacheKeyType = "Image"
	// CacheRegistry: for every image of the request's registry (host and port).
	CacheRegistry CacheKeyType = "Registry"
	// CacheGlobal: for every image that the provider is asked about.
	CacheGlobal CacheKeyType = "Global"
)

// Valid reports whether a kubelet accepts t in an answer.
func (t CacheKeyType) Valid() bool {
	return t == CacheImage || t == CacheRegistry || t == CacheGlobal
}

// Request is the CredentialProviderRequest that a plugin reads from its
// standard input, in any version (KEP-2133; service-account fields: KEP-4412).
type Request struct {
	// APIVersion is one of V1, V1Beta1, V1Alpha1 and OutOfTree. A [Command]
	// fills it in from its own APIVersion, so callers leave it empty.
	APIVersion string

	// Image is the normalised repository of the image, without tag or digest,
	// e.g. "docker.io/library/nginx".
	Image string

	// ServiceAccountToken is a token bound to the pod for which the image is
	// pulled. Only V1 carries it, and only in service-account mode.
	ServiceAccountToken Secret

	// ServiceAccountAnnotations are those annotations of the pod's service
	// account that the configuration selects. Only V1 carries them.
	ServiceAccountAnnotations map[string]string
}

// Response is the CredentialProviderResponse that a plugin writes to its
// standard output, in any version.
type Response struct {
	// APIVersion is the version of the request that is answered. [Serve]
	// fills it in, so providers leave it empty.
	APIVersion string

	// CacheKeyType is required. Answers of OutOfTree are for the image alone.
	CacheKeyType CacheKeyType

	// CacheDuration is how long the answer may be reused. nil means the
	// defaultCacheDuration of the host's configuration, 0 not at all; a
	// negative one is taken by a kubelet for an entry that has expired.
	CacheDuration *time.Duration

	// Auth maps patterns, in the syntax of matchImages, to credentials.
	// Empty means that the provider has no credentials for the image. An
	// answer of OutOfTree has at most one credential, and no pattern.
	Auth map[string]AuthConfig
}

// AuthConfig is one credential of a [Response]. Both fields may be empty.
type AuthConfig struct {
	Username string
	Password Secret
}

// IsZero reports whether both fields are empty, which means anonymous.
func (a AuthConfig) IsZero() bool { return a.Username == "" && a.Password.IsZero() }

// Equal reports whether two credentials are the same.
func (a AuthConfig) Equal(b AuthConfig) bool {
	return a.Username == b.Username && a.Password.Equal(b.Password)
}

// A Provider answers credential requests. Implementations must be safe for
// concurrent use and must not keep or change the request.
//
// An answer without credentials is a Response with an empty Auth, not an
// error: an error means that the question could not be answered.
type Provider interface {
	GetCredentials(ctx context.Context, req *Request) (*Response, error)
}

// ProviderFunc makes a [Provider] of a function.
type ProviderFunc func(ctx context.Context, req *Request) (*Response, error)

// GetCredentials calls f.
func (f ProviderFunc) GetCredentials(ctx context.Context, req *Request) (*Response, error) {
	return f(ctx, req)
}
