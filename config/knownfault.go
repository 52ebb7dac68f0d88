// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/regcred/regcred/finding"
)

// NodeSettings holds settings of a node that decide whether a fault of its kubelet matters. The zero
// value means that they are unknown, so that faults that depend on them are not reported.
type NodeSettings struct {
	Known                 bool  // the kubelet's configuration was read
	MaxParallelImagePulls int32 // 0 means no limit
}

// knownFault is a fault in kubelet releases. The versions were compared with the kubelet's source code
// (pkg/kubelet/images, pkg/kubelet/token) of each release.
type knownFault struct {
	issue    string
	since    kubeletRelease // first release with the fault, if it is not older than 1.33
	fixed    kubeletRelease // first release without it
	severity finding.Severity
	applies  func(k kubelet, c *Config, n NodeSettings) bool
	message  string // begins with the cause
	fix      string
}

// kubeletRelease is a release 1.minor.patch.
type kubeletRelease struct{ minor, patch int }

func (r kubeletRelease) before(o kubeletRelease) bool {
	return r.minor < o.minor || r.minor == o.minor && r.patch < o.patch
}

func knownFaults() []knownFault {
	return []knownFault{
		{
			"kubernetes#138935", kubeletRelease{33, 0}, kubeletRelease{37, 0}, finding.SeverityError,
			func(k kubelet, _ *Config, n NodeSettings) bool {
				return n.MaxParallelImagePulls > 31 && k.gateEnabled(gatePullRecords)
			},
			"maxParallelImagePulls is greater than 31, so the kubelet panics when it pulls some images",
			"set maxParallelImagePulls to 31 or less in the kubelet's configuration and restart the kubelet",
		},
		{
			"kubernetes#133079", kubeletRelease{33, 0}, kubeletRelease{34, 0}, finding.SeverityInfo,
			func(_ kubelet, c *Config, _ NodeSettings) bool { return c != nil && len(c.Providers) > 0 },
			"the kubelet runs the plugins for each container start, even if the image is on the node, so pods start late or not at all while a plugin has no network",
			"let the plugins' responses be cached (cacheDuration, defaultCacheDuration), or upgrade the kubelet to 1.34",
		},
		{
			"kubernetes#132802", kubeletRelease{33, 0}, kubeletRelease{34, 0}, finding.SeverityInfo,
			func(_ kubelet, c *Config, _ NodeSettings) bool { return c != nil && usesTokens(c) },
			"if a service account is deleted and created again, the kubelet sends the plugins the old account's token until it expires",
			"restart the kubelet after you replace a service account, or upgrade the kubelet to 1.34",
		},
		{
			"kubernetes#131251", kubeletRelease{33, 0}, kubeletRelease{33, 3}, finding.SeverityInfo,
			func(_ kubelet, _ *Config, n NodeSettings) bool { return n.Known },
			"the kubelet can crash (concurrent map writes) when image garbage collection and disk-pressure eviction remove images at the same time",
			"upgrade the kubelet to 1.33.3",
		},
	}
}

func usesTokens(c *Config) bool {
	for i := range c.Providers {
		if c.Providers[i].TokenAttributes != nil {
			return true
		}
	}
	return false
}

// KnownFaults returns known faults of t's kubelet that affect image pulls with c, which may be nil. If
// t.KubeletVersion has no patch release, faults that a patch release fixed are not reported. It returns
// nil for an empty or invalid version.
func KnownFaults(c *Config, t Target, n NodeSettings) (list []finding.Finding) {
	k, err := t.resolve()
	if err != nil || t.KubeletVersion == "" {
		return nil
	}
	release := kubeletRelease{k.minor, 1 << 20}
	if m := regexp.MustCompile(`^v?1\.\d+\.(\d+)`).FindStringSubmatch(t.KubeletVersion); m != nil {
		release.patch, _ = strconv.Atoi(m[1])
	}
	for _, f := range knownFaults() {
		if release.before(f.since) || !release.before(f.fixed) || !f.applies(k, c, n) {
			continue
		}
		text := fmt.Sprintf("kubelet %s has a known fault (%s, fixed in 1.%d.%d): %s", strings.TrimPrefix(t.KubeletVersion, "v"), f.issue, f.fixed.minor, f.fixed.patch, f.message)
		list = append(list, finding.Finding{Severity: f.severity, Rule: KnownFaultRule, Message: text, Fix: f.fix})
	}
	return list
}

// KnownFaultRule is the rule of findings from [KnownFaults].
const KnownFaultRule = "known-kubelet-fault"
