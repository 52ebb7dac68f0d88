// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/registry"
)

// Exchange configures a request to an endpoint, or several requests in order. All strings are
// templates unless stated otherwise.
type Exchange struct {
	Unprintable `yaml:"-"`

	// URL is the endpoint. Its path and query may contain placeholders, whose values are escaped.
	// It must not contain placeholders for secrets ({token}, {jwt}, {file:…}, {answer:…}), because
	// URLs are printed and logged.
	URL string `yaml:"url"`

	// Method is GET or POST. "" means POST if Form, JSON or TokenExchange is set, and
	// GET otherwise.
	Method string `yaml:"method"`

	Headers   map[string]string `yaml:"headers"`
	BasicAuth *BasicAuth        `yaml:"basicAuth"`

	// Form and JSON set the request body. Strings in JSON are templates, but member
	// names are not.
	Form map[string]string `yaml:"form"`
	JSON any               `yaml:"json"`

	// TokenExchange adds the RFC 8693 parameters to the form.
	TokenExchange *TokenExchange `yaml:"tokenExchange"`

	Response Response `yaml:"response"`

	CAFile       string `yaml:"caFile"`       // PEM file of additional trusted CAs; not a template; read for each request
	InsecureHTTP bool   `yaml:"insecureHTTP"` // allow http for hosts other than loopback

	// JWT configures the token for {jwt}, which the node signs.
	JWT *JWT `yaml:"jwt"`

	// Steps lists requests to send in order. All other fields except JWT must be empty. The last
	// response contains the credential.
	Steps []Step `yaml:"steps"`
}

// Step is one of several requests. JWT and Steps are not allowed in it.
type Step struct {
	// Name identifies the response in later steps. It may contain letters, digits, _ and -.
	Name     string `yaml:"name"`
	Exchange `yaml:",inline"`
}

// BasicAuth configures HTTP Basic authentication (RFC 7617).
type BasicAuth struct {
	Unprintable `yaml:"-"`
	Username    string `yaml:"username"`
	Password    string `yaml:"password"`
}

// TokenExchange configures a request as in RFC 8693, section 2.1. The service account token is the
// subject_token.
type TokenExchange struct {
	Audience           string `yaml:"audience"`
	Scope              string `yaml:"scope"`
	Resource           string `yaml:"resource"`
	SubjectTokenType   string `yaml:"subjectTokenType"` // "" means urn:ietf:params:oauth:token-type:jwt
	RequestedTokenType string `yaml:"requestedTokenType"`
}

// Response contains paths of values in the JSON response. Member names and array indexes are
// separated by dots, as in "data.auth.0.token". Only the last step may set Username and Secret.
type Response struct {
	Username  string `yaml:"username"`  // "" means Options.Username
	Secret    string `yaml:"secret"`    // "" with TokenExchange means access_token
	ExpiresIn string `yaml:"expiresIn"` // in seconds; "" with TokenExchange means expires_in
	ExpiresAt string `yaml:"expiresAt"` // RFC 3339, or seconds or milliseconds since 1970
}

// maxSteps limits the number of steps. All steps together have the time of one request.
const maxSteps = 8

// compiledExchange is a validated Exchange.
type compiledExchange struct {
	signer *jwtSigner      // nil if {jwt} is not used
	steps  []*compiledStep // at least one
}

// compiledStep is a request to an endpoint.
type compiledStep struct {
	field           string          // name in the configuration file, such as "exchange" or "exchange.steps[0]"
	name            string          // "" if it is the only step
	templateContext templateContext // for templates that may contain secrets
	method          string
	base            string // scheme and host; placeholders cannot change them
	path            template
	query           template
	headers         map[string]template
	basicAuth       *[2]template
	form            map[string]template
	json            any // each string in the document is a template
	username        jsonPath
	secret          jsonPath // nil except in the last step
	expiresIn       jsonPath
	expiresAt       jsonPath
	caFile          string
}

// compileExchange validates the exchange. Errors begin with the name of the field, as in
// "exchange.steps[1].url: …".
func (x Exchange) compileExchange() (c *compiledExchange, err error) {
	c = &compiledExchange{}
	if x.JWT != nil {
		if c.signer, err = x.JWT.newSigner(); err != nil {
			return nil, fmt.Errorf("exchange.jwt.%w", err)
		}
	}
	if c.steps, err = x.compileSteps(); err != nil {
		return nil, err
	}
	if x.JWT != nil && !useAny(c.allTemplates(), "jwt") {
		return nil, errors.New("exchange.jwt: {jwt} is not used; add it to the request")
	}
	return c, nil
}

