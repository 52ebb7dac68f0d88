// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/regcred/regcred"
)

// The types below are copies of the kubelet's types in
// k8s.io/kubernetes/pkg/credentialprovider, which this module does not import. upstream/inside
// compiles such an adapter with the real types.
type (
	DockerKeyring interface {
		Lookup(image string) ([]TrackedAuthConfig, bool)
	}
	AuthConfig                struct{ Username, Password string }
	ServiceAccountCoordinates struct{ UID, Namespace, Name string }
	CredentialSource          struct{ ServiceAccount *ServiceAccountCoordinates }
	TrackedAuthConfig         struct {
		AuthConfig
		Source *CredentialSource
	}
)

func NewTrackedAuthConfig(auth *AuthConfig, source *CredentialSource) *TrackedAuthConfig {
	return &TrackedAuthConfig{*auth, source}
}

// podKeyring implements DockerKeyring for the images of one pod.
type podKeyring struct {
	keyring *regcred.Keyring
	pod     *regcred.Pod
}

func (k podKeyring) Lookup(image string) (found []TrackedAuthConfig, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	result, err := k.keyring.Lookup(ctx, regcred.Request{Image: image, Pod: k.pod})
	if err != nil {
		slog.Error("registry credentials", "image", image, "err", err)
	}
	if result == nil {
		return nil, false
	}
	for _, c := range result.Credentials {
		var source *CredentialSource
		if sa := c.Origin.ServiceAccount; sa != nil {
			source = &CredentialSource{ServiceAccount: &ServiceAccountCoordinates{UID: sa.UID, Namespace: sa.Namespace, Name: sa.Name}}
		}
		auth := AuthConfig{Username: c.Username, Password: c.Password.Reveal()}
		found = append(found, *NewTrackedAuthConfig(&auth, source))
	}
	return found, len(found) > 0
}

// This example implements the kubelet's interface DockerKeyring with a Keyring.
func ExampleKeyring_kubelet() {
	keyring := exampleKeyring(regcred.Options{ServiceAccounts: staticAccounts{}}, askAsTeam)
	defer keyring.Close()

	pod := &regcred.Pod{Namespace: "shop", Name: "web-0", UID: "9b2e71f4", ServiceAccount: "web"}
	var kubelet DockerKeyring = podKeyring{keyring, pod}
	found, ok := kubelet.Lookup("tenants.example/shop/web")
	fmt.Println(found[0].Username, *found[0].Source.ServiceAccount, ok)
	// Output:
	// a token of shop/web for tenants.example, bound to pod web-0
	// shop {5d0a5a2c shop web} true
}
