// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regcred/regcred/upstream/node"
)

// tokenExchange is a token service on loopback that returns a password for a service account
// token (RFC 8693).
type tokenExchange struct {
	*httptest.Server
	tokenVerifier
	audience string // audience that tokens must have
	password string
	runs     atomic.Int64
}

func startTokenExchange(t *testing.T, control *node.ControlPlane, audience, password string) *tokenExchange {
	t.Helper()
	e := &tokenExchange{tokenVerifier: tokenVerifier{control.Key, control.Issuer}, audience: audience, password: password}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *tokenExchange) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.runs.Add(1)
	_, err := e.verifyToken(r.PostFormValue("subject_token"), e.audience, time.Now())
	if err != nil || r.PostFormValue("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange" {
		http.Error(w, `{"error":"invalid_request"}`, http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{
		"access_token": e.password, "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
		"token_type": "N_A", "expires_in": 3600,
	})
}
