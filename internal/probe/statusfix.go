// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe

import (
	"net/http"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/registry"
)

// statusFix returns how to fix a status. Registries differ: some hide images that the
// user must not see.
func (a *session) statusFix(status int, cred *regcred.Credential) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "if pulls are anonymous, use a credential; otherwise, pull less often or use a mirror"
	case status >= 500:
		return "try again later, or contact the registry's operator"
	case status != http.StatusUnauthorized && status != http.StatusForbidden && status != http.StatusNotFound:
		return ""
	case cred == nil && status != http.StatusNotFound:
		return "no credential was found: add a pull secret to the pod, or add a matchImages pattern for this image to a provider"
	}
	if status == http.StatusUnauthorized && cred != nil && (cred.Username == "robot" || strings.HasPrefix(cred.Username, "robot+")) {
		return "use the robot account's full name, which starts with robot$ in Harbor; single-quote it, because an unquoted shell expands $NAME"
	}
	if text := statusHints(registry.OwnerOf(a.base.Hostname()))[status]; text != "" {
		return text
	}
	switch status {
	case http.StatusUnauthorized:
		text := "correct the user name and password where they are stored (the pull secret or the provider's source)"
		if cred.Provider == "" {
			text += "; in a shell, single-quote values that contain $"
		}
		return text
	case http.StatusForbidden:
		return "allow this user to pull " + a.hop.Repository
	}
	return "check the name and the tag; some registries also respond with 404 if the user is not allowed to pull"
}

// statusHints returns what a status means at services that use it in a special
// way, by service and status.
func statusHints(owner string) map[int]string {
	switch owner {
	case "Docker Hub":
		return map[int]string{
			http.StatusUnauthorized: "Docker Hub also returns this status for a missing repository: check the repository name, the user, and the access token's read permission",
		}
	case "Amazon ECR":
		return map[int]string{
			http.StatusForbidden: "ECR: allow ecr:BatchGetImage and ecr:GetDownloadUrlForLayer in the node role's policy and, for cross-account pulls, also in the repository policy; tokens expire after 12 hours",
			http.StatusNotFound:  "ECR: the repository or tag does not exist in this account and region",
		}
	case "Google Artifact Registry", "Google Container Registry":
		return map[int]string{
			http.StatusForbidden: "Google also returns this status for a missing repository: check its name, and grant roles/artifactregistry.reader to the account",
		}
	case "Azure Container Registry":
		return map[int]string{
			http.StatusUnauthorized: "ACR also returns this status for a missing repository: check its name, and grant AcrPull to the identity",
		}
	case "GitHub Packages":
		return map[int]string{
			http.StatusForbidden: "GitHub: the token needs the read:packages scope, its user needs access to the package, and an organization with SSO must authorize the token",
			http.StatusNotFound:  "GitHub also returns this status for packages that the user is not allowed to see",
		}
	case "Quay.io":
		return map[int]string{
			http.StatusUnauthorized: "Quay also returns this status if the repository does not exist or this robot account is not allowed to read it",
		}
	}
	return nil
}
