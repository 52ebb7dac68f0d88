// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Exchange says how an endpoint is asked for a credential. All values are
// templates, except where it says otherwise.
type Exchange struct {
	// URL is the endpoint. Placeholders may stand in its path and query, where
	// they are escaped, but neither {token} nor {file:…}, since addresses are
	// shown and logged.
	URL string `yaml:"url"`

	// Method is GET or POST; "" means POST if there is a Form, a JSON or a
	// TokenExchange, otherwise GET.
	Method string `yaml:"method"`

	Headers   map[string]string `yaml:"headers"`
	BasicAuth *BasicAuth        `yaml:"basicAuth"`

	// Form and JSON are the body. The strings in JSON are templates, but not
	// its member names.
	Form map[string]string `yaml:"form"`
	JSON any               `yaml:"json"`

	// TokenExchange adds the fields of RFC 8693 to the form.
	TokenExchange *TokenExchange `yaml:"tokenExchange"`

	Response Response `yaml:"response"`

	CAFile       string `yaml:"caFile"`       // in PEM, trusted beside the system's authorities; read on each run; no template
	InsecureHTTP bool   `yaml:"insecureHTTP"` // allows http to hosts other than loopback
}

// BasicAuth is HTTP Basic authentication (RFC 7617).
type BasicAuth struct {
	Username string `yaml:"username"`
	Password string `yaml:"password"`
}

// TokenExchange is a request of RFC 8693, section 2.1. The subject_token is
// the service-account token.
type TokenExchange struct {
	Audience           string `yaml:"audience"`
	Scope              string `yaml:"scope"`
	Resource           string `yaml:"resource"`
	SubjectTokenType   string `yaml:"subjectTokenType"` // "" means urn:ietf:params:oauth:token-type:jwt
	RequestedTokenType string `yaml:"requestedTokenType"`
}

// Response says where the answer, which is JSON, has what: names of members
// and indexes of arrays with dots between them, such as "data.auth.0.token".
type Response struct {
	Username  string `yaml:"username"`  // "" means the Username of the Options
	Secret    string `yaml:"secret"`    // "" with TokenExchange means access_token
	ExpiresIn string `yaml:"expiresIn"` // in seconds; "" with TokenExchange means expires_in
	ExpiresAt string `yaml:"expiresAt"` // RFC 3339, or seconds or milliseconds since 1970
}

// exchange is an Exchange that has been checked.
type exchange struct {
	method    string
	base      string // scheme and host, which no placeholder can change
	path      template
	query     template
	headers   map[string]template
	basic     *[2]template
	form      map[string]template
	json      any // with a template for each string
	username  jsonPath
	secret    jsonPath
	expiresIn jsonPath
	expiresAt jsonPath
	caFile    string
}

func (x Exchange) compile() (*exchange, error) {
	c := &exchange{caFile: x.CAFile}
	for _, step := range []func(Exchange) error{c.setURL, c.setHeaders, c.setBody, c.setMethod, c.setResponse} {
		if err := step(x); err != nil {
			return nil, fmt.Errorf("exchange.%w", err)
		}
	}
	return c, nil
}

// templates are those that make answers differ between images.
func (c *exchange) templates() []template {
	ts := []template{c.path, c.query}
	ts = slices.AppendSeq(ts, maps.Values(c.headers))
	ts = slices.AppendSeq(ts, maps.Values(c.form))
	if c.basic != nil {
		ts = append(ts, c.basic[0], c.basic[1])
	}
	return append(ts, jsonTemplates(c.json)...)
}

