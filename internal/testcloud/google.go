// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testcloud

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/canary"
)

// Paths that [Google] serves.
const (
	GoogleTokenPath        = googleInstancePath + "service-accounts/default/token"
	GoogleEmailPath        = googleInstancePath + "service-accounts/default/email"
	GoogleDockercfgPath    = googleInstancePath + "attributes/google-dockercfg"
	GoogleDockercfgURLPath = googleInstancePath + "attributes/google-dockercfg-url"
	GoogleSTSPath          = "/v1/token"
	GoogleFilePath         = "/files/dockercfg" // a URL for DockercfgURL

	googleInstancePath = "/computeMetadata/v1/instance/"
	googleAccountsPath = "/v1/projects/-/serviceAccounts/"
)

// GoogleState determines the responses of [Google]. The zero value is not valid.
type GoogleState struct {
	Token             string        // the node's token from the metadata server
	FederatedToken    string        // the token from STS
	ImpersonatedToken string        // the token of an impersonated service account
	Lifetime          time.Duration // lifetime of each token
	OmitExpiresIn     bool          // omits expires_in from token responses

	Email         string // email of the node's service account; "" means it has none (404)
	Dockercfg     string // the attribute google-dockercfg; "" means unset (404)
	DockercfgURL  string // the attribute google-dockercfg-url; "" means unset (404)
	DockercfgFile string // content of [GoogleFilePath]

	// STS requires these values. "" accepts any value.
	SubjectToken string
	Audience     string
}

// Google simulates Google's endpoints for registry credentials. The metadata server has its own
// address. The Security Token Service and the IAM credentials service have their real host names in
// a [FakeNetwork]. Invalid requests are rejected with the real error codes.
type Google struct {
	*Server
	net     *FakeNetwork
	homeDir string
	guardedState[GoogleState]
}

// NewGoogle starts the servers and adds them to a network. The caller must close them before the
// network.
func NewGoogle(net *FakeNetwork) (*Google, error) {
	home, err := os.MkdirTemp("", "testcloud-")
	if err != nil {
		return nil, err
	}
	g := &Google{net: net, homeDir: home}
	g.state = GoogleState{
		Token: "open-sesame", FederatedToken: "open-sesame-federated", ImpersonatedToken: "open-sesame-account", Lifetime: time.Hour,
		Email: "node@project.iam.gserviceaccount.com",
	}
	g.Server = NewServer(http.HandlerFunc(g.dispatch))
	g.AddHosts("googleapis.com")
	return g, nil
}

// AddHosts adds the services' host names in a universe domain to the network.
func (g *Google) AddHosts(universe string) {
	g.net.Handle("sts."+universe, g)
	g.net.Handle("iamcredentials."+universe, g)
}

// Close stops the servers.
func (g *Google) Close() {
	g.Server.Close()
	os.RemoveAll(g.homeDir)
}

// Environ returns the network's variables, and variables that make a Google SDK use only these
// servers.
func (g *Google) Environ() []string {
	environ := append(g.net.Environ(), "GCE_METADATA_HOST="+g.Addr(), "GCE_METADATA_IP=", "GCE_METADATA_ROOT=",
		"HOME="+g.homeDir, "USERPROFILE="+g.homeDir, "APPDATA="+g.homeDir, "CLOUDSDK_CONFIG="+g.homeDir)
	for _, name := range strings.Fields(googleUnsetVars) {
		environ = append(environ, name+"=")
	}
	return environ
}

// googleUnsetVars lists variables to unset, because they could select other endpoints.
const googleUnsetVars = `
	GOOGLE_APPLICATION_CREDENTIALS GOOGLE_CLOUD_PROJECT GOOGLE_CLOUD_UNIVERSE_DOMAIN GOOGLE_API_USE_CLIENT_CERTIFICATE
	KUBE_SIDECAR_CACHE_DURATION KUBE_SIDECAR_CACHE_TYPE`

func (g *Google) dispatch(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/computeMetadata/"):
		g.serveMetadata(w, r)
	case r.URL.Path == GoogleSTSPath:
		g.serveTokenExchange(w, r)
	case strings.HasPrefix(r.URL.Path, googleAccountsPath):
		g.serveImpersonation(w, r)
	case r.URL.Path == GoogleFilePath:
		writePlainText(w, g.currentState().DockercfgFile)
	default:
		http.NotFound(w, r)
	}
}

