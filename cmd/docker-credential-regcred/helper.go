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

// helper is a [credentials.Helper], for one run: the interface has no context.
type helper struct {
	ctx     context.Context
	machine machine
	timeout time.Duration // of one run of a plugin
}

// Get returns the credential that a kubelet would try first. That there is none
// is the protocol's error; that something failed, and there is none, is another.
func (h helper) Get(server string) (username, secret string, err error) {
	requests, err := dockerhelper.Requests(server)
	if err != nil {
		return "", "", err
	}
	if len(requests) == 0 {
		return "", "", credentials.NewErrCredentialsNotFound() // "docker logout" works also where no configuration does
	}
	cfg, o, err := h.machine.load(h.ctx)
	if err != nil {
		return "", "", err
	}
	// Docker config files are no source here. Those of the caller are the
	// client's to read, and name this helper; those of a kubelet may be closed
	// to the caller, which would be a failure for want of them.
	keyring, err := regcred.New(cfg, regcred.Options{
		BinDir:  o.BinDir,
		Environ: append(slices.Clip(o.Environ), asking+"="+name), Timeout: h.timeout,
	})
	if err != nil {
		return "", "", err
	}
	defer keyring.Close()
	for _, req := range requests {
		res, err := keyring.Lookup(h.ctx, req)
		if err != nil {
			return "", "", h.cut(res, err)
		}
		if len(res.Credentials) > 0 {
			return first(res.Credentials)
		}
	}
	return "", "", credentials.NewErrCredentialsNotFound()
}

// first is the first credential that has a user name. Clients take one without for
// none, and pull anonymously; a runtime that a kubelet hands it to refuses it.
func first(creds []regcred.Credential) (username, secret string, err error) {
	i := slices.IndexFunc(creds, func(c regcred.Credential) bool { return c.Username != "" })
	if i < 0 {
		return "", "", fmt.Errorf("the credential from provider %q has no user name, so clients would ignore it and pull anonymously", creds[0].Provider)
	}
	return creds[i].Username, creds[i].Password.Reveal(), nil
}

// cut is err, or if the run is at its end, why, and for whom it has waited.
func (h helper) cut(res *regcred.Result, err error) error {
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

// List names the registries of the configuration. Their user names are not
// known before a plugin is run, and are left empty.
func (h helper) List() (map[string]string, error) {
	cfg, _, err := h.machine.load(h.ctx)
	if err != nil {
		return nil, err
	}
	list := map[string]string{}
	for _, host := range dockerhelper.Hosts(cfg) {
		list[host] = ""
		if host == "docker.io" {
			list["https://index.docker.io/v1/"] = "" // docker's own name for it
		}
	}
	return list, nil
}

// Add refuses.
func (h helper) Add(*credentials.Credentials) error {
	return errors.New("cannot store credentials, because they come from this machine's credential providers; " +
		"to log in anyway, remove " + name + " from credsStore, and from credHelpers for this registry")
}

// Delete does nothing: nothing is kept from one run to the next.
func (h helper) Delete(string) error { return nil }
