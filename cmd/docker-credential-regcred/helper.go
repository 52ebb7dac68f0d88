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
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/serve/client"
)

// helper implements [credentials.Helper] for one run. It holds a context because the interface's
// methods do not take one.
type helper struct {
	ctx     context.Context
	machine environment
	timeout time.Duration // timeout of one plugin run

	runTimeout time.Duration // timeout of the whole run
}

// Get returns the credential that a kubelet would try first. It returns the protocol's
// "not found" error if no provider has a credential. If a provider failed, it returns a different error.
func (h helper) Get(server string) (username, secret string, err error) {
	requests, err := dockerhelper.ParseServer(server)
	if err != nil && !errors.Is(err, dockerhelper.ErrNotRegistry) {
		return "", "", err
	}
	if len(requests) == 0 {
		return "", "", credentials.NewErrCredentialsNotFound() // "docker logout" must also work without a configuration
	}
	found, _, err := client.CallWithFallback(h.ctx, h.runTimeout,
		func(ctx context.Context) (login, error) { return h.callService(ctx, server) },
		func(ctx context.Context) (login, error) { return h.callProviders(ctx, requests) })
	return found.username, found.secret, err
}

// login is a credential with a user name.
type login struct{ username, secret string }

// callProviders looks up a credential with the configuration of this machine.
func (h helper) callProviders(ctx context.Context, requests []regcred.Request) (found login, err error) {
	cfg, o, err := h.machine.loadConfig(ctx)
	if err != nil {
		return found, err
	}
	// Do not use docker config files as a source of credentials. The caller's files configure this
	// helper, and the client reads them itself. The kubelet's files may be unreadable, and the
	// lookup would report a failure.
	keyring, err := regcred.New(cfg, regcred.Options{
		BinDir:  o.BinDir,
		Environ: append(slices.Clip(o.Environ), recursionEnv+"="+programName), Timeout: h.timeout,
	})
	if err != nil {
		return found, err
	}
	defer keyring.Close()
	for _, req := range requests {
		res, err := keyring.Lookup(ctx, req)
		if err != nil {
			return found, h.timeoutError(res, err)
		}
		if len(res.Credentials) > 0 {
			found.username, found.secret, err = firstCredential(res.Credentials)
			return found, err
		}
	}
	return found, credentials.NewErrCredentialsNotFound()
}

// callService requests a credential from the node's credential service. A service
// without a credential is an error, because the client's own configuration may have one.
func (h helper) callService(ctx context.Context, server string) (found login, err error) {
	sel, err := h.machine.serviceSelector()
	if err != nil {
		return found, err
	}
	service := client.New(func(name string) string { return node.Getenv(h.machine.environ, name) })
	list, err := service.Lookup(ctx, sel, client.LookupRequest{Server: server})
	if err != nil {
		return found, err
	}
	i := slices.IndexFunc(list.Credentials, func(c client.Credential) bool { return c.Username != "" })
	if i < 0 {
		return found, credentials.NewErrCredentialsNotFound()
	}
	return login{list.Credentials[i].Username, list.Credentials[i].Password}, nil
}

// firstCredential returns the first credential with a user name. Clients ignore a credential
// without a user name and pull anonymously, as container runtimes do.
func firstCredential(creds []regcred.Credential) (username, secret string, err error) {
	i := slices.IndexFunc(creds, func(c regcred.Credential) bool { return c.Username != "" })
	if i < 0 {
		return "", "", fmt.Errorf("the credential from provider %q has no user name, so clients would ignore it and pull anonymously", creds[0].Provider)
	}
	return creds[i].Username, creds[i].Password.Reveal(), nil
}

// timeoutError names the providers that were running when the run timed out or was canceled. If
// there are none, it returns err.
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

// List returns the exact hosts in the configuration. The user names are empty because they are not
// known before a plugin runs.
func (h helper) List() (map[string]string, error) {
	cfg, _, err := h.machine.loadConfig(h.ctx)
	if err != nil {
		return nil, err
	}
	list := map[string]string{}
	for _, host := range dockerhelper.ExactHosts(cfg) {
		list[host] = ""
		if host == "docker.io" {
			list["https://index.docker.io/v1/"] = "" // Docker's name for Docker Hub
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
