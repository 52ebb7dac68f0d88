// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe

import (
	"net/http"
	"strings"

	"github.com/regcred/regcred"
)

// meaning says what to do about a refusal, which means something else at each
// registry: some hide what one may not see, some say so.
func (a *asking) meaning(status int, cred *regcred.Credential) string {
	host := a.base.Hostname()
	switch {
	case status == http.StatusTooManyRequests:
		return "log in, if pulls are anonymous; pull less, or through a mirror"
	case status >= 500:
		return "try again later; the registry's operator knows why"
	case status != http.StatusUnauthorized && status != http.StatusForbidden && status != http.StatusNotFound:
		return ""
	case cred == nil && status != http.StatusNotFound:
		return "no credential was found for it: give the pod a pull secret, or a provider a pattern that matches"
	}
	if status == http.StatusUnauthorized && cred != nil && (cred.Username == "robot" || strings.HasPrefix(cred.Username, "robot+")) {
		return "write the whole name of the robot account, which begins with robot$ at Harbor: between single quotes, since a shell takes $NAME out of what has none"
	}
	if text := ownWords(host, status); text != "" {
		return text
	}
	switch status {
	case http.StatusUnauthorized:
		text := "log in again with the right user name and password, and renew what holds them (the pull secret, the provider's source)"
		if cred.Provider == "" {
			text += "; in a shell, what has a $ wants single quotes"
		}
		return text
	case http.StatusForbidden:
		return "let this user pull " + a.hop.Repository
	}
	return "look at the name and the tag; some registries say so too of what the user may not pull"
}

// ownWords are what a status means at a registry that means something of its own
// by it; "" at others.
func ownWords(host string, status int) string {
	for _, r := range registries {
		if r.is(host) {
			return r.says[status]
		}
	}
	return ""
}

// registries that mean something of their own.
var registries = []struct {
	is   func(host string) bool
	says map[int]string
}{
	{suffix("docker.io"), map[int]string{
		http.StatusUnauthorized: "Docker Hub says so too of a repository that does not exist: look at its name, at the user, and whether the access token may read",
	}},
	{func(h string) bool { return strings.Contains(h, ".dkr.ecr.") || h == "public.ecr.aws" }, map[int]string{
		http.StatusForbidden: "ECR: allow ecr:BatchGetImage and ecr:GetDownloadUrlForLayer to the node's role, in its policy and, from another account, the repository's; a token lasts 12 hours",
		http.StatusNotFound:  "ECR hides nothing: the repository or tag is not in this account and region",
	}},
	{suffix("pkg.dev", "gcr.io"), map[int]string{
		http.StatusForbidden: "Google says so too of a repository that does not exist: look at its name, and grant roles/artifactregistry.reader to the account",
	}},
	{suffix("azurecr.io", "azurecr.cn", "azurecr.us"), map[int]string{
		http.StatusUnauthorized: "ACR says so too of a repository that does not exist: look at its name, and grant AcrPull to the identity",
	}},
	{suffix("ghcr.io"), map[int]string{
		http.StatusForbidden: "GitHub: the token needs the scope read:packages, and its user access to the package; an organisation with SSO must have authorised it",
		http.StatusNotFound:  "GitHub says so too of a package that the user may not see",
	}},
	{suffix("quay.io"), map[int]string{
		http.StatusUnauthorized: "Quay says so too of a repository that does not exist, or that this robot account may not read",
	}},
}

func suffix(domains ...string) func(string) bool {
	return func(host string) bool {
		for _, d := range domains {
			if host == d || strings.HasSuffix(host, "."+d) {
				return true
			}
		}
		return false
	}
}
