// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"fmt"
	"slices"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/plugin"
)

// coveredImages returns images, other than the requested image, for which the kubelet would
// reuse a response with the given cacheKeyType.
func (s *suite) coveredImages(scope plugin.CacheKeyType) []string {
	home := registryOf(s.image)
	near := func(image string) bool { return registryOf(image) == home }
	images := slices.Clone(s.otherImages)
	if scope == plugin.CacheRegistry {
		images = slices.DeleteFunc(images, func(image string) bool { return !near(image) })
	}
	if !slices.ContainsFunc(images, near) {
		images = append(images, home+"/conformance/other")
	}
	if scope == plugin.CacheGlobal && !slices.ContainsFunc(images, func(image string) bool { return !near(image) }) {
		images = append(images, lookalikeImage(s.image))
	}
	return images
}

func checkScope(s *suite, resp *plugin.Response) []Finding {
	scope := resp.CacheKeyType
	if scope == plugin.CacheImage {
		return passFinding(s.baseRun().action, "cacheKeyType Image, so the response covers no other images")
	}
	var same, silent []string
	for _, image := range s.coveredImages(scope) {
		r := s.sendRequest(s.newRequestFor(image))
		if !r.hasResponse() {
			silent = append(silent, image)
			continue
		}
		if what := s.credentialDifference(image, resp, r.exchange.Response); what != "" {
			return newFinding(finding.SeverityError, fmt.Sprintf("%s, and for %q", s.baseRun().action, image),
				fmt.Sprintf("cacheKeyType %s, but %s", scope, what),
				fmt.Sprintf("The kubelet reuses the response for %[2]q when it pulls %[1]q.", image, s.image),
				narrowerScope(scope))
		}
		same = append(same, image)
	}
	if len(same) == 0 {
		return skipFinding("cacheKeyType is %s, but the plugin returned no response for %s, so there is nothing to compare; specify more images that the plugin serves", scope, quoteList(silent))
	}
	return passFinding(fmt.Sprintf("%s, and for %s", s.baseRun().action, quoteList(same)), "cacheKeyType %s, with the same credential for each image", scope)
}

func narrowerScope(scope plugin.CacheKeyType) string {
	if scope == plugin.CacheRegistry {
		return "Return cacheKeyType Image, or return keys and credentials for the whole registry."
	}
	return "Return cacheKeyType Registry, or always return the keys for every registry that you serve."
}

// credentialDifference describes how the cached response's credential for an image differs from
// the credential in the plugin's own response for that image. It returns "" if they are the
// same.
func (s *suite) credentialDifference(image string, cached, own *plugin.Response) string {
	got, want := selectCredentials(cached, image), selectCredentials(own, image)
	switch {
	case len(got) == 0 && len(want) == 0:
		return ""
	case len(got) == 0:
		return fmt.Sprintf("this response has no key for %q, unlike the plugin's response for that image", image)
	case len(want) == 0:
		return fmt.Sprintf("this response has a credential for %q, unlike the plugin's response for that image", image)
	}
	sameUser := func(a, b plugin.AuthConfig) bool { return a.Username == b.Username }
	if !slices.EqualFunc(got, want, sameUser) {
		return fmt.Sprintf("the user name for %q differs", image)
	}
	samePassword := func(a, b plugin.AuthConfig) bool { return a.Password.Equal(b.Password) }
	if !s.rotatesPasswords() && !slices.EqualFunc(got, want, samePassword) && !s.wasRenewed() {
		return fmt.Sprintf("the password for %q differs from the password in the plugin's response for that image, although identical requests get the same password", image)
	}
	return ""
}

func checkOtherRegistry(s *suite, _ *plugin.Response) []Finding {
	image := lookalikeImage(s.image)
	r := s.sendRequest(s.newRequestFor(image))
	if !r.hasResponse() {
		return passFinding(r.action, "%s", r.describeOutcome())
	}
	resp := r.exchange.Response
	if len(resp.Auth) == 0 || !s.isOutOfTree() && len(selectCredentials(resp, image)) == 0 {
		return passFinding(r.action, "no credential")
	}
	return newFinding(finding.SeverityInfo, r.action, "a credential",
		"The kubelet sends the password to the lookalike host if matchImages covers it.",
		"If the plugin serves only certain registries, check the end of the image's host name first.")
}
