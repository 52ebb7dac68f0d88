// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
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

// Bounds of what Secrets remember of what servers hand out, in bytes and in
// number; what was not used for longest is forgotten first. Each is looked for in
// twenty forms in whatever is said of a refusal: with the signatures of a thousand
// blobs that would take half a second.
const (
	maxKept  = 1 << 20
	mostKept = 100
)

// minParameter is the length from which a parameter of a URL is remembered.
// Shorter ones are words and numbers; no signature is.
const minParameter = 16

// NamespaceParameter is how a container runtime tells a mirror whose image it
// wants: by the host that the image names.
const NamespaceParameter = "ns"

// Secrets knows what must not be shown of what is said with a registry: the
// credentials, what they were exchanged for, and the signatures of addresses that
// it redirects to. A server may send all of that back. The zero value knows none
// and is ready to use; it is safe for concurrent use.
type Secrets struct {
	mu      sync.Mutex
	lasting []string // of the credentials: never forgotten, however much a server hands out
	secrets []string // what servers have handed out, the last used last
	size    int      // of secrets, in bytes
}

// add adds what a server has handed out.
func (s *Secrets) add(secret string) {
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
	for len(s.secrets) > mostKept || s.size > maxKept && len(s.secrets) > 1 {
		s.size -= len(s.secrets[0])
		s.secrets = slices.Delete(s.secrets, 0, 1)
	}
}

// Credential adds a credential, and the form in which Basic authentication
// sends it: of the pair, all but a few characters would be found without that.
func (s *Secrets) Credential(cred *regcred.Credential) {
	if cred == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if basic := basicAuth(cred); !slices.Contains(s.lasting, basic) {
		s.lasting = append(s.lasting, cred.Password.Reveal(), basic)
	}
}

func basicAuth(cred *regcred.Credential) string {
	return base64.StdEncoding.EncodeToString([]byte(cred.Username + ":" + cred.Password.Reveal()))
}

// sent adds what a request carries, for content or to log in.
func (s *Secrets) sent(req *http.Request, content bool) {
	if _, value, ok := strings.Cut(req.Header.Get("Authorization"), " "); ok {
		s.add(value)
	}
	if !content {
		return // the query of a login names service and repository
	}
	for name, values := range req.URL.Query() {
		if name == NamespaceParameter {
			continue
		}
		for _, v := range values {
			if len(v) >= minParameter {
				s.add(v)
			}
		}
	}
}

// received adds the tokens in an answer, also those that will not be used, and
// returns it without the refresh token: with one go-containerregistry would log
// in another way from then on, and change its mind in the middle of other
// requests. Runtimes do not take it either.
func (s *Secrets) received(answer []byte) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(answer, &fields) != nil {
		return answer
	}
	refresh := false
	for name, value := range fields {
		var token string
		if strings.Contains(strings.ToLower(name), "token") && json.Unmarshal(value, &token) == nil {
			s.add(token)
		}
		if strings.EqualFold(name, "refresh_token") { // as encoding/json takes it
			delete(fields, name)
			refresh = true
		}
	}
	if !refresh {
		return answer
	}
	without, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return without
}

// Scrub takes out of a text what must not be shown, and what looks like it: a
// container runtime logs in by itself, with tokens that nobody tells us.
func (s *Secrets) Scrub(text string) string {
	for _, p := range suspects {
		text = p.look.ReplaceAllStringFunc(text, func(found string) string {
			if p.but != nil && p.but.MatchString(found) {
				return found
			}
			return p.look.ReplaceAllString(found, p.put)
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return scrub.Text(text, slices.Concat(s.lasting, s.secrets))
}

// suspects look like secrets wherever they stand.
var suspects = []struct {
	look *regexp.Regexp
	put  string
	but  *regexp.Regexp // what is none
}{
	// User names and passwords in URLs, their queries and fragments: object
	// stores sign those, and whoever has one can fetch the blob.
	{look: regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/\s"@]*@`), put: "${1}" + scrub.Mask + "@"},
	{look: regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^\s"?#]*)([?#])[^\s"]*`), put: "${1}${2}" + scrub.Mask},
	{look: regexp.MustCompile(`\?[^\s"?]*=[^\s"]*`), put: "?" + scrub.Mask},
	// Headers.
	{look: regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/-]{12,}=*`), put: "${1} " + scrub.Mask, but: regexp.MustCompile(`^\S+\s+[a-z]+$`)},
	// JSON Web Tokens.
	{look: regexp.MustCompile(`\beyJ[\w-]+\.[\w-]+\.[\w-]*`), put: scrub.Mask},
	// Fields of forms, and parameters.
	{look: regexp.MustCompile(`(?i)\b((?:x-(?:amz|goog)-)?(?:sig|signature|credential|security-token)|(?:access_|refresh_|id_|identity_)?token|password)=[^\s"&]+`), put: "${1}=" + scrub.Mask},
}
