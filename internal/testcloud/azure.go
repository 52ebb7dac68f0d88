// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testcloud

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/regcred/regcred/internal/canary"
)

// ACRUser is the user name that goes with every refresh token of a registry.
const ACRUser = "00000000-0000-0000-0000-000000000000"

// AzureRequestID is the name that every answer of [Azure] has.
const AzureRequestID = "4f5e1b1c-request"

// The paths at which [Azure] has managed identities of other hosts than
// virtual machines.
const (
	azureIMDSPath       = "/metadata/identity/oauth2/token"
	azureAppServicePath = "/appservice/token"
	azureArcPath        = "/arc/token"
)

// azureResource is who a token has to be for.
const azureResource = "https://containerregistry.azure.net"

// AzureState is what [Azure] answers with, and what it wants to be asked. Of
// the latter, "" takes anything.
type AzureState struct {
	AccessToken string // that managed identities and Microsoft Entra ID hand out
	// RefreshToken is what a registry hands out for it; "" means a JSON Web
	// Token that is good for Life from the time of the answer on.
	RefreshToken string
	Life         time.Duration

	ClientID  string // of managed identities and applications
	Resource  string // the resource ID of a managed identity
	Header    string // the secret of App Service
	KeyFile   string // where the agent of Azure Arc says that its key is
	Key       string // what is in that file
	OldAgent  bool   // the agent of Azure Arc knows one identity, and ignores the name of another
	Tenant    string // in the address of the token endpoint, and of the exchange
	Assertion string // the client assertion
	Secret    string // the client secret; with neither, a client certificate is taken

	// Metadata is what the resource manager says about its clouds, in JSON.
	Metadata string

	// Challenge is what a login server challenges with; "%s" in it is the
	// server's host. "" means that of the real ones.
	Challenge string

	// Registry, if set, serves what a login server is asked, but the exchange.
	// It must challenge with Bearer and a realm under the name that it is
	// asked by, and take RefreshToken as the password of ACRUser.
	Registry http.Handler
}

// Azure is the part of Microsoft's cloud from which registry credentials come:
// managed identities of virtual machines, App Service and Azure Arc, Microsoft
// Entra ID, the resource manager's metadata, identity bindings, and login
// servers of ACR. All are at the root of one address;
// [Azure.Join] gives them their names in a [Net].
type Azure struct {
	*Server

	mu    sync.Mutex
	state AzureState
}

// NewAzure starts the cloud. Close it.
func NewAzure() *Azure {
	a := &Azure{state: AzureState{
		AccessToken: canary.Token + "-access",
		Life:        3 * time.Hour,
		Header:      canary.Token + "-header",
	}}
	a.Server = Serve(http.HandlerFunc(a.dispatch))
	return a
}

// Set changes what the cloud answers with.
func (a *Azure) Set(change func(*AzureState)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.state)
}

func (a *Azure) get() AzureState {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// Join gives the cloud the names that it has in the world.
func (a *Azure) Join(n *Net) {
	for _, host := range []string{
		"login.microsoftonline.com", "login.microsoftonline.us", "login.chinacloudapi.cn",
		"management.azure.com", "*.azurecr.io", "*.azurecr.cn", "*.azurecr.de", "*.azurecr.us",
	} {
		n.Handle(host, a)
	}
}

// azureNone empties the variables by which an identity is found.
var azureNone = []string{
	"IDENTITY_ENDPOINT=", "IDENTITY_HEADER=", "IDENTITY_SERVER_THUMBPRINT=", "IMDS_ENDPOINT=",
	"MSI_ENDPOINT=", "MSI_SECRET=", "DEFAULT_IDENTITY_CLIENT_ID=",
	"AZURE_ENVIRONMENT_FILEPATH=", "AZURE_REGIONAL_AUTHORITY_NAME=",
}

// Environ returns the variables of a virtual machine of this cloud. The login
// servers and Microsoft Entra ID have no variables: a [Net] leads to them.
func (a *Azure) Environ() []string {
	return append(append([]string{}, azureNone...), "AZURE_POD_IDENTITY_AUTHORITY_HOST="+a.URL())
}

// AppServiceEnviron is [Azure.Environ] on App Service.
func (a *Azure) AppServiceEnviron() []string {
	return append(a.Environ(), "IDENTITY_ENDPOINT="+a.URL()+azureAppServicePath, "IDENTITY_HEADER="+a.get().Header)
}

// ArcEnviron is [Azure.Environ] where the agent of Azure Arc runs.
func (a *Azure) ArcEnviron() []string {
	return append(a.Environ(), "IDENTITY_ENDPOINT="+a.URL()+azureArcPath, "IMDS_ENDPOINT="+a.URL())
}

// Steps are the lines of what was asked ([Server.Lines]) in an order that does
// not hang on who was faster: a login server's challenge is asked for beside
// the token, and stands after it here.
func (a *Azure) Steps() []string {
	var steps, challenges []string
	for _, line := range a.Lines() {
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

// dispatch finds the part of the cloud by the path, since no two share one.
func (a *Azure) dispatch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Ms-Request-Id", AzureRequestID)
	s := a.get()
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

// serveChallenge demands a login, as a login server does.
func (s AzureState) serveChallenge(w http.ResponseWriter, r *http.Request) {
	challenge := s.Challenge
	if challenge == "" {
		challenge = `Bearer realm="https://%s/oauth2/token",service="%[1]s"`
	}
	if strings.Contains(challenge, "%") {
		challenge = fmt.Sprintf(challenge, r.Host)
	}
	w.Header().Set("Www-Authenticate", challenge)
	refuseRegistry(w, http.StatusUnauthorized, "UNAUTHORIZED")
}

// serveExchange turns an access token into a refresh token of the registry.
func (s AzureState) serveExchange(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	form := r.PostForm
	w.Header().Set("X-Ms-Correlation-Request-Id", AzureRequestID)
	switch {
	case r.Method != http.MethodPost:
		refuseRegistry(w, http.StatusMethodNotAllowed, "UNSUPPORTED")
	case form.Get("grant_type") != "access_token_refresh_token", form.Get("service") == "":
		refuseRegistry(w, http.StatusBadRequest, "INVALID_REQUEST")
	case s.Tenant != "" && form.Get("tenant") != s.Tenant,
		form.Get("access_token") != s.AccessToken, form.Get("refresh_token") != s.AccessToken:
		refuseRegistry(w, http.StatusUnauthorized, "UNAUTHORIZED")
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
		"jti": canary.Password, "grant_type": "refresh_token",
		"iat": now.Unix(), "exp": now.Add(s.Life).Unix(),
	})
}

// AzureJWT returns a JSON Web Token with these claims, and with a signature
// that nobody can verify.
func AzureJWT(claims map[string]any) string {
	payload, err := json.Marshal(claims)
	if err != nil {
		return ""
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode(payload) + "." + encode([]byte("signature"))
}

func refuseRegistry(w http.ResponseWriter, status int, code string) {
	writeJSON(w, status, map[string]any{"errors": []map[string]string{{"code": code, "message": canary.Token}}})
}
