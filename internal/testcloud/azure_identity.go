// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testcloud

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/canary"
)

// serveIdentity issues a managed identity's token if the request follows the rules for
// the path and host.
func (s AzureState) serveIdentity(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		writeOAuthError(w, http.StatusMethodNotAllowed, "invalid_request", "")
		return
	}
	r.ParseForm()
	version, clientID, resourceID, secret := s.identityRequirements(r)
	switch {
	case r.Form.Get("api-version") != version:
		writeOAuthError(w, http.StatusBadRequest, "invalid_request", "unknown api-version")
	case !secret && r.URL.Path == azureArcPath && r.Header.Get("Authorization") == "":
		w.Header().Set("Www-Authenticate", "Basic realm="+s.KeyFile)
		w.WriteHeader(http.StatusUnauthorized)
	case !secret:
		writeOAuthError(w, http.StatusUnauthorized, "invalid_header", "")
	case r.Form.Get("resource") != azureResource:
		writeOAuthError(w, http.StatusBadRequest, "invalid_resource", "AADSTS500011: the resource principal was not found")
	case s.ClientID != "" && clientID != s.ClientID, s.Resource != "" && resourceID != s.Resource:
		writeOAuthError(w, http.StatusBadRequest, "invalid_request", "Identity not found")
	default:
		answer := map[string]string{
			"access_token": s.AccessToken, "token_type": "Bearer", "resource": azureResource,
			"expires_in": "86399", "expires_on": strconv.FormatInt(time.Now().Add(24*time.Hour).Unix(), 10),
		}
		if r.URL.Path == azureArcPath && !s.OldAgent && clientID != "" {
			answer["client_id"] = clientID
		}
		if r.URL.Path == azureArcPath && !s.OldAgent && resourceID != "" {
			answer["msi_res_id"] = resourceID
		}
		writeJSON(w, http.StatusOK, answer)
	}
}

// identityRequirements describes how the identity endpoints differ: API version, names of an
// identity, and proof that the caller has permission.
func (s AzureState) identityRequirements(r *http.Request) (version, clientID, resourceID string, secret bool) {
	clientID = r.Form.Get("client_id")
	switch r.URL.Path {
	case azureAppServicePath:
		return "2019-08-01", clientID, r.Form.Get("mi_res_id"), r.Header.Get("X-Identity-Header") == s.Header
	case azureArcPath:
		return "2020-06-01", clientID, r.Form.Get("msi_res_id"),
			r.Header.Get("Metadata") == "true" && s.Key != "" && r.Header.Get("Authorization") == "Basic "+s.Key
	}
	return "2018-02-01", clientID, r.Form.Get("msi_res_id"), r.Header.Get("Metadata") == "true"
}

// serveToken implements the token endpoints of Microsoft Entra ID and, at the root, of
// identity bindings.
func (s AzureState) serveToken(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	form := r.PostForm
	tenant := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/"), "/oauth2/v2.0/token")
	assertion := form.Get("client_assertion")
	switch {
	case r.Method != http.MethodPost:
		writeOAuthError(w, http.StatusMethodNotAllowed, "invalid_request", "")
	case s.Tenant != "" && r.URL.Path != "/" && tenant != s.Tenant:
		writeOAuthError(w, http.StatusBadRequest, "invalid_request", "AADSTS90002: Tenant not found")
	case form.Get("grant_type") != "client_credentials":
		writeOAuthError(w, http.StatusBadRequest, "unsupported_grant_type", "AADSTS70003")
	case !strings.Contains(" "+form.Get("scope")+" ", " "+azureResource+"/.default "):
		writeOAuthError(w, http.StatusBadRequest, "invalid_scope", "AADSTS70011")
	case form.Get("client_id") == "", s.ClientID != "" && form.Get("client_id") != s.ClientID:
		writeOAuthError(w, http.StatusBadRequest, "unauthorized_client", "AADSTS700016: the application was not found")
	case assertion != "" && form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer":
		writeOAuthError(w, http.StatusBadRequest, "invalid_request", "AADSTS900144")
	case s.Assertion != "" && assertion != s.Assertion, s.Secret != "" && form.Get("client_secret") != s.Secret,
		assertion == "" && form.Get("client_secret") == "":
		writeOAuthError(w, http.StatusUnauthorized, "invalid_client", "AADSTS700213: no matching federated identity record")
	default:
		writeJSON(w, http.StatusOK, map[string]any{"access_token": s.AccessToken, "token_type": "Bearer", "expires_in": 3599})
	}
}

// serveDiscovery returns the endpoints of a tenant.
func serveDiscovery(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/common/discovery/instance" {
		writeJSON(w, http.StatusOK, map[string]any{
			"tenant_discovery_endpoint": "https://" + r.Host + "/common/v2.0/.well-known/openid-configuration",
			"metadata":                  []any{},
		})
		return
	}
	base := "https://" + r.Host + strings.TrimSuffix(r.URL.Path, "/v2.0/.well-known/openid-configuration")
	writeJSON(w, http.StatusOK, map[string]string{
		"issuer":                 base + "/v2.0",
		"authorization_endpoint": base + "/oauth2/v2.0/authorize",
		"token_endpoint":         base + "/oauth2/v2.0/token",
	})
}

// serveMetadata returns the resource manager's cloud metadata.
func (s AzureState) serveMetadata(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.URL.Query().Get("api-version") == "" {
		writeOAuthError(w, http.StatusBadRequest, "invalid_request", "")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, s.Metadata)
}

// writeOAuthError writes an error as in RFC 6749, section 5.2. The trace contains a secret,
// because real traces contain data that must not be logged.
func writeOAuthError(w http.ResponseWriter, status int, code, description string) {
	writeJSON(w, status, map[string]string{"error": code, "error_description": description, "trace_id": canary.TokenSecret})
}