func (x Exchange) compileSteps() ([]*compiledStep, error) {
	in := templateContext{allowSecrets: true, allowJWT: x.JWT != nil}
	if x.Steps == nil {
		x.JWT = nil
		only, err := x.compileStep("exchange", in, true)
		return []*compiledStep{only}, err
	}
	if err := x.checkSteps(); err != nil {
		return nil, err
	}
	for _, s := range x.Steps {
		in.steps = append(in.steps, s.Name)
	}
	var steps []*compiledStep
	for i, s := range x.Steps {
		in.step = i
		compiled, err := s.compileStep(fmt.Sprintf("exchange.steps[%d]", i), in, i == len(x.Steps)-1)
		if err != nil {
			return nil, err
		}
		compiled.name = s.Name
		steps = append(steps, compiled)
	}
	return steps, nil
}

// checkSteps validates the list of steps.
func (x Exchange) checkSteps() error {
	rest := x
	rest.JWT, rest.Steps = nil, nil
	switch {
	case !reflect.ValueOf(rest).IsZero():
		return errors.New("exchange.steps: only jwt is allowed alongside steps; move the other fields into the steps")
	case len(x.Steps) == 0:
		return errors.New("exchange.steps: must not be empty")
	case len(x.Steps) > maxSteps:
		return fmt.Errorf("exchange.steps: has %d steps, but at most %d are allowed", len(x.Steps), maxSteps)
	}
	names := map[string]bool{}
	for i, s := range x.Steps {
		field := fmt.Sprintf("exchange.steps[%d]", i)
		switch {
		case s.JWT != nil || s.Steps != nil:
			return fmt.Errorf("%s: jwt and steps are not allowed in a step; move them to exchange", field)
		case s.Name == "" || strings.Trim(s.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "":
			return fmt.Errorf("%s.name: must be a name such as login, with only letters, digits, _ and -", field)
		case names[s.Name]:
			return fmt.Errorf("%s.name %q: another step already has this name", field, s.Name)
		}
		names[s.Name] = true
	}
	return nil
}

func (x Exchange) compileStep(field string, in templateContext, last bool) (*compiledStep, error) {
	c := &compiledStep{field: field, templateContext: in, caFile: x.CAFile}
	setResponse := func(x Exchange) error { return c.setResponse(x, last) }
	for _, set := range []func(Exchange) error{c.setURL, c.setHeaders, c.setBody, c.setMethod, setResponse} {
		if err := set(x); err != nil {
			return nil, fmt.Errorf("%s.%w", field, err)
		}
	}
	return c, nil
}

// lastStep returns the step whose response contains the credential.
func (c *compiledExchange) lastStep() *compiledStep { return c.steps[len(c.steps)-1] }

func (c *compiledExchange) allTemplates() (ts []template) {
	if c.signer != nil {
		ts = collectTemplates(c.signer.claims)
	}
	for _, s := range c.steps {
		ts = append(ts, s.allTemplates()...)
	}
	return ts
}

func (c *compiledStep) allTemplates() []template {
	ts := []template{c.path, c.query}
	ts = slices.AppendSeq(ts, maps.Values(c.headers))
	ts = slices.AppendSeq(ts, maps.Values(c.form))
	if c.basicAuth != nil {
		ts = append(ts, c.basicAuth[0], c.basicAuth[1])
	}
	return append(ts, collectTemplates(c.json)...)
}

func (c *compiledStep) setURL(x Exchange) (err error) {
	shown, _, _ := strings.Cut(x.URL, "?") // the query may contain a secret
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
		return errors.New("url: must not contain a user name; use basicAuth")
	case strings.ContainsAny(host, "{}"):
		return fail("the host must not contain a placeholder")
	case !found || err != nil || u.Hostname() == "" || scheme != "http" && scheme != "https":
		return fail("must be an https URL")
	case strings.Contains(x.URL, "#"):
		return fail("must not have a fragment")
	case scheme == "http" && !x.InsecureHTTP && !registry.IsLoopback(u.Hostname()):
		return fail("must use https, because http exposes the token (insecureHTTP: true allows http)")
	}
	path, query, _ := strings.Cut(rest[i:], "?")
	if c.path, err = parseTemplate(path, visibleContext()); err != nil {
		return fail("%w", err)
	}
	if c.query, err = parseTemplate(query, visibleContext()); err != nil {
		return fail("%w", err)
	}
	return nil
}

