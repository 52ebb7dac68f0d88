// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"fmt"
	"strings"

	"github.com/regcred/regcred/internal/registry"
)

const serviceName = "Azure Container Registry"

// parseMirrorOptions parses the values of --mirror and --registry-mirror. A target of
// --registry-mirror may be in a custom cloud, which is unknown until azure.json is read. Therefore
// each request checks the target again.
func parseMirrorOptions(opts Options, rules hostRules) (registry.Mirrors, error) {
	entries, later := append([]string{}, opts.Mirrors...), map[string]bool{}
	for _, list := range opts.RegistryMirrors {
		for given := range strings.SplitSeq(list, ",") {
			entry := strings.Join(strings.Fields(given), "")
			if entry == "" {
				continue
			}
			if !strings.Contains(entry, "=") {
				if strings.Count(entry, ":") != 1 {
					return registry.Mirrors{}, fmt.Errorf("--registry-mirror %q: must be SOURCE:TARGET or SOURCE=TARGET; if either host has a port, use SOURCE=TARGET", given)
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
		_, ok := rules.findRegistry(host)
		return ok
	}
	return registry.ParseMirrors(entries, registry.MirrorOptions{
		IsServed:        func(host string) bool { return own(host) || host == registry.MicrosoftHost },
		IsAllowedTarget: func(host string) bool { return own(host) || later[host] && host != registry.MicrosoftHost },
		Owner:           serviceName, Origin: opts.MirrorOrigin,
	})
}

// foreignTargetError is returned for a mirror whose target is outside ACR.
func foreignTargetError(rule registry.MirrorRule) error {
	return fmt.Errorf("mirror of %s: the target %s is not part of %s; allow it with --allow-host", rule.Source, rule.Target, serviceName)
}
