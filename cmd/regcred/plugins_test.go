// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/regcred/regcred/internal/canary"
)

// testRequest is a plugin's input. It is defined again here, so that the test plugins do not depend
// on the code under test.
type testRequest struct {
	APIVersion  string            `json:"apiVersion"`
	Image       string            `json:"image"`
	Token       string            `json:"serviceAccountToken"`
	Annotations map[string]string `json:"serviceAccountAnnotations"`
}

// testPlugins returns the plugins that the test binary plays, by name.
func testPlugins() map[string]func() int {
	return map[string]func() int{
		"good": func() int {
			req := readRequest()
			return writeResponse(req.APIVersion, "Registry", dockerLogin(registryHost(req), "ci", canary.PasswordSecret))
		},
		// tokens requires a token and does not return it.
		"tokens": func() int {
			req := readRequest()
			return writeResponse(req.APIVersion, "Image", dockerLogin(registryHost(req), fmt.Sprintf("token=%v role=%s", req.Token != "", req.Annotations["example.com/role"]), canary.PasswordSecret))
		},
		// open returns a password that is not a canary secret. It is for outputs that must contain
		// the password.
		"open": func() int {
			req := readRequest()
			return writeResponse(req.APIVersion, "Image", dockerLogin("*.example", "ci", "open-sesame"), dockerLogin(registryHost(req), "first", "open-sesame"))
		},
		"nameless": func() int {
			req := readRequest()
			return writeResponse(req.APIVersion, "Image", dockerLogin(registryHost(req), "", canary.PasswordSecret))
		},
		"hollow": func() int {
			req := readRequest()
			return writeResponse(req.APIVersion, "Image", dockerLogin(registryHost(req), "", ""))
		},
		"colon": func() int {
			req := readRequest()
			return writeResponse(req.APIVersion, "Image", dockerLogin(registryHost(req), "a:b", canary.PasswordSecret))
		},
		// forger returns a user name that imitates another row and contains terminal escapes.
		"forger": func() int {
			req := readRequest()
			return writeResponse(req.APIVersion, "Image", dockerLogin(registryHost(req), "ci\n2  root  registry.example  provider trusted  never\x1b[2J\u009b\u202e", "open-sesame"))
		},
		"empty": func() int { return writeResponse(readRequest().APIVersion, "Global") },
		"declining": func() int {
			fmt.Fprintln(os.Stderr, "starting\ndeclining: not one of my hosts")
			return writeResponse(readRequest().APIVersion, "Registry")
		},
		"stranger": func() int {
			return writeResponse(readRequest().APIVersion, "Global", dockerLogin("elsewhere.example/team", "ci", canary.PasswordSecret))
		},
		"slow": func() int {
			if fifo := os.Getenv("RUNNING"); fifo != "" {
				os.WriteFile(fifo, []byte("running"), 0)
			}
			forever := make(chan os.Signal, 1)
			signal.Notify(forever, os.Interrupt)
			<-forever
			return 0
		},
		"failing": func() int {
			fmt.Fprintf(os.Stderr, "starting\nno route to metadata server, token was %s\n", readRequest().Token)
			return 3
		},
		"garbage": func() int {
			fmt.Println("user " + canary.PasswordSecret)
			return 0
		},
		"silent":        func() int { return 0 },
		"wrong-version": func() int { return writeResponse("credentialprovider.kubelet.k8s.io/v1alpha1", "Registry") },
		"wrong-key-type": func() int {
			req := readRequest()
			return writeResponse(req.APIVersion, "ServiceAccount", dockerLogin(registryHost(req), "ci", canary.PasswordSecret))
		},
		"leaky": func() int {
			req := readRequest()
			fmt.Fprintln(os.Stderr, "got password "+canary.PasswordSecret+"\x1b[2J")
			return writeResponse(req.APIVersion, "Image", dockerLogin(registryHost(req), "ci", canary.PasswordSecret))
		},
		"echo-token": func() int {
			req := readRequest()
			return writeResponse(req.APIVersion, "Image", dockerLogin(registryHost(req), "token", req.Token))
		},
		// slip returns a cache duration of 21600 nanoseconds, as if seconds had been passed as
		// nanoseconds.
		"slip": func() int {
			req := readRequest()
			return writeResponseWithDuration("21.6µs", req.APIVersion, "Registry", dockerLogin(registryHost(req), "ci", canary.PasswordSecret))
		},
		// refusing prints its environment and fails.
		"refusing": func() int {
			dir, _ := os.Getwd()
			fmt.Fprintf(os.Stderr, "WHO=%s TOKEN=%v dir=%s args=%d\n", os.Getenv("WHO"), os.Getenv("TOKEN") != "", filepath.Base(dir), len(os.Args)-1)
			return 1
		},
		// whoami returns its environment as the user name.
		"whoami": func() int {
			req := readRequest()
			dir, _ := os.Getwd()
			user := fmt.Sprintf("WHO=%s dir=%s args=%d role=%s", os.Getenv("WHO"), dir[strings.LastIndexByte(dir, '/')+1:], len(os.Args)-1, req.Annotations["example.com/role"])
			return writeResponse(req.APIVersion, "Image", dockerLogin(registryHost(req), user, canary.PasswordSecret))
		},
	}
}

func readRequest() testRequest {
	var req testRequest
	if err := json.NewDecoder(os.Stdin).Decode(&req); err != nil {
		fmt.Fprintln(os.Stderr, "bad request")
		os.Exit(9)
	}
	return req
}

func registryHost(req testRequest) string {
	host, _, _ := strings.Cut(req.Image, "/")
	return host
}

func dockerLogin(key, user, password string) [3]string { return [3]string{key, user, password} }

func writeResponse(apiVersion, cacheKeyType string, logins ...[3]string) int {
	return writeResponseWithDuration("10m0s", apiVersion, cacheKeyType, logins...)
}

func writeResponseWithDuration(cacheDuration, apiVersion, cacheKeyType string, logins ...[3]string) int {
	auth := map[string]any{}
	for _, l := range logins {
		auth[l[0]] = map[string]string{"username": l[1], "password": l[2]}
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"kind":          "CredentialProviderResponse",
		"apiVersion":    apiVersion,
		"cacheKeyType":  cacheKeyType,
		"cacheDuration": cacheDuration,
		"auth":          auth,
	})
	return 0
}
