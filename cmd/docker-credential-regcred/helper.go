// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker-credential-helpers/credentials"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/dockerhelper"
)

// helper implements [credentials.Helper] for one run. It holds a context, because the
// interface has none.
type helper struct {
	ctx     context.Context
	machine environment
	timeout time.Duration // timeout of one plugin run
}

// Get returns the credential that a kubelet would try first. If none exists, it
// returns the protocol's "not found" error or, if a provider failed, a different error.
func (h helper) Get(server string) (username, secret string, err error) {
	requests, err := dockerhelper.ParseServer(server)
	if err != nil {
		return "", "", err
	}
	if len(requests) == 0 {
		return "", "", credentials.NewErrCredentialsNotFound() // "docker logout" must also work without a configuration
	}
	cfg, o, err := h.machine.loadConfig(h.ctx)
	if err != nil {
		return "", "", err
	}
	// Docker config files are not sources. The client reads the caller's files,
	// which name this helper; the kubelet's files may not be readable, which
	// would count as a failure.
	keyring, err := regcred.New(cfg, regcred.Options{
		BinDir:  o.BinDir,
		Environ: append(slices.Clip(o.Environ), recursionEnv+"="+programName), Timeout: h.timeout,
	})
	if err != nil {
		return "", "", err
	}
	defer keyring.Close()
	for _, req := range requests {
		res, err := keyring.Lookup(h.ctx, req)
		if err != nil {
			return "", "", h.timeoutError(res, err)
		}
		if len(res.Credentials) > 0 {
			return firstCredential(res.Credentials)
		}
	}
	return "", "", credentials.NewErrCredentialsNotFound()
}

// firstCredential returns the first credential with a user name. Clients ignore others
// and pull anonymously; container runtimes reject them.
func firstCredential(creds []regcred.Credential) (username, secret string, err error) {
	i := slices.IndexFunc(creds, func(c regcred.Credential) bool { return c.Username != "" })
	if i < 0 {
		return "", "", fmt.Errorf("the credential from provider %q has no user name, so clients would ignore it and pull anonymously", creds[0].Provider)
	}
	return creds[i].Username, creds[i].Password.Reveal(), nil
}

// timeoutError returns err. If the run timed out, the error instead states the cause
// and the providers that were running.
func (h helper) timeoutError(res *regcred.Result, err error) error {
	var waited []string
	if res != nil && h.ctx.Err() != nil {
		for _, a := range res.Attempts {
			if a.Err != nil {
				waited = append(waited, strconv.Quote(a.Provider))
			}
		}
	}
	if len(waited) == 0 {
		return err
	}
	return fmt.Errorf("%w, waiting for provider %s", context.Cause(h.ctx), strings.Join(waited, ", "))
}

// List returns the registries of the configuration. User names are empty, since
// they are unknown until a plugin runs.
func (h helper) List() (map[string]string, error) {
	cfg, _, err := h.machine.loadConfig(h.ctx)
	if err != nil {
		return nil, err
	}
	list := map[string]string{}
	for _, host := range dockerhelper.ExactHosts(cfg) {
		list[host] = ""
		if host == "docker.io" {
			list["https://index.docker.io/v1/"] = "" // docker's name for it
		}
	}
	return list, nil
}

// Add returns an error: credentials cannot be stored.
func (h helper) Add(*credentials.Credentials) error {
	return errors.New("cannot store credentials, because they come from this machine's credential providers; " +
		"to log in anyway, remove " + programName + " from credsStore, and from credHelpers for this registry")
}

// Delete does nothing, because nothing is stored.
func (h helper) Delete(string) error { return nil }
