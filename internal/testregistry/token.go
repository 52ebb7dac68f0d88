// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testregistry

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	tokenPath    = "/token"
	maxTokenBody = 64 << 10 // size of a form in bytes
)

// issuedToken is the server's record of a Bearer token, which is opaque to clients.
type issuedToken struct {
	user    string
	access  []repositoryAccess
	expires time.Time
}

type repositoryAccess struct {
	repo    string
	actions []string
}

func (t issuedToken) allowsAction(repo, action string) bool {
	return slices.ContainsFunc(t.access, func(a repositoryAccess) bool {
		return a.repo == repo && slices.Contains(a.actions, action)
	})
}

// serveToken issues a token. It accepts GET with or without Basic authentication, and
// POST with a form (grant_type=password). Like real token servers, it grants only the
// permitted part of the requested scopes, which may be nothing.
func (s *Server) serveToken(w http.ResponseWriter, r *http.Request, id authResult) {
	anonymous := r.Method == http.MethodGet && id.scheme == ""
	if s.opts.Auth != AuthBearer || !id.valid && !anonymous {
		writeError(w, http.StatusUnauthorized, "UNAUTHORIZED", "wrong user name or password")
		return
	}
	if err := r.ParseForm(); err != nil || r.Form.Get("service") != serviceName {
		writeError(w, http.StatusBadRequest, "UNSUPPORTED", "this token server serves "+serviceName)
		return
	}
	secret := rand.Text()
	tok := issuedToken{user: id.user, access: s.grantScopes(id.user, r.Form["scope"]), expires: s.opts.Now().Add(s.opts.TokenTTL)}
	s.storeToken(secret, tok)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{ // fails only if the client has disconnected
		"token":        secret,
		"access_token": secret,
		"expires_in":   int(s.opts.TokenTTL.Seconds()),
		"issued_at":    s.opts.Now().UTC().Format(time.RFC3339),
	})
}

// grantScopes returns the part of the scopes ("repository:team/app:pull,push") that a user is
// permitted.
func (s *Server) grantScopes(user string, scopes []string) []repositoryAccess {
	var granted []repositoryAccess
	for _, scope := range strings.Fields(strings.Join(scopes, " ")) {
		parts := strings.Split(scope, ":")
		if len(parts) != 3 || parts[0] != "repository" {
			continue
		}
		a := repositoryAccess{repo: parts[1]}
		for action := range strings.SplitSeq(parts[2], ",") {
			if s.isAllowed(user, a.repo, action) {
				a.actions = append(a.actions, action)
			}
		}
		granted = append(granted, a)
	}
	return granted
}

func (s *Server) storeToken(secret string, tok issuedToken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[secret] = tok
}

func (s *Server) lookupToken(secret string) (issuedToken, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tokens[secret]
	return t, ok && s.opts.Now().Before(t.expires)
}

// ExpireTokens expires all tokens issued so far.
func (s *Server) ExpireTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	for k, t := range s.tokens {
		t.expires = now
		s.tokens[k] = t
	}
}
