// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cloud_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/keychain"
	"github.com/regcred/regcred/keychain/cloud"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/acr"
	"github.com/regcred/regcred/provider/ecr"
	"github.com/regcred/regcred/provider/gcr"
)

// docs/keychain-cloud.md quotes these examples. TestDocsQuoteExamples checks that the copies match.

// exampleCloud starts a fake of Amazon's cloud on loopback. It sets the environment of a pod whose
// service account has a role.
func exampleCloud() (end func()) {
	aws, err := testcloud.NewAWS()
	if err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	token, ends := filepath.Join(dir, "token"), []func(){aws.Close, func() { os.RemoveAll(dir) }}
	if err := os.WriteFile(token, []byte(canary.TokenSecret), 0o600); err != nil {
		panic(err)
	}
	for _, entry := range append(aws.Environ(), "AWS_ROLE_ARN="+roleARN, "AWS_WEB_IDENTITY_TOKEN_FILE="+token) {
		name, value, _ := strings.Cut(entry, "=")
		before, was := os.LookupEnv(name)
		ends = append(ends, func() {
			if os.Unsetenv(name); was {
				os.Setenv(name, before)
			}
		})
		os.Setenv(name, value)
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// A controller pulls from ECR with its pod's identity.
func Example() {
	defer exampleCloud()()

	amazon, err := ecr.InPod(ecr.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	keyring, err := cloud.New(regcred.Options{}, cloud.Provider{Provider: amazon})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keyring.Close()

	image := "111122223333.dkr.ecr.eu-west-1.amazonaws.com/team/app:v1"
	result, err := keyring.Lookup(context.Background(), regcred.Request{Image: image})
	if err != nil {
		fmt.Println("do not pull:", err) // nor anonymously
		return
	}
	for _, c := range result.Credentials {
		fmt.Println(c.Username, c.Password, "from", c.Provider)
	}
	// Output: AWS [redacted] from ecr-credential-provider
}

// askTeam is the program's own provider. It fails, because its registry is down.
func askTeam(context.Context, *plugin.Request) (*plugin.Response, error) {
	return nil, errors.New("503 Service Unavailable")
}

// A controller pulls from three clouds, from ECR Public, and from a registry with its own provider.
// A lookup calls only the providers that match the image.
func ExampleNew() {
	defer exampleCloud()()

	amazon, err1 := ecr.InPod(ecr.Options{})
	google, err2 := gcr.InPod(gcr.Options{})
	azure, err3 := acr.InPod(acr.Options{})
	if err := errors.Join(err1, err2, err3); err != nil {
		fmt.Println(err)
		return
	}
	keyring, err := cloud.New(regcred.Options{},
		cloud.Provider{Provider: amazon, MatchImages: []string{"public.ecr.aws"}},
		cloud.Provider{Provider: google},
		cloud.Provider{Provider: azure},
		cloud.Provider{Name: "team", MatchImages: []string{"registry.example"}, Provider: plugin.ProviderFunc(askTeam)},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keyring.Close()

	for _, image := range []string{"public.ecr.aws/docker/library/nginx", "registry.example/app", "docker.io/library/nginx"} {
		result, err := keyring.Lookup(context.Background(), regcred.Request{Image: image})
		var failed *regcred.LookupError
		switch {
		case errors.As(err, &failed):
			fmt.Println(image, "fails:", result.Attempts[0].Provider)
		case len(result.Credentials) == 0:
			fmt.Println(image, "needs no credential")
		default:
			fmt.Println(image, "as", result.Credentials[0].Username)
		}
	}
	// Output:
	// public.ecr.aws/docker/library/nginx as AWS
	// registry.example/app fails: team
	// docker.io/library/nginx needs no credential
}

// A controller pulls with go-containerregistry and package keychain. The registry
// is a host in front of ECR.
func ExampleNew_pull() {
	defer exampleCloud()()
	registry, end := exampleRegistry()
	defer end()

	amazon, err := ecr.InPod(ecr.Options{AllowHosts: []string{registry + "=eu-west-1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	keyring, err := cloud.New(regcred.Options{}, cloud.Provider{Provider: amazon})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keyring.Close()

	ref, err := name.ParseReference(registry + "/team/app:v1")
	if err != nil {
		fmt.Println(err)
		return
	}
	transport, err := keychain.New(keyring, keychain.Options{}).Transport(ref.Context())
	if err != nil {
		fmt.Println(err)
		return
	}
	image, err := remote.Image(ref, remote.WithTransport(transport.Wrapper()))
	if err != nil {
		fmt.Println(err)
		return
	}
	layers, err := image.Layers()
	fmt.Println(len(layers), "layers", err)
	// Output: 2 layers <nil>
}

// exampleRegistry starts a registry that requires the password from exampleCloud.
func exampleRegistry() (host string, end func()) {
	s, err := testregistry.New(testregistry.Options{Auth: testregistry.AuthBearer, Users: map[string]string{"AWS": "open-sesame"}})
	if err != nil {
		panic(err)
	}
	if _, err := s.Push("team/app", "v1", testregistry.Image{Layers: 2}); err != nil {
		panic(err)
	}
	return s.Addr(), func() { s.Close() }
}
