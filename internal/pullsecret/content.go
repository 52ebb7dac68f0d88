// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/plugin"
)

// HasNew reports whether the content has a credential that the Secret does not have.
func (c *Content) HasNew(old Status) bool {
	return slices.ContainsFunc(c.Status.Entries, func(e Entry) bool {
		return !slices.ContainsFunc(old.Entries, func(o Entry) bool {
			return o.Key == e.Key && o.Provider == e.Provider && o.Issued.Equal(e.Issued) && o.Expires.Equal(e.Expires)
		})
	})
}

// credentialEntry is an entry with its password.
type credentialEntry struct {
	Entry
	pattern string
	auth    plugin.AuthConfig
}

// ContentInput is the input of [NewContent].
type ContentInput struct {
	Plan        SecretPlan
	Outcomes    map[string]Outcome // by provider
	Old         Status             // of the existing Secret
	GracePeriod time.Duration
	Now         time.Time

	// Previous returns the value of .dockerconfigjson in the existing Secret. It is called only if
	// an entry must be kept that is not in Outcomes: its provider failed since the process
	// started, or was removed from the configuration.
	Previous func() ([]byte, error)
}

// Content is the next content of a Secret.
type Content struct {
	Data    []byte // the value of .dockerconfigjson
	Status  Status
	Missing int     // targets without a credential
	Removed []Entry // entries that are no longer configured, and are kept for the grace period
}

// NewContent computes the content of a Secret. A credential that cannot be refreshed stays, even if it
// has expired: without any entry for its registry, the kubelet would also reject pods whose image is
// present (KEP-2535).
func NewContent(in ContentInput) (*Content, error) {
	c := &Content{Status: Status{ConfigHash: in.Plan.Hash}}
	all := entries{}
	incomplete := c.addCredentials(all, in)
	kept := c.keptEntries(all, in, incomplete)
	if len(kept) > 0 {
		if err := addPrevious(all, kept, in.Previous); err != nil {
			return nil, err
		}
	}
	var err error
	if c.Data, err = all.render(); err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		c.Status.Entries = append(c.Status.Entries, all[key].Entry)
	}
	for _, e := range c.Removed {
		c.Status.setRefresh(e.Removed.Add(in.GracePeriod))
	}
	if c.Status.Missing > 0 {
		c.Status.Refresh = time.Time{}
	}
	return c, nil
}

func (s *Status) setRefresh(t time.Time) {
	if t = t.Truncate(time.Second); s.Refresh.IsZero() || t.Before(s.Refresh) {
		s.Refresh = t
	}
}

// addCredentials adds the first credential for each target, in the order of the configuration. It
// returns the providers that lack a credential for a target.
func (c *Content) addCredentials(all entries, in ContentInput) (incomplete map[string]bool) {
	incomplete = map[string]bool{}
	found, missing := map[Target]bool{}, map[Target]bool{}
	for _, pt := range in.Plan.Providers {
		for _, t := range pt.Targets {
			x, ok := in.Outcomes[pt.Provider].Credentials[t]
			if !ok {
				incomplete[pt.Provider], missing[t] = true, true
				continue
			}
			c.Status.setRefresh(x.Refresh)
			if found[t] {
				continue
			}
			found[t] = true
			e := Entry{Provider: pt.Provider}
			if !x.Expires.IsZero() {
				e.Issued, e.Expires = x.Issued.UTC().Truncate(time.Second), x.Expires.UTC().Truncate(time.Second)
			}
			all.add(t, credentialEntry{e, x.Pattern, x.auth})
		}
	}
	for t := range missing {
		if !found[t] {
			c.Status.Missing++
		}
	}
	return incomplete
}

// keptEntries returns the entries of the existing Secret that stay although the outcomes do not have
// them.
func (c *Content) keptEntries(all entries, in ContentInput, incomplete map[string]bool) (kept []Entry) {
	for _, e := range in.Old.Entries {
		if _, ok := all[e.Key]; ok {
			continue
		}
		if !incomplete[e.Provider] {
			if e.Removed.IsZero() {
				e.Removed = in.Now.UTC().Truncate(time.Second)
			}
			if !in.Now.Before(e.Removed.Add(in.GracePeriod)) {
				continue
			}
			c.Removed = append(c.Removed, e)
		}
		kept = append(kept, e)
	}
	return kept
}

// addPrevious adds the kept entries with the credentials of the existing Secret.
func addPrevious(all entries, kept []Entry, previous func() ([]byte, error)) error {
	data, err := previous()
	if err != nil {
		return fmt.Errorf("read the Secret's previous content: %w", err)
	}
	auths, err := dockerconfig.Parse(data, dockerconfig.ConfigJSON)
	if err != nil {
		return nil // edited by a user: nothing of it can be kept
	}
	for _, e := range kept {
		if auth, ok := auths[e.Key]; ok && CheckAuth(auth) == nil {
			all.addMissing(e.Key, credentialEntry{Entry: e, auth: auth})
		}
	}
	return nil
}

// Errors returns the outcomes' errors, sorted by target.
func (in ContentInput) Errors() (errs []error) {
	type failure struct {
		target string
		err    error
	}
	var all []failure
	for _, o := range in.Outcomes {
		for t, err := range o.Errors {
			all = append(all, failure{t.String(), err})
		}
	}
	slices.SortFunc(all, func(a, b failure) int { return cmp.Compare(a.target, b.target) })
	for _, f := range all {
		errs = append(errs, f.err)
	}
	return errs
}
