// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testcloud

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/canary"
)

// ACRUser is the user name for refresh tokens of a registry.
const ACRUser = "00000000-0000-0000-0000-000000000000"

// AzureRequestID is the request ID of every response of [Azure].
const AzureRequestID = "4f5e1b1c-request"

// Paths of the managed identity endpoints.
const (
	azureIMDSPath       = "/metadata/identity/oauth2/token"
	azureAppServicePath = "/appservice/token"
	azureArcPath        = "/arc/token"
)

// azureResource is the resource or scope that a token request must contain.
const azureResource = "https://containerregistry.azure.net"

// AzureState determines the responses of [Azure] and the values that requests must contain. ""
// accepts any value.
type AzureState struct {
	AccessToken string // issued by managed identities and Microsoft Entra ID
	// RefreshToken is the token that a registry issues for AccessToken. "" means a JSON Web Token
	// that is valid for Lifetime.
	RefreshToken string
	Lifetime     time.Duration

	ClientID          string // client ID of managed identities and applications
	ResourceID        string // the resource ID of a managed identity
	IdentityHeader    string // secret header value of App Service
	ArcKeyFile        string // path of the Azure Arc agent's key
	ArcKey            string // content of ArcKeyFile
	ArcSingleIdentity bool   // the Azure Arc agent has only one identity and ignores the requested one
	Tenant            string // tenant in the URL of the token endpoint and in the exchange
	ClientAssertion   string // the client assertion
	ClientSecret      string // the client secret; without Assertion and Secret, a client certificate is accepted

	// Metadata is the resource manager's cloud metadata as JSON.
	Metadata string

	// Challenge is the challenge of a login server. "%s" is replaced with the server's host. ""
	// means the challenge of real servers.
	Challenge string

	// Registry, if not nil, handles all requests to a login server except the exchange. Its Bearer
	// challenge must have a realm on the requested host. It must accept RefreshToken as the
	// password of ACRUser.
	Registry http.Handler
}

// Azure simulates Microsoft's endpoints for registry credentials at one address. These are the
// managed identity endpoints of virtual machines, App Service and Azure Arc, and Microsoft Entra
// ID, the resource manager's metadata, identity bindings and ACR login servers. [Azure.AddHosts]
// adds their real host names to a [FakeNetwork].
type Azure struct {
	*Server
	guardedState[AzureState]
}

// NewAzure starts the server. The caller must close it.
func NewAzure() *Azure {
	a := &Azure{}
	a.state = AzureState{
		AccessToken:    canary.TokenSecret + "-access",
		Lifetime:       3 * time.Hour,
		IdentityHeader: canary.TokenSecret + "-header",
	}
	a.Server = NewServer(http.HandlerFunc(a.dispatch))
	return a
}

// AddHosts adds the real host names of the endpoints to a [FakeNetwork].
func (a *Azure) AddHosts(n *FakeNetwork) {
	for _, host := range []string{
		"login.microsoftonline.com", "login.microsoftonline.us", "login.chinacloudapi.cn",
		"management.azure.com", "*.azurecr.io", "*.azurecr.cn", "*.azurecr.de", "*.azurecr.us",
	} {
		n.Handle(host, a)
	}
}

// azureUnsetVars unsets the variables that select an identity.
var azureUnsetVars = []string{
	"IDENTITY_ENDPOINT=", "IDENTITY_HEADER=", "IDENTITY_SERVER_THUMBPRINT=", "IMDS_ENDPOINT=",
	"MSI_ENDPOINT=", "MSI_SECRET=", "DEFAULT_IDENTITY_CLIENT_ID=",
	"AZURE_ENVIRONMENT_FILEPATH=", "AZURE_REGIONAL_AUTHORITY_NAME=",
}

// Environ returns the environment variables of a virtual machine. Login servers and Microsoft Entra
// ID have no variables; use a [FakeNetwork] for them.
func (a *Azure) Environ() []string {
	return append(append([]string{}, azureUnsetVars...), "AZURE_POD_IDENTITY_AUTHORITY_HOST="+a.URL())
}

// AppServiceEnviron returns the environment variables of App Service.
func (a *Azure) AppServiceEnviron() []string {
	return append(a.Environ(), "IDENTITY_ENDPOINT="+a.URL()+azureAppServicePath, "IDENTITY_HEADER="+a.currentState().IdentityHeader)
}

// ArcEnviron returns the environment variables of a machine with the Azure Arc agent.
func (a *Azure) ArcEnviron() []string {
	return append(a.Environ(), "IDENTITY_ENDPOINT="+a.URL()+azureArcPath, "IMDS_ENDPOINT="+a.URL())
}

// SortedRequestLines returns [Server.RequestLines] in a fixed order. A plugin requests the challenge and
// the token concurrently. Here, the challenge comes after the token.
func (a *Azure) SortedRequestLines() []string {
	var steps, challenges []string
	for _, line := range a.RequestLines() {
		switch {
		case strings.HasPrefix(line, "GET ") && strings.HasSuffix(line, "/v2/"):
			challenges = append(challenges, line)
			continue
		case strings.HasSuffix(line, "/oauth2/exchange"):
			steps, challenges = append(steps, challenges...), nil
		}
		steps = append(steps, line)
	}
	return append(steps, challenges...)
}

