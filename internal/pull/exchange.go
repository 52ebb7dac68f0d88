// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/scrub"
)

// maxKept bounds what an exchange remembers of what servers hand out, in bytes;
// the oldest is forgotten first, which will have expired.
const maxKept = 1 << 20

// minParameter is the length from which a parameter of a URL is remembered.
// Shorter ones are words and numbers; no signature is.
const minParameter = 16

// exchange knows what must not be shown of a pull: its credentials, what they
// were exchanged for, and the signatures of addresses it was redirected to.
// A server may send all of that back. It is safe for concurrent use.
type exchange struct {
	mu      sync.Mutex
	lasting []string // of the credentials: never forgotten, however much a server hands out
	secrets []string // what servers have handed out
	size    int      // of secrets, in bytes
}

// add adds what a server has handed out.
func (x *exchange) add(secret string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if secret == "" || slices.Contains(x.secrets, secret) {
		return
	}
	x.secrets = append(x.secrets, secret)
	for x.size += len(secret); x.size > maxKept && len(x.secrets) > 1; x.secrets = x.secrets[1:] {
		x.size -= len(x.secrets[0])
	}
}

// credential adds a credential, and the form in which Basic authentication
// sends it: of the pair, all but a few characters would be found without that.
func (x *exchange) credential(cred *regcred.Credential) {
	if cred == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lasting = append(x.lasting, cred.Password.Reveal(), basicAuth(cred))
}

// sent adds what a request carries.
func (x *exchange) sent(req *http.Request) {
	if _, value, ok := strings.Cut(req.Header.Get("Authorization"), " "); ok {
		x.add(value)
	}
	if !isContent(req) {
		return // the query of a login names service and repository
	}
	for _, values := range req.URL.Query() {
		for _, v := range values {
			if len(v) >= minParameter {
				x.add(v)
			}
		}
	}
}

// received adds the tokens in an answer, also those that will not be used, and
// returns it without the refresh token: with one go-containerregistry would log
// in another way from then on, and change its mind in the middle of other
// requests. Runtimes do not take it either.
func (x *exchange) received(answer []byte) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(answer, &fields) != nil {
		return answer
	}
	refresh := false
	for name, value := range fields {
		var s string
		if strings.Contains(strings.ToLower(name), "token") && json.Unmarshal(value, &s) == nil {
			x.add(s)
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

// isContent tells requests for content from those of a login: those alone say
// what they accept.
func isContent(req *http.Request) bool { return req.Header.Get("Accept") != "" }

// scrub takes out of a text what must not be shown, and what looks like it: a
// container runtime logs in by itself, with tokens that nobody tells us.
func (x *exchange) scrub(text string) string {
	for _, s := range suspects {
		text = s.look.ReplaceAllStringFunc(text, func(found string) string {
			if s.but != nil && s.but.MatchString(found) {
				return found
			}
			return s.look.ReplaceAllString(found, s.put)
		})
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return scrub.Text(text, slices.Concat(x.lasting, x.secrets))
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