// serveMetadata implements the metadata server. It requires the header Metadata-Flavor, which a web
// page cannot set, and rejects proxied requests.
func (g *Google) serveMetadata(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Metadata-Flavor", "Google")
	w.Header().Set("Server", "Metadata Server for VM")
	switch {
	case r.Method != http.MethodGet:
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	case r.Header.Get("Metadata-Flavor") != "Google", r.Header.Get("X-Forwarded-For") != "":
		http.Error(w, "missing header, or forwarded", http.StatusForbidden)
		return
	}
	state := g.currentState()
	switch r.URL.Path {
	case GoogleTokenPath:
		if state.Email == "" {
			http.NotFound(w, r)
			return
		}
		writeJSON(w, http.StatusOK, state.tokenResponse(state.Token, map[string]any{"token_type": "Bearer"}))
	case GoogleEmailPath:
		writeMetadataValue(w, r, state.Email)
	case GoogleDockercfgPath:
		writeMetadataValue(w, r, state.Dockercfg)
	case GoogleDockercfgURLPath:
		writeMetadataValue(w, r, state.DockercfgURL)
	default:
		http.NotFound(w, r)
	}
}

func (s GoogleState) tokenResponse(token string, answer map[string]any) map[string]any {
	answer["access_token"] = token
	if !s.OmitExpiresIn {
		answer["expires_in"] = int(s.Lifetime / time.Second)
	}
	return answer
}

func writeMetadataValue(w http.ResponseWriter, r *http.Request, text string) {
	if text == "" {
		http.NotFound(w, r)
		return
	}
	writePlainText(w, text)
}

func writePlainText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/text")
	w.Write([]byte(text))
}

// serveTokenExchange implements the STS endpoint for token exchange (RFC 8693).
func (g *Google) serveTokenExchange(w http.ResponseWriter, r *http.Request) {
	state := g.currentState()
	field, ok := requestFields(r)
	switch {
	case r.Method != http.MethodPost || !ok:
		writeOAuthError(w, http.StatusBadRequest, "invalid_request", "not a form and not JSON")
	case field("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange":
		writeOAuthError(w, http.StatusBadRequest, "unsupported_grant_type", "grant_type")
	case field("requested_token_type") != "urn:ietf:params:oauth:token-type:access_token",
		field("subject_token_type") != "urn:ietf:params:oauth:token-type:jwt", field("scope") == "":
		writeOAuthError(w, http.StatusBadRequest, "invalid_request", "a field is missing or has a value that is not known")
	case field("audience") == "", state.Audience != "" && field("audience") != state.Audience:
		writeOAuthError(w, http.StatusBadRequest, "invalid_target", "the audience does not name a provider")
	case field("subject_token") == "", state.SubjectToken != "" && field("subject_token") != state.SubjectToken:
		// The real STS may quote parts of the request. This error quotes the token.
		writeOAuthError(w, http.StatusBadRequest, "invalid_grant", "the subject token is not valid: "+field("subject_token"))
	default:
		writeJSON(w, http.StatusOK, state.tokenResponse(state.FederatedToken, map[string]any{
			"token_type": "Bearer", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
		}))
	}
}

// requestFields returns a function that gets fields of a form or JSON body.
func requestFields(r *http.Request) (field func(string) string, ok bool) {
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		var members map[string]string
		err := json.NewDecoder(r.Body).Decode(&members)
		return func(name string) string { return members[name] }, err == nil
	}
	err := r.ParseForm()
	return r.PostForm.Get, err == nil
}

// serveImpersonation implements the method generateAccessToken of the IAM credentials service.
func (g *Google) serveImpersonation(w http.ResponseWriter, r *http.Request) {
	state := g.currentState()
	email, verb, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, googleAccountsPath), ":")
	email, err := url.PathUnescape(email)
	switch {
	case r.Method != http.MethodPost || verb != "generateAccessToken" || err != nil:
		http.NotFound(w, r)
	case r.Header.Get("Authorization") != "Bearer "+state.FederatedToken:
		writeGoogleError(w, http.StatusUnauthorized, "UNAUTHENTICATED")
	case !strings.HasSuffix(email, ".iam.gserviceaccount.com"):
		writeGoogleError(w, http.StatusForbidden, "PERMISSION_DENIED")
	default:
		writeJSON(w, http.StatusOK, map[string]string{
			"accessToken": state.ImpersonatedToken, "expireTime": time.Now().Add(state.Lifetime).UTC().Format(time.RFC3339),
		})
	}
}

// writeGoogleError writes an error in the format of Google's services. The message contains a
// canary, so that tests detect plugins that quote the message.
func writeGoogleError(w http.ResponseWriter, status int, code string) {
	writeJSON(w, status, map[string]any{"error": map[string]any{"code": status, "status": code, "message": canary.PasswordSecret}})
}
