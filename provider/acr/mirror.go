// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"fmt"
	"strings"

	"github.com/regcred/regcred/internal/mirror"
)

// microsoft is Microsoft's own registry, which clusters of AKS without access
// to the internet have a mirror of: to show it a credential of Azure tells
// Microsoft nothing new. It is no registry of ACR.
const microsoft = "mcr.microsoft.com"

const owner = "Azure Container Registry"

// parseMirrors makes one map of both flags. A target of --registry-mirror may
// be in a cloud of its own, whose registries are not known before azure.json
// is read; for an image it is held to the same rule as any host.
func parseMirrors(opts Options, rules hostRules) (mirror.Map, error) {
	entries, later := append([]string{}, opts.Mirrors...), map[string]bool{}
	for _, list := range opts.RegistryMirrors {
		for given := range strings.SplitSeq(list, ",") {
			entry := strings.Join(strings.Fields(given), "")
			if entry == "" {
				continue
			}
			if !strings.Contains(entry, "=") {
				if strings.Count(entry, ":") != 1 {
					return mirror.Map{}, fmt.Errorf("--registry-mirror %q: must be SOURCE:TARGET or SOURCE=TARGET; if either host has a port, use SOURCE=TARGET", given)
				}
				entry = strings.Replace(entry, ":", "=", 1)
			}
			_, target, _ := strings.Cut(entry, "=")
			target, _, _ = strings.Cut(target, "/")
			later[strings.ToLower(target)] = true
			entries = append(entries, entry)
		}
	}
	own := func(host string) bool {
		_, ok := rules.find(host)
		return ok
	}
	return mirror.Parse(entries, mirror.Options{
		Own:    func(host string) bool { return own(host) || host == microsoft },
		Target: func(host string) bool { return own(host) || later[host] && host != microsoft },
		Owner:  owner, Origin: opts.MirrorOrigin,
	})
}

// foreignTarget says that a mirror is none of ACR.
func foreignTarget(rule mirror.Rule) error {
	return fmt.Errorf("mirror of %s: the target %s is not part of %s; allow it with --allow-host", rule.Source, rule.Target, owner)
}
