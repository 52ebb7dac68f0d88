// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command floor gets a credential with as little work as possible. Its time is a lower bound for
// the time of a plugin in upstream/bench.
//
// It uses only package net/http, over HTTP/1.1, and CAs from the bundle. It sends independent
// requests concurrently and validates nothing. It reads a CredentialProviderRequest from standard
// input and writes the response to standard output.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
)

// request has the fields of a CredentialProviderRequest that floor needs.
type request struct {
	APIVersion  string            `json:"apiVersion"`
	Image       string            `json:"image"`
	Token       string            `json:"serviceAccountToken"`
	Annotations map[string]string `json:"serviceAccountAnnotations"`
}

// login is a user name and password.
type login struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

type response struct {
	Kind          string           `json:"kind"`
	APIVersion    string           `json:"apiVersion"`
	CacheKeyType  string           `json:"cacheKeyType"`
	CacheDuration string           `json:"cacheDuration"`
	Auth          map[string]login `json:"auth"`
}

// credentialFuncs maps the first argument to a function that gets a credential.
var credentialFuncs = map[string]func(request) (login, error){
	"ecr-instance": ecrCredentialFromInstance, "ecr-pod": ecrCredentialFromPodToken, "gcr-pod": gcrCredentialFromPodToken,
	"acr-instance": acrCredentialFromInstance, "acr-pod": acrCredentialFromPodToken, "token": exchangeSTSToken,
}

func main() {
	if err := printCredential(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func printCredential(subject string) error {
	go httpsClient() // loads the CA bundle concurrently
	var req request
	if err := json.NewDecoder(os.Stdin).Decode(&req); err != nil {
		return err
	}
	auth, err := credentialFuncs[subject](req)
	if err != nil {
		return err
	}
	host, _, _ := strings.Cut(req.Image, "/")
	return json.NewEncoder(os.Stdout).Encode(response{
		"CredentialProviderResponse", req.APIVersion, "Registry", "1h", map[string]login{host: auth},
	})
}

// metadataClient is the client for metadata servers.
var metadataClient = &http.Client{Transport: &http.Transport{}}

// httpsClient returns the client for all other servers. A transport with its own TLS
// configuration does not use HTTP/2.
var httpsClient = sync.OnceValue(func() *http.Client {
	pool := x509.NewCertPool()
	if bundle, err := os.ReadFile(os.Getenv("SSL_CERT_FILE")); err == nil {
		pool.AppendCertsFromPEM(bundle)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
})

// sendRequest sends a request and reads the response.
func sendRequest(client *http.Client, method, address, body string, header ...string) (*http.Response, []byte, error) {
	req, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusUnauthorized {
		err = fmt.Errorf("%s: %s: %s", address, resp.Status, data)
	}
	return resp, data, err
}

// requestJSON is like sendRequest, and decodes a JSON response.
func requestJSON(client *http.Client, answer any, method, address, body string, header ...string) error {
	_, data, err := sendRequest(client, method, address, body, header...)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, answer)
}

const formType = "application/x-www-form-urlencoded"

// oauthResponse is a token endpoint's response.
type oauthResponse struct {
	AccessToken  string `json:"access_token"`
	RefreshToken string `json:"refresh_token"`
}

func gcrCredentialFromPodToken(req request) (login, error) {
	body, err := json.Marshal(map[string]string{
		"audience":             "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/cluster",
		"grant_type":           "urn:ietf:params:oauth:grant-type:token-exchange",
		"requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
		"scope":                "https://www.googleapis.com/auth/cloud-platform",
		"subject_token":        req.Token,
		"subject_token_type":   "urn:ietf:params:oauth:token-type:jwt",
	})
	if err != nil {
		return login{}, err
	}
	var answer oauthResponse
	err = requestJSON(httpsClient(), &answer, http.MethodPost, "https://sts.googleapis.com/v1/token", string(body), "Content-Type", "application/json")
	return login{"_token", answer.AccessToken}, err
}

func exchangeSTSToken(req request) (login, error) {
	body := url.Values{
		"grant_type":         {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"audience":           {"registry.example.com"},
		"subject_token":      {req.Token},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:jwt"},
	}
	var answer oauthResponse
	err := requestJSON(httpsClient(), &answer, http.MethodPost, "https://sts.example.com/token", body.Encode(), "Content-Type", formType)
	return login{"robot", answer.AccessToken}, err
}

func acrCredentialFromInstance(req request) (login, error) {
	return acrCredential(req, "", func() (string, error) {
		address := os.Getenv("AZURE_POD_IDENTITY_AUTHORITY_HOST") + "/metadata/identity/oauth2/token?" + url.Values{
			"api-version": {"2018-02-01"}, "resource": {"https://containerregistry.azure.net"},
		}.Encode()
		var answer oauthResponse
		err := requestJSON(metadataClient, &answer, http.MethodGet, address, "", "Metadata", "true")
		return answer.AccessToken, err
	})
}

func acrCredentialFromPodToken(req request) (login, error) {
	tenant := req.Annotations["kubernetes.azure.com/acr-tenant-id"]
	return acrCredential(req, tenant, func() (string, error) {
		body := url.Values{
			"grant_type":            {"client_credentials"},
			"client_id":             {req.Annotations["kubernetes.azure.com/acr-client-id"]},
			"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
			"client_assertion":      {req.Token},
			"scope":                 {"https://containerregistry.azure.net/.default"},
		}
		var answer oauthResponse
		err := requestJSON(httpsClient(), &answer, http.MethodPost, "https://login.microsoftonline.com/"+tenant+"/oauth2/v2.0/token", body.Encode(), "Content-Type", formType)
		return answer.AccessToken, err
	})
}

// acrCredential exchanges a token at a login server. It requests the token and the server's
// challenge concurrently.
func acrCredential(req request, tenant string, token func() (string, error)) (login, error) {
	host, _, _ := strings.Cut(req.Image, "/")
	var challenge string
	var refused error
	var wg sync.WaitGroup
	wg.Go(func() {
		var resp *http.Response
		if resp, _, refused = sendRequest(httpsClient(), http.MethodGet, "https://"+host+"/v2/", ""); refused == nil {
			challenge = resp.Header.Get("Www-Authenticate")
		}
	})
	access, err := token()
	wg.Wait()
	if err != nil || refused != nil {
		return login{}, fmt.Errorf("token: %v; challenge: %v", err, refused)
	}
	_, service, _ := strings.Cut(challenge, `service="`)
	service, _, _ = strings.Cut(service, `"`)
	body := url.Values{"grant_type": {"access_token_refresh_token"}, "service": {service}, "access_token": {access}, "refresh_token": {access}}
	if tenant != "" {
		body.Set("tenant", tenant)
	}
	var answer oauthResponse
	err = requestJSON(httpsClient(), &answer, http.MethodPost, "https://"+host+"/oauth2/exchange", body.Encode(), "Content-Type", formType)
	return login{"00000000-0000-0000-0000-000000000000", answer.RefreshToken}, err
}

// decodeECRToken decodes the credential in ECR's response.
func decodeECRToken(token string) (login, error) {
	data, err := base64.StdEncoding.DecodeString(token)
	user, password, _ := bytes.Cut(data, []byte(":"))
	return login{string(user), string(password)}, err
}