func (c *exchange) setURL(x Exchange) (err error) {
	shown, _, _ := strings.Cut(x.URL, "?") // a query may hold a secret
	fail := func(format string, args ...any) error {
		return fmt.Errorf("url %q: %w", shown, fmt.Errorf(format, args...))
	}
	scheme, rest, found := strings.Cut(x.URL, "://")
	i := strings.IndexAny(rest, "/?")
	if i < 0 {
		i = len(rest)
	}
	host := rest[:i]
	c.base = scheme + "://" + host
	u, err := url.Parse(c.base)
	switch {
	case strings.Contains(host, "@"):
		return errors.New("url: it has a user in it: use basicAuth")
	case strings.ContainsAny(host, "{}"):
		return fail("no placeholder can be in its host: the token goes to the host that is configured")
	case !found || err != nil || u.Hostname() == "" || scheme != "http" && scheme != "https":
		return fail("it must be an address of https")
	case strings.Contains(x.URL, "#"):
		return fail("it has a fragment, which is not sent")
	case scheme == "http" && !x.InsecureHTTP && !isLoopback(u.Hostname()):
		return fail("it must be https, or the token could be read on the way (insecureHTTP: true allows it)")
	}
	path, query, _ := strings.Cut(rest[i:], "?")
	if c.path, err = parseTemplate(path, false); err != nil {
		return fail("%w", err)
	}
	if c.query, err = parseTemplate(query, false); err != nil {
		return fail("%w", err)
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (c *exchange) setHeaders(x Exchange) (err error) {
	if c.headers, err = parseTemplates("headers", x.Headers); err != nil {
		return err
	}
	names := map[string]bool{}
	for name := range c.headers {
		switch {
		case !isHeaderName(name):
			return fmt.Errorf("headers: %q is not the name of a header", name)
		case strings.EqualFold(name, "Host"):
			return errors.New("headers: Host is that of the url")
		case strings.EqualFold(name, "Authorization") && x.BasicAuth != nil:
			return errors.New("headers: Authorization and basicAuth: there can be one only")
		case names[strings.ToLower(name)]:
			return fmt.Errorf("headers: %q is there twice, in upper and lower case", strings.ToLower(name))
		}
		names[strings.ToLower(name)] = true
	}
	if x.BasicAuth == nil {
		return nil
	}
	pair, err := parseTemplates("basicAuth", map[string]string{"username": x.BasicAuth.Username, "password": x.BasicAuth.Password})
	if err != nil {
		return err
	}
	c.basic = &[2]template{pair["username"], pair["password"]}
	return nil
}

// isHeaderName reports whether name is a token (RFC 9110, section 5.6.2).
func isHeaderName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

func (c *exchange) setBody(x Exchange) (err error) {
	form := maps.Clone(x.Form)
	if t := x.TokenExchange; t != nil {
		if form == nil {
			form = map[string]string{}
		}
		for name, value := range t.fields() {
			if _, twice := form[name]; twice {
				return fmt.Errorf("form.%s: tokenExchange has it already", name)
			}
			form[name] = value
		}
	}
	if form != nil && x.JSON != nil {
		return errors.New("form and json: there can be one only")
	}
	if c.form, err = parseTemplates("form", form); err != nil {
		return err
	}
	c.json, err = parseJSON("json", x.JSON)
	return err
}

// fields are those of RFC 8693, section 2.1, without those that are empty.
func (t TokenExchange) fields() map[string]string {
	if t.SubjectTokenType == "" {
		t.SubjectTokenType = "urn:ietf:params:oauth:token-type:jwt"
	}
	fields := map[string]string{
		"grant_type":           "urn:ietf:params:oauth:grant-type:token-exchange",
		"subject_token":        "{token}",
		"subject_token_type":   t.SubjectTokenType,
		"requested_token_type": t.RequestedTokenType,
		"audience":             t.Audience,
		"scope":                t.Scope,
		"resource":             t.Resource,
	}
	maps.DeleteFunc(fields, func(_, value string) bool { return value == "" })
	return fields
}

func (c *exchange) setMethod(x Exchange) error {
	body := c.form != nil || c.json != nil
	switch c.method = x.Method; {
	case c.method == "" && body:
		c.method = http.MethodPost
	case c.method == "":
		c.method = http.MethodGet
	case c.method != http.MethodGet && c.method != http.MethodPost:
		return fmt.Errorf("method %q: it must be GET or POST", c.method)
	case c.method == http.MethodGet && body:
		return errors.New("method: a GET has no body")
	}
	return nil
}

func (c *exchange) setResponse(x Exchange) error {
	r := x.Response
	if x.TokenExchange != nil && r.Secret == "" {
		r.Secret = "access_token"
	}
	if x.TokenExchange != nil && r.ExpiresIn == "" && r.ExpiresAt == "" {
		r.ExpiresIn = "expires_in"
	}
	if r.Secret == "" {
		return errors.New("response.secret is missing: it says where the answer has the password, such as access_token")
	}
	for _, field := range []struct {
		name string
		text string
		path *jsonPath
	}{
		{"username", r.Username, &c.username}, {"secret", r.Secret, &c.secret},
		{"expiresIn", r.ExpiresIn, &c.expiresIn}, {"expiresAt", r.ExpiresAt, &c.expiresAt},
	} {
		if field.text == "" {
			continue
		}
		path, err := parsePath(field.text)
		if err != nil {
			return fmt.Errorf("response.%s %q: %w", field.name, field.text, err)
		}
		*field.path = path
	}
	return nil
}

// parseTemplates parses the values of a map; nil stays nil. The first error is
// that of the first name, so that it is always the same.
func parseTemplates(field string, texts map[string]string) (map[string]template, error) {
	if texts == nil {
		return nil, nil
	}
	parsed := make(map[string]template, len(texts))
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		t, err := parseTemplate(texts[name], true)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", field, name, err)
		}
		parsed[name] = t
	}
	return parsed, nil
}

// parseJSON returns the document with a template in place of each string.
func parseJSON(field string, value any) (any, error) {
	switch v := value.(type) {
	case nil, bool, int, int64, uint64, float64:
		return v, nil
	case string:
		t, err := parseTemplate(v, true)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		return t, nil
	case map[string]any:
		parsed := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			member, err := parseJSON(field+"."+name, v[name])
			if err != nil {
				return nil, err
			}
			parsed[name] = member
		}
		return parsed, nil
	case []any:
		parsed := make([]any, len(v))
		for i, item := range v {
			element, err := parseJSON(fmt.Sprintf("%s[%d]", field, i), item)
			if err != nil {
				return nil, err
			}
			parsed[i] = element
		}
		return parsed, nil
	}
	return nil, fmt.Errorf("%s: it is nothing that JSON has: put it in quotes", field)
}

func jsonTemplates(value any) (ts []template) {
	switch v := value.(type) {
	case template:
		ts = append(ts, v)
	case map[string]any:
		for _, member := range v {
			ts = append(ts, jsonTemplates(member)...)
		}
	case []any:
		for _, element := range v {
			ts = append(ts, jsonTemplates(element)...)
		}
	}
	return ts
}
