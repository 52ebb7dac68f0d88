// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testcloud

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/canary"
)

// ACRUser is the user name for a registry's refresh tokens.
const ACRUser = "00000000-0000-0000-0000-000000000000"

// AzureRequestID is the request ID of every response of [Azure].
const AzureRequestID = "4f5e1b1c-request"

// The paths of managed identities in App Service and Azure Arc.
const (
	azureIMDSPath       = "/metadata/identity/oauth2/token"
	azureAppServicePath = "/appservice/token"
	azureArcPath        = "/arc/token"
)

// azureResource is the resource that a token request must contain.
const azureResource = "https://containerregistry.azure.net"

// AzureState determines the responses of [Azure] and the values that it requires. ""
// accepts any value.
type AzureState struct {
	AccessToken string // issued by managed identities and Microsoft Entra ID
	// RefreshToken is the token that a registry issues for AccessToken. "" means a JSON
	// Web Token that is valid for Life.
	RefreshToken string
	Life         time.Duration

	ClientID  string // client ID of managed identities and applications
	Resource  string // the resource ID of a managed identity
	Header    string // App Service's secret
	KeyFile   string // path of the Azure Arc agent's key
	Key       string // content of KeyFile
	OldAgent  bool   // the Azure Arc agent has one identity and ignores identity names
	Tenant    string // tenant in the URL of the token endpoint and in the exchange
	Assertion string // the client assertion
	Secret    string // the client secret; without Assertion and Secret, a client certificate is accepted

	// Metadata is the resource manager's cloud metadata as JSON.
	Metadata string

	// Challenge is a login server's challenge, with "%s" for the server's host. ""
	// means the challenge of the real servers.
	Challenge string

	// Registry, if set, handles all requests to a login server except the exchange. It
	// must send a Bearer challenge with a realm on the requested host, and accept
	// RefreshToken as the password of ACRUser.
	Registry http.Handler
}

// Azure simulates Microsoft's endpoints for registry credentials at one address:
// managed identities of virtual machines, App Service and Azure Arc, Microsoft Entra
// ID, the resource manager's metadata, identity bindings, and ACR login servers.
// [Azure.AddHosts] adds their real host names to a [FakeNetwork].
type Azure struct {
	*Server
	settings[AzureState]
}

// NewAzure starts the server. The caller must close it.
func NewAzure() *Azure {
	a := &Azure{}
	a.state = AzureState{
		AccessToken: canary.TokenSecret + "-access",
		Life:        3 * time.Hour,
		Header:      canary.TokenSecret + "-header",
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

// azureUnsetVars clears the variables that select an identity.
var azureUnsetVars = []string{
	"IDENTITY_ENDPOINT=", "IDENTITY_HEADER=", "IDENTITY_SERVER_THUMBPRINT=", "IMDS_ENDPOINT=",
	"MSI_ENDPOINT=", "MSI_SECRET=", "DEFAULT_IDENTITY_CLIENT_ID=",
	"AZURE_ENVIRONMENT_FILEPATH=", "AZURE_REGIONAL_AUTHORITY_NAME=",
}

// Environ returns the environment variables of a virtual machine. There are no
// variables for login servers and Microsoft Entra ID; use a [FakeNetwork] for them.
func (a *Azure) Environ() []string {
	return append(append([]string{}, azureUnsetVars...), "AZURE_POD_IDENTITY_AUTHORITY_HOST="+a.URL())
}

// AppServiceEnviron returns the environment variables of App Service.
func (a *Azure) AppServiceEnviron() []string {
	return append(a.Environ(), "IDENTITY_ENDPOINT="+a.URL()+azureAppServicePath, "IDENTITY_HEADER="+a.currentState().Header)
}

// ArcEnviron returns the environment variables of a machine with the Azure Arc agent.
func (a *Azure) ArcEnviron() []string {
	return append(a.Environ(), "IDENTITY_ENDPOINT="+a.URL()+azureArcPath, "IMDS_ENDPOINT="+a.URL())
}

// SortedLines returns [Server.RequestLines] in a deterministic order. A plugin requests a login
// server's challenge and the token concurrently; here the challenge comes last.
func (a *Azure) SortedLines() []string {
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
		"iat": now.Unix(), "exp": now.Add(s.Life).Unix(),
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