// dispatch selects the endpoint by path. Each endpoint has its own paths.
func (a *Azure) dispatch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Ms-Request-Id", AzureRequestID)
	s := a.currentState()
	switch path := r.URL.Path; {
	case path == azureIMDSPath, path == azureAppServicePath, path == azureArcPath:
		s.serveIdentity(w, r)
	case path == "/metadata/endpoints":
		s.serveMetadata(w, r)
	case path == "/common/discovery/instance", strings.HasSuffix(path, "/.well-known/openid-configuration"):
		serveDiscovery(w, r)
	case path == "/" && r.Method == http.MethodPost, strings.HasSuffix(path, "/oauth2/v2.0/token"):
		s.serveToken(w, r)
	case path == "/oauth2/exchange":
		s.serveExchange(w, r)
	case s.Registry != nil:
		s.Registry.ServeHTTP(w, r)
	case path == "/v2/":
		s.serveChallenge(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (s AzureState) serveChallenge(w http.ResponseWriter, r *http.Request) {
	challenge := s.Challenge
	if challenge == "" {
		challenge = `Bearer realm="https://%s/oauth2/token",service="%[1]s"`
	}
	if strings.Contains(challenge, "%") {
		challenge = fmt.Sprintf(challenge, r.Host)
	}
	w.Header().Set("Www-Authenticate", challenge)
	writeRegistryError(w, http.StatusUnauthorized, "UNAUTHORIZED")
}

// serveExchange exchanges an access token for the registry's refresh token.
func (s AzureState) serveExchange(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	form := r.PostForm
	w.Header().Set("X-Ms-Correlation-Request-Id", AzureRequestID)
	switch {
	case r.Method != http.MethodPost:
		writeRegistryError(w, http.StatusMethodNotAllowed, "UNSUPPORTED")
	case form.Get("grant_type") != "access_token_refresh_token", form.Get("service") == "":
		writeRegistryError(w, http.StatusBadRequest, "INVALID_REQUEST")
	case s.Tenant != "" && form.Get("tenant") != s.Tenant,
		form.Get("access_token") != s.AccessToken, form.Get("refresh_token") != s.AccessToken:
		writeRegistryError(w, http.StatusUnauthorized, "UNAUTHORIZED")
	default:
		writeJSON(w, http.StatusOK, map[string]string{"refresh_token": s.refreshToken()})
	}
}

func (s AzureState) refreshToken() string {
	if s.RefreshToken != "" {
		return s.RefreshToken
	}
	now := time.Now()
	return AzureJWT(map[string]any{
		"jti": canary.PasswordSecret, "grant_type": "refresh_token",
		"iat": now.Unix(), "exp": now.Add(s.Lifetime).Unix(),
	})
}

// AzureJWT returns a JSON Web Token with these claims and an invalid signature.
func AzureJWT(claims map[string]any) string {
	payload, err := json.Marshal(claims)
	if err != nil {
		return ""
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode(payload) + "." + encode([]byte("signature"))
}

func writeRegistryError(w http.ResponseWriter, status int, code string) {
	writeJSON(w, status, map[string]any{"errors": []map[string]string{{"code": code, "message": canary.TokenSecret}}})
}

// serveIdentity returns a managed identity's token if the request is valid for the endpoint.
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
		w.Header().Set("Www-Authenticate", "Basic realm="+s.ArcKeyFile)
		w.WriteHeader(http.StatusUnauthorized)
	case !secret:
		writeOAuthError(w, http.StatusUnauthorized, "invalid_header", "")
	case r.Form.Get("resource") != azureResource:
		writeOAuthError(w, http.StatusBadRequest, "invalid_resource", "AADSTS500011: the resource principal was not found")
	case s.ClientID != "" && clientID != s.ClientID, s.ResourceID != "" && resourceID != s.ResourceID:
		writeOAuthError(w, http.StatusBadRequest, "invalid_request", "Identity not found")
	default:
		answer := map[string]string{
			"access_token": s.AccessToken, "token_type": "Bearer", "resource": azureResource,
			"expires_in": "86399", "expires_on": strconv.FormatInt(time.Now().Add(24*time.Hour).Unix(), 10),
		}
		if r.URL.Path == azureArcPath && !s.ArcSingleIdentity && clientID != "" {
			answer["client_id"] = clientID
		}
		if r.URL.Path == azureArcPath && !s.ArcSingleIdentity && resourceID != "" {
			answer["msi_res_id"] = resourceID
		}
		writeJSON(w, http.StatusOK, answer)
	}
}

// identityRequirements returns what differs between the identity endpoints: the required API
// version, the requested identity, and whether the request is authorized.
func (s AzureState) identityRequirements(r *http.Request) (version, clientID, resourceID string, secret bool) {
	clientID = r.Form.Get("client_id")
	switch r.URL.Path {
	case azureAppServicePath:
		return "2019-08-01", clientID, r.Form.Get("mi_res_id"), r.Header.Get("X-Identity-Header") == s.IdentityHeader
	case azureArcPath:
		return "2020-06-01", clientID, r.Form.Get("msi_res_id"),
			r.Header.Get("Metadata") == "true" && s.ArcKey != "" && r.Header.Get("Authorization") == "Basic "+s.ArcKey
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
	case s.ClientAssertion != "" && assertion != s.ClientAssertion, s.ClientSecret != "" && form.Get("client_secret") != s.ClientSecret,
		assertion == "" && form.Get("client_secret") == "":
		writeOAuthError(w, http.StatusUnauthorized, "invalid_client", "AADSTS700213: no matching federated identity record")
	default:
		writeJSON(w, http.StatusOK, map[string]any{"access_token": s.AccessToken, "token_type": "Bearer", "expires_in": 3599})
	}
}

// serveDiscovery returns the OpenID Connect metadata of a tenant.
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

// writeOAuthError writes an error as in RFC 6749, section 5.2. The trace ID is a canary, because
// real traces contain data that must not be logged.
func writeOAuthError(w http.ResponseWriter, status int, code, description string) {
	writeJSON(w, status, map[string]string{"error": code, "error_description": description, "trace_id": canary.TokenSecret})
}
