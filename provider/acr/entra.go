// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/regcred/regcred/internal/remote"
)

// tokenAudience is the audience of the tokens for ACR in every cloud.
const tokenAudience = "https://containerregistry.azure.net"

// assertionParams returns the form parameters for a client assertion (RFC 7523, section 2.2).
func assertionParams(token string) url.Values {
	return url.Values{
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		"client_assertion":      {token},
	}
}

// entraToken gets a token from the tenant's token endpoint. It sends a single request, while
// Microsoft's SDK would first discover the endpoint.
func (s *session) entraToken(ctx context.Context, clientID, tenant string, proof url.Values) (string, error) {
	env, err := s.loadEnvironment(ctx)
	if err != nil {
		return "", err
	}
	address, err := env.tokenURL(tenant, s.opts.Getenv("AZURE_REGIONAL_AUTHORITY_NAME"))
	if err != nil {
		return "", err
	}
	client := s.client
	client.UserAgent = s.tokenUserAgent()
	return clientCredentials(ctx, client, "get a token from Microsoft Entra ID", address, clientID, proof)
}

// clientCredentials gets a token with the client credentials grant (RFC 6749, section 4.4). It adds
// its form parameters to proof.
func clientCredentials(ctx context.Context, client remote.Client, step, address, clientID string, proof url.Values) (string, error) {
	proof.Set("grant_type", "client_credentials")
	proof.Set("client_id", clientID)
	proof.Set("scope", tokenAudience+"/.default")
	answer, err := client.Do(ctx, remote.Call{Step: step, URL: address, Form: proof})
	if err != nil {
		return "", err
	}
	token, err := parseToken(answer.Body, "access_token")
	if err != nil {
		return "", fmt.Errorf("%s: %s: %w", step, answer.URL.Host, err)
	}
	return token, nil
}

// jsonObject is a JSON object.
type jsonObject map[string]any

func parseJSONObject(body []byte) (jsonObject, error) {
	var m jsonObject
	if json.Unmarshal(body, &m) != nil {
		return nil, errors.New("the response is not a JSON object")
	}
	return m, nil
}

// tokenMember returns the token in the named member.
func (m jsonObject) tokenMember(name string) (string, error) {
	token, _ := m[name].(string)
	switch {
	case token == "":
		return "", fmt.Errorf("the response has no %s", name)
	case !isPrintableToken(token):
		return "", fmt.Errorf("the response has invalid characters in %s", name)
	}
	return token, nil
}

func parseToken(body []byte, name string) (string, error) {
	m, err := parseJSONObject(body)
	if err != nil {
		return "", err
	}
	return m.tokenMember(name)
}

// isPrintableToken reports whether s consists of printable ASCII characters, as tokens do (RFC
// 6749, appendix A.12).
func isPrintableToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
