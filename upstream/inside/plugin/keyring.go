// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/kubernetes/pkg/credentialprovider"

	"github.com/regcred/regcred"
)

// lookupTimeout limits a lookup, because the kubelet passes no context. In a lookup a token
// request, waiting for another lookup's exec, and an exec may each take up to a minute.
const lookupTimeout = 5 * time.Minute

// podKeyring is the keyring of the registered providers for one pod.
type podKeyring struct {
	pod     *regcred.Pod
	failure atomic.Pointer[lookupFailure] // failure of the last Lookup
}

// NewExternalCredentialProviderDockerKeyring returns a keyring of the registered providers for a
// pod. Each argument may be empty. [LookupErr] returns the error of the keyring's last Lookup.
func NewExternalCredentialProviderDockerKeyring(podNamespace, podName, podUID, serviceAccountName string) credentialprovider.DockerKeyring {
	k := &podKeyring{}
	if tokensEnabled() {
		k.pod = &regcred.Pod{Namespace: podNamespace, Name: podName, UID: podUID, ServiceAccount: serviceAccountName}
	}
	return k
}

// Lookup implements credentialprovider.DockerKeyring. It is safe for concurrent use.
func (k *podKeyring) Lookup(image string) ([]credentialprovider.TrackedAuthConfig, bool) {
	found := []credentialprovider.TrackedAuthConfig{}
	p := currentProviders.Load()
	if p == nil {
		return found, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	p.reloadIfChanged(ctx)
	res, err := p.keyring.Lookup(ctx, k.newRequest(image))
	if res == nil {
		res = &regcred.Result{}
	}
	logAttempts(k.pod, image, res, err)
	k.failure.Store(newLookupFailure(res, err))
	for i := range res.Credentials {
		found = append(found, trackedAuthConfig(&res.Credentials[i]))
	}
	return found, len(found) > 0
}

// newRequest returns the Request for an image. The kubelet passes a repository without a tag. A
// name without a slash is a registry; as an image it would be resolved to Docker Hub.
func (k *podKeyring) newRequest(image string) regcred.Request {
	if strings.Contains(image, "/") {
		return regcred.Request{Image: image, Pod: k.pod}
	}
	return regcred.Request{Registry: image, Pod: k.pod}
}

// trackedAuthConfig converts a credential to the type that the kubelet uses for its records of
// pulled images (KEP-2535). It includes the credential's service account, if there is one.
func trackedAuthConfig(c *regcred.Credential) credentialprovider.TrackedAuthConfig {
	auth := credentialprovider.AuthConfig{Username: c.Username, Password: c.Password.Reveal()}
	var source *credentialprovider.CredentialSource
	if sa := c.Origin.ServiceAccount; sa != nil {
		source = &credentialprovider.CredentialSource{
			ServiceAccount: &credentialprovider.ServiceAccountCoordinates{UID: sa.UID, Namespace: sa.Namespace, Name: sa.Name},
		}
	}
	return *credentialprovider.NewTrackedAuthConfig(&auth, source)
}
