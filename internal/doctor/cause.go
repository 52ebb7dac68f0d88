// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/diagnose"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/internal/probe"
	"github.com/regcred/regcred/internal/spelling"
)

// findCause returns the root cause of a failed pull and the one edit that fixes it. It returns "" if the
// pull works, or if the cause is unknown. If no pattern matches, and the registry requires a
// credential, the cause is the pattern that was probably meant.
func findCause(list []Finding, i *Image) string {
	if i.result == nil || i.result.CanPull {
		return ""
	}
	failed := func(checks ...string) int {
		return slices.IndexFunc(list, func(f Finding) bool { return f.Severity == finding.SeverityError && slices.Contains(checks, f.Check) })
	}
	at := failed("config", "executables", "kubelet")
	hostMissing := failed(probe.StepDNS) >= 0
	if at < 0 && i.unmatched > 0 && (i.Offline || hostMissing || slices.ContainsFunc(i.result.Hosts, func(h *probe.Result) bool { return h.Challenge != nil })) {
		if edit := i.nearMissEdit(hostMissing); edit != "" {
			return "no pattern matches; " + edit
		}
	}
	if at < 0 && i.keyEdit != "" {
		return "no key of the pull secret matches; " + i.keyEdit
	}
	if at < 0 {
		at = failed("reference", "credentials", "mirrors", probe.StepDNS, probe.StepProxy, probe.StepTCP, probe.StepTLS, probe.StepChallenge, probe.StepToken, probe.StepManifest)
	}
	if at < 0 {
		return ""
	}
	text := list[at].Finding.String()
	if fix := list[at].Fix; fix != "" {
		text += "; " + fix
	}
	return text
}

// nearMissKey returns the edit that makes a key of a pull secret match the image's host, or "".
func (i *Image) nearMissKey(keys []string) string {
	at, err := location.Parse(regcred.Explain(&config.Config{}, regcred.Request{Image: i.Reference}).Repository)
	for _, key := range keys {
		_, rest, found := strings.Cut(key, "://")
		if !found {
			rest = key
		}
		host, _, _ := strings.Cut(rest, "/")
		pattern, err2 := location.ParsePattern(host)
		if err != nil || err2 != nil {
			continue
		}
		if m := diagnose.ComparePattern(pattern, at); m.Suggestion != "" && spelling.Distance(pattern.Host, at.Host) == 1 && pattern.Port == at.Port {
			return fmt.Sprintf("change the key %q to %q", key, strings.Replace(key, host, location.Location{Host: at.Host, Port: at.Port}.String(), 1))
		}
	}
	return ""
}

// nearMissEdit returns the edit that makes the nearest pattern match the image, or "". hostMissing
// means that the image's host does not exist.
func (i *Image) nearMissEdit(hostMissing bool) string {
	ex := regcred.Explain(i.config, regcred.Request{Image: i.Reference})
	if ex.Nearest < 0 {
		return ""
	}
	provider := ex.Providers[ex.Nearest]
	pattern, err := location.ParsePattern(provider.Pattern)
	at, err2 := location.Parse(ex.Repository)
	if err != nil || err2 != nil {
		return ""
	}
	n := slices.Index(i.config.Providers[provider.Index].MatchImages, provider.Pattern)
	place := i.config.Position(provider.Index, fmt.Sprintf("matchImages[%d]", n))
	host := diagnose.ComparePattern(pattern, at).ImageHost
	if hostMissing && provider.Instead != "" && !strings.Contains(provider.Pattern, "*") {
		host = location.Location{Host: pattern.Host, Port: pattern.Port}.String() // the image's host does not exist, so it is misspelled
	}
	switch {
	case host != "":
		image := strings.Replace(i.Reference, location.Location{Host: at.Host, Port: at.Port}.String(), host, 1)
		return fmt.Sprintf("the image's host is misspelled: change %q to %q in the pod", i.Reference, image)
	case provider.Instead != "":
		return fmt.Sprintf("%s:%d: change %q to %q", place.File, place.Line, provider.Pattern, provider.Instead)
	}
	return ""
}
