// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build ignore

// Command containerd resolves images with containerd's resolver. It is built with
// containerd2.mod. It reads one JSON object per image, and writes one with the error.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"os"

	"github.com/containerd/containerd/v2/core/remotes/docker"
)

// request is an image and the credential that the kubelet passes for it.
type request struct {
	Host, Name, Username, Password string
	None                           bool // no credential
}

// parseAuth is the part of ParseAuth in containerd's internal/cri/server/images that applies to
// what the kubelet passes: a user name and a password.
func (r request) parseAuth(string) (string, string, error) {
	if !r.None && r.Username != "" {
		return r.Username, r.Password, nil
	}
	return "", "", nil
}

func (r request) resolve(ctx context.Context) error {
	client := &http.Client{}
	host := docker.RegistryHost{
		Client: client, Host: r.Host, Scheme: "http", Path: "/v2",
		Authorizer:   docker.NewDockerAuthorizer(docker.WithAuthClient(client), docker.WithAuthCreds(r.parseAuth)),
		Capabilities: docker.HostCapabilityPull | docker.HostCapabilityResolve,
	}
	resolver := docker.NewResolver(docker.ResolverOptions{Hosts: func(string) ([]docker.RegistryHost, error) { return []docker.RegistryHost{host}, nil }})
	_, _, err := resolver.Resolve(ctx, r.Host+"/"+r.Name+":v1")
	return err
}

func main() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var r request
		switch err := in.Decode(&r); {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			log.Fatal(err)
		}
		var response struct{ Error string }
		if err := r.resolve(context.Background()); err != nil {
			response.Error = err.Error()
		}
		if err := out.Encode(response); err != nil {
			log.Fatal(err)
		}
	}
}