func (c *compiledStep) setHeaders(x Exchange) (err error) {
	if c.headers, err = parseTemplates("headers", x.Headers, c.templateContext); err != nil {
		return err
	}
	names := map[string]bool{}
	for name := range c.headers {
		switch {
		case !isHeaderName(name):
			return fmt.Errorf("headers: %q is not a valid header name", name)
		case strings.EqualFold(name, "Host"):
			return errors.New("headers: Host is not allowed, because the host in url determines this header")
		case strings.EqualFold(name, "Authorization") && x.BasicAuth != nil:
			return errors.New("headers: Authorization and basicAuth are mutually exclusive")
		case names[strings.ToLower(name)]:
			return fmt.Errorf("headers: duplicate header %q (header names are case-insensitive)", strings.ToLower(name))
		}
		names[strings.ToLower(name)] = true
	}
	if x.BasicAuth == nil {
		return nil
	}
	pair, err := parseTemplates("basicAuth", map[string]string{"username": x.BasicAuth.Username, "password": x.BasicAuth.Password}, c.templateContext)
	if err != nil {
		return err
	}
	c.basicAuth = &[2]template{pair["username"], pair["password"]}
	return nil
}

// isHeaderName reports whether name is a token (RFC 9110, section 5.6.2).
func isHeaderName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

func (c *compiledStep) setBody(x Exchange) (err error) {
	form := x.Form
	if t := x.TokenExchange; t != nil {
		fields := t.formFields()
		for name := range form {
			if _, twice := fields[name]; twice {
				return fmt.Errorf("form.%s: already set by tokenExchange", name)
			}
		}
		maps.Copy(fields, form)
		form = fields
	}
	if form != nil && x.JSON != nil {
		return errors.New("form and json are mutually exclusive")
	}
	if c.form, err = parseTemplates("form", form, c.templateContext); err != nil {
		return err
	}
	c.json, err = parseJSON("json", x.JSON, c.templateContext)
	return err
}

// formFields returns the parameters of RFC 8693, section 2.1 that are not empty.
func (t TokenExchange) formFields() map[string]string {
	fields := map[string]string{
		"grant_type":           "urn:ietf:params:oauth:grant-type:token-exchange",
		"subject_token":        "{token}",
		"subject_token_type":   cmp.Or(t.SubjectTokenType, "urn:ietf:params:oauth:token-type:jwt"),
		"requested_token_type": t.RequestedTokenType,
		"audience":             t.Audience,
		"scope":                t.Scope,
		"resource":             t.Resource,
	}
	maps.DeleteFunc(fields, func(_, value string) bool { return value == "" })
	return fields
}

func (c *compiledStep) setMethod(x Exchange) error {
	body := c.form != nil || c.json != nil
	switch c.method = x.Method; {
	case c.method == "" && body:
		c.method = http.MethodPost
	case c.method == "":
		c.method = http.MethodGet
	case c.method != http.MethodGet && c.method != http.MethodPost:
		return fmt.Errorf("method %q: must be GET or POST", c.method)
	case c.method == http.MethodGet && body:
		return errors.New("method: a GET request cannot have a body")
	}
	return nil
}

// setResponse sets the paths into the response. Only the last step has a credential in its
// response.
func (c *compiledStep) setResponse(x Exchange, last bool) (err error) {
	r := x.Response
	if x.TokenExchange != nil {
		if last {
			r.Secret = cmp.Or(r.Secret, "access_token")
		}
		if r.ExpiresAt == "" {
			r.ExpiresIn = cmp.Or(r.ExpiresIn, "expires_in")
		}
	}
	switch {
	case !last && (r.Username != "" || r.Secret != ""):
		return errors.New("response: username and secret are allowed only in the last step; later steps use this response as {answer:…}")
	case last && r.Secret == "":
		return errors.New("response.secret is missing; set it to the response field that contains the password, such as access_token")
	}
	for _, p := range []struct {
		name, text string
		path       *jsonPath
	}{{"secret", r.Secret, &c.secret}, {"username", r.Username, &c.username}, {"expiresAt", r.ExpiresAt, &c.expiresAt}, {"expiresIn", r.ExpiresIn, &c.expiresIn}} {
		if p.text == "" {
			continue
		}
		if *p.path, err = parsePath(p.text); err != nil {
			return fmt.Errorf("response.%s %q: %w", p.name, p.text, err)
		}
	}
	return nil
}
