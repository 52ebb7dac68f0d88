// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/scrub"
)

// Limits for the secrets from servers: their total size in bytes, and their number. The least
// recently used secret is dropped first. Redact searches for each secret in twenty encodings. For
// the signatures of a thousand blobs, this takes half a second.
const (
	maxSecretsSize = 1 << 20
	maxSecrets     = 100
)

// minParameterLength is the minimum length of URL parameters that are treated as secrets. Shorter
// ones are words and numbers, not signatures.
const minParameterLength = 16

// NamespaceParam is the query parameter in which a container runtime passes the image's
// host to a mirror.
const NamespaceParam = "ns"

// Secrets collects the texts to redact: credentials, tokens issued for them, and signatures in
// redirects. A server may send back any of these texts. The zero value is ready to use, and safe
// for concurrent use.
type Secrets struct {
	mu                sync.Mutex
	credentialSecrets []string // from credentials; never dropped, no matter how much a server sends
	secrets           []string // from servers, the most recently used last
	size              int      // total size of secrets, in bytes
}

// addFromServer adds a secret from a server.
func (s *Secrets) addFromServer(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if secret == "" {
		return
	}
	if i := slices.Index(s.secrets, secret); i >= 0 {
		s.secrets = append(slices.Delete(s.secrets, i, i+1), secret)
		return
	}
	s.secrets = append(s.secrets, secret)
	s.size += len(secret)
	for len(s.secrets) > maxSecrets || s.size > maxSecretsSize && len(s.secrets) > 1 {
		s.size -= len(s.secrets[0])
		s.secrets = slices.Delete(s.secrets, 0, 1)
	}
}

// AddCredential adds the password of a credential, and its encoded form for Basic authentication.
func (s *Secrets) AddCredential(cred *regcred.Credential) {
	if cred == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if basic := basicAuth(cred); !slices.Contains(s.credentialSecrets, basic) {
		s.credentialSecrets = append(s.credentialSecrets, cred.Password.Reveal(), basic)
	}
}

func basicAuth(cred *regcred.Credential) string {
	return base64.StdEncoding.EncodeToString([]byte(cred.Username + ":" + cred.Password.Reveal()))
}

// addFromRequest adds the secrets in a request. forToken is true for requests to token servers.
func (s *Secrets) addFromRequest(req *http.Request, forToken bool) {
	if _, value, ok := strings.Cut(req.Header.Get("Authorization"), " "); ok {
		s.addFromServer(value)
	}
	if forToken {
		return // the query contains only service and repository
	}
	for name, values := range req.URL.Query() {
		if name == NamespaceParam {
			continue
		}
		for _, v := range values {
			if len(v) >= minParameterLength {
				s.addFromServer(v)
			}
		}
	}
}

// addTokens adds all tokens in the response of a token server.
func (s *Secrets) addTokens(body []byte) {
	var fields map[string]json.RawMessage
	if json.NewDecoder(bytes.NewReader(body)).Decode(&fields) != nil {
		return
	}
	for name, value := range fields {
		var token string
		if strings.Contains(strings.ToLower(name), "token") && json.Unmarshal(value, &token) == nil {
			s.addFromServer(token)
		}
	}
}

// Redact redacts the collected secrets and text that looks like a secret. Container runtimes log in
// with tokens that are not collected here.
func (s *Secrets) Redact(text string) string {
	for _, p := range secretPatterns {
		text = p.look.ReplaceAllStringFunc(text, func(found string) string {
			if p.but != nil && p.but.MatchString(found) {
				return found
			}
			return p.look.ReplaceAllString(found, p.put)
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return scrub.Redact(text, slices.Concat(s.credentialSecrets, s.secrets))
}

// secretPatterns matches text that looks like a secret.
var secretPatterns = []struct {
	look *regexp.Regexp
	put  string
	but  *regexp.Regexp // exceptions
}{
	// User names and passwords in URLs, and the URLs' queries and fragments. Object
	// stores sign URLs, and the signature is enough to fetch the blob.
	{look: regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/\s"@]*@`), put: "${1}" + scrub.Mask + "@"},
	{look: regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^\s"?#]*)([?#])[^\s"]*`), put: "${1}${2}" + scrub.Mask},
	{look: regexp.MustCompile(`\?[^\s"?]*=[^\s"]*`), put: "?" + scrub.Mask},
	// Headers.
	{look: regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/-]{12,}=*`), put: "${1} " + scrub.Mask, but: regexp.MustCompile(`^\S+\s+[a-z]+$`)},
	// JSON Web Tokens.
	{look: regexp.MustCompile(`\beyJ[\w-]+\.[\w-]+\.[\w-]*`), put: scrub.Mask},
	// Form fields and parameters.
	{look: regexp.MustCompile(`(?i)\b((?:x-(?:amz|goog)-)?(?:sig|signature|credential|security-token)|(?:access_|refresh_|id_|identity_)?token|password)=[^\s"&]+`), put: "${1}=" + scrub.Mask},
}
