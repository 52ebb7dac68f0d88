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

// lookupTimeout ends a lookup, for which the kubelet has no context: longer than
// the minute that each token request and exec has, one after the other, and
// another exec after that of somebody else was waited for.
const lookupTimeout = 5 * time.Minute

// podKeyring is the providers' keyring for the images of one pod.
type podKeyring struct {
	pod     *regcred.Pod
	failure atomic.Pointer[lookupFailure] // of the last Lookup
}

// NewExternalCredentialProviderDockerKeyring returns the registered providers'
// keyring for a pod; each argument may be empty. What a Lookup has failed with
// is had from it by [LookupErr].
func NewExternalCredentialProviderDockerKeyring(podNamespace, podName, podUID, serviceAccountName string) credentialprovider.DockerKeyring {
	k := &podKeyring{}
	if withTokens() {
		k.pod = &regcred.Pod{Namespace: podNamespace, Name: podName, UID: podUID, ServiceAccount: serviceAccountName}
	}
	return k
}

// Lookup implements credentialprovider.DockerKeyring. It is safe for concurrent use.
func (k *podKeyring) Lookup(image string) ([]credentialprovider.TrackedAuthConfig, bool) {
	found := []credentialprovider.TrackedAuthConfig{}
	p := current.Load()
	if p == nil {
		return found, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	p.refresh(ctx)
	res, err := p.keyring.Lookup(ctx, k.request(image))
	if res == nil {
		res = &regcred.Result{}
	}
	logAttempts(k.pod, image, res, err)
	k.failure.Store(failureOf(res, err))
	for i := range res.Credentials {
		found = append(found, tracked(&res.Credentials[i]))
	}
	return found, len(found) > 0
}

// request is the question for an image. A kubelet asks with the name of a
// repository alone; a name without a slash would be taken for one of Docker Hub's.
func (k *podKeyring) request(image string) regcred.Request {
	if strings.Contains(image, "/") {
		return regcred.Request{Image: image, Pod: k.pod}
	}
	return regcred.Request{Registry: image, Pod: k.pod}
}

// tracked is a credential as the kubelet's records of pulled images have it
// (KEP-2535): of nobody in particular, or of a service account.
func tracked(c *regcred.Credential) credentialprovider.TrackedAuthConfig {
	auth := credentialprovider.AuthConfig{Username: c.Username, Password: c.Password.Reveal()}
	var source *credentialprovider.CredentialSource
	if sa := c.Origin.ServiceAccount; sa != nil {
		source = &credentialprovider.CredentialSource{
			ServiceAccount: &credentialprovider.ServiceAccountCoordinates{UID: sa.UID, Namespace: sa.Namespace, Name: sa.Name},
		}
	}
	return *credentialprovider.NewTrackedAuthConfig(&auth, source)
}
