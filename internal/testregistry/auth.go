// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testregistry

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Anonymous is the user name in a [Rule] for requests without credentials.
const Anonymous = ""

// AnyUser is the user name in a [Rule] for every authenticated user.
const AnyUser = "*"

// Rule allows a user to pull from or push to repositories.
type Rule struct {
	User   string // a user name, [AnyUser] or [Anonymous]
	Prefix string // prefix in path elements: "team" covers "team" and "team/app"; "" covers all
	Pull   bool
	Push   bool
}

const (
	actionPull  = "pull"
	actionPush  = "push"
	serviceName = "testregistry"
)

func (r Rule) matches(user, repo string) bool {
	if r.User != user && (r.User != AnyUser || user == Anonymous) {
		return false
	}
	return r.Prefix == "" || repo == r.Prefix || strings.HasPrefix(repo, r.Prefix+"/")
}

// isAllowed reports whether the rules allow a user to perform an action. The user must be
// authenticated or [Anonymous].
func (s *Server) isAllowed(user, repo, action string) bool {
	if len(s.opts.Rules) == 0 {
		return user != Anonymous
	}
	return slices.ContainsFunc(s.opts.Rules, func(r Rule) bool {
		return r.matches(user, repo) && (action == actionPull && r.Pull || action == actionPush && r.Push)
	})
}

// authResult describes the credentials of a request and whether they are valid.
type authResult struct {
	scheme string // see Request.Scheme
	user   string // as sent; for a token, the user it was issued to
	valid  bool   // the password or token is valid
	token  issuedToken
}

// authenticate reads the Authorization header, or the form of a token request. Only the
// token endpoint and Basic mode accept a password.
func (s *Server) authenticate(r *http.Request) authResult {
	if r.URL.Path == tokenPath && r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(nil, r.Body, maxTokenBody)
		user := r.PostFormValue("username")
		ok := r.PostFormValue("grant_type") == "password" && s.checkPassword(user, r.PostFormValue("password"))
		return authResult{scheme: "Form", user: user, valid: ok}
	}
	if user, password, ok := r.BasicAuth(); ok {
		good := s.opts.Auth == AuthBasic || r.URL.Path == tokenPath
		return authResult{scheme: "Basic", user: user, valid: good && s.checkPassword(user, password)}
	}
	if secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		tok, good := s.lookupToken(secret)
		return authResult{scheme: "Bearer", user: tok.user, valid: good && s.opts.Auth == AuthBearer, token: tok}
	}
	return authResult{}
}

func (s *Server) checkPassword(user, password string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	want, ok := s.users[user]
	return ok && user != Anonymous && want == password
}

// authorize reports whether the request is allowed. If not, it sends the response.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request, id authResult) bool {
	if s.opts.Auth == AuthNone {
		return true
	}
	// Like real registries, reject invalid credentials even if none are needed.
	if id.scheme != "" && !id.valid {
		s.sendChallenge(w, r, "authentication required")
		return false
	}
	repo := repositoryFromPath(r)
	if repo == "" { // the ping or the catalog, which any user may access
		if !id.valid {
			s.sendChallenge(w, r, "authentication required")
		}
		return id.valid
	}
	action := requiredAction(r)
	allowed := s.isAllowed(id.user, repo, action)
	switch {
	case allowed && (s.opts.Auth == AuthBasic || id.token.allowsAction(repo, action)):
		return true
	case allowed || id.user == Anonymous:
		s.sendChallenge(w, r, "authentication required, or a token for this repository")
	default:
		writeError(w, http.StatusForbidden, "DENIED", fmt.Sprintf("%s may not %s %s", id.user, action, repo))
	}
	return false
}

func (s *Server) sendChallenge(w http.ResponseWriter, r *http.Request, why string) {
	switch s.opts.Auth {
	case AuthBasic:
		w.Header().Set("WWW-Authenticate", `Basic realm="testregistry"`)
	case AuthBearer:
		c := fmt.Sprintf(`Bearer realm="%s%s",service="%s"`, s.opts.TokenServerURL, tokenPath, serviceName)
		if repo := repositoryFromPath(r); repo != "" {
			c += fmt.Sprintf(`,scope="repository:%s:%s"`, repo, requiredAction(r))
		}
		w.Header().Set("WWW-Authenticate", c)
	}
	writeError(w, http.StatusUnauthorized, "UNAUTHORIZED", why)
}

// requiredAction returns the action for which a request needs permission.
func requiredAction(r *http.Request) string {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return actionPull
	}
	return actionPush
}

// repositoryFromPath returns the repository in a request's path, or "".
func repositoryFromPath(r *http.Request) string {
	path, ok := strings.CutPrefix(r.URL.Path, "/v2/")
	if !ok {
		return ""
	}
	for _, sep := range []string{"/manifests/", "/blobs/", "/tags/", "/referrers/"} {
		// Use the last match, because a repository may have a path element with that name.
		if i := strings.LastIndex(path, sep); i > 0 {
			return path[:i]
		}
	}
	return ""
}
