// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/secretfile"
	"github.com/regcred/regcred/plugin"
)

// template is a string with placeholders: {token}, {jwt}, {image}, {registry}, {repository},
// {namespace}, {serviceaccount}, {annotation:KEY}, {file:PATH}, {answer:STEP.PATH}. {{ and }} are
// literal braces. Values are not expanded again, so that an annotation cannot insert the token.
type template []templatePart

// templatePart is a literal or a placeholder.
type templatePart struct {
	literal string
	name    string // "" for a literal
	arg     string
	path    jsonPath // path in the response of the step arg, for {answer:…}
}

// templateContext determines which placeholders a template may contain.
type templateContext struct {
	allowSecrets bool     // placeholders with secrets are allowed
	allowJWT     bool     // {jwt} is allowed
	step         int      // index of the template's step in steps
	steps        []string // the names of all steps
}

// visibleContext returns the context of templates whose values are printed or logged.
func visibleContext() templateContext { return templateContext{} }

// contextWithSecrets returns the context of templates whose values are never printed.
func contextWithSecrets() templateContext { return templateContext{allowSecrets: true} }

// isSecretPlaceholder reports whether a placeholder is not allowed in URLs and user names, which
// are printed. Values of {answer:…} count as secrets, because a response may contain secrets.
func isSecretPlaceholder(name string) bool {
	return name == "token" || name == "file" || name == "jwt" || name == "answer"
}

// parseTemplate parses a template and checks that its placeholders are allowed in the context.
func parseTemplate(text string, in templateContext) (template, error) {
	var t template
	for text != "" {
		i := strings.IndexAny(text, "{}")
		if i < 0 {
			return append(t, templatePart{literal: text}), nil
		}
		if i > 0 {
			t = append(t, templatePart{literal: text[:i]})
		}
		switch text = text[i:]; {
		case strings.HasPrefix(text, "{{"), strings.HasPrefix(text, "}}"):
			t = append(t, templatePart{literal: text[:1]})
			text = text[2:]
		case text[0] == '}':
			return nil, errors.New("} without {; write }} for a literal brace")
		default:
			inside, rest, closed := strings.Cut(text[1:], "}")
			if !closed {
				return nil, errors.New("{ without }; write {{ for a literal brace")
			}
			placeholder, err := parsePlaceholder(inside, in)
			if err != nil {
				return nil, err
			}
			t, text = append(t, placeholder), rest
		}
	}
	return t, nil
}

func parsePlaceholder(inside string, in templateContext) (templatePart, error) {
	name, arg, hasArg := strings.Cut(inside, ":")
	if isSecretPlaceholder(name) && !in.allowSecrets && (hasArg == (name == "file" || name == "answer")) {
		return templatePart{}, fmt.Errorf("{%s} is not allowed here, because it would be visible", name)
	}
	if name == "jwt" && !hasArg && !in.allowJWT {
		return templatePart{}, errors.New("{jwt} requires exchange.jwt, and cannot be used in it")
	}
	switch name {
	case "answer":
		return parseAnswerArg(arg, in)
	case "token", "jwt", "image", "registry", "repository", "namespace", "serviceaccount":
		if !hasArg {
			return templatePart{name: name}, nil
		}
	case "annotation":
		if arg != "" {
			return templatePart{name: name, arg: arg}, nil
		}
		return templatePart{}, errors.New("{annotation:KEY} requires an annotation key")
	case "file":
		if filepath.IsAbs(arg) {
			return templatePart{name: name, arg: arg}, nil
		}
		return templatePart{}, errors.New("{file:PATH} requires an absolute path")
	}
	return templatePart{}, fmt.Errorf("unknown placeholder {%s}; use {token}, {jwt}, {image}, {registry}, {repository}, {namespace}, {serviceaccount}, {annotation:KEY}, {file:PATH} or {answer:STEP.PATH}, or {{ for a literal brace", printablePlaceholder(inside))
}

// parseAnswerArg parses the argument of {answer:…}, which is the name of an earlier step and a path
// in its response.
func parseAnswerArg(arg string, in templateContext) (templatePart, error) {
	step, rest, _ := strings.Cut(arg, ".")
	path, err := parsePath(rest)
	i := slices.Index(in.steps, step)
	switch {
	case step == "" || err != nil:
		return templatePart{}, errors.New("{answer:STEP.PATH} requires an earlier step and a path in its response, such as {answer:login.auth.client_token}")
	case i < 0:
		return templatePart{}, fmt.Errorf("{answer:%s}: no such step; the steps are %q", printablePlaceholder(step), in.steps)
	case i == in.step:
		return templatePart{}, fmt.Errorf("{answer:%s}: a step cannot use its own response", step)
	case i > in.step:
		return templatePart{}, fmt.Errorf("{answer:%s}: the step comes later; use an earlier step", step)
	}
	return templatePart{name: "answer", arg: step, path: path}, nil
}

// printablePlaceholder returns a placeholder for an error message, or "…" if it might be a secret
// that contains braces.
func printablePlaceholder(inside string) string {
	if len(inside) > 30 || strings.Trim(inside, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:-") != "" {
		return "…"
	}
	return inside
}

// useAny reports whether any of the templates contains one of the placeholders.
func useAny(ts []template, names ...string) bool {
	return slices.ContainsFunc(slices.Concat(ts...), func(p templatePart) bool { return slices.Contains(names, p.name) })
}

// expandWith replaces the placeholders with their escaped values.
func (t template) expandWith(v placeholderValues, escape func(string) string) (string, error) {
	var b strings.Builder
	for _, p := range t {
		if p.name == "" {
			b.WriteString(p.literal)
			continue
		}
		value, err := v.value(p)
		if err != nil {
			return "", err
		}
		b.WriteString(escape(value))
	}
	return b.String(), nil
}

// checkPathValues rejects values that could change the structure of a path. Only the values of
// {image} and {repository} have several segments.
func (t template) checkPathValues(v placeholderValues) error {
	for _, p := range t {
		if p.name == "" {
			continue
		}
		value, err := v.value(p)
		if err != nil {
			return err
		}
		segments := []string{value}
		if p.name == "image" || p.name == "repository" {
			segments = strings.Split(value, "/")
		}
		for _, s := range segments {
			if err := remote.CheckPathValue(s); err != nil {
				return fmt.Errorf("{%s}: %w", p.name, err)
			}
		}
	}
	return nil
}

// noEscape escapes nothing.
func noEscape(s string) string { return s }

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// placeholderValues holds the values of all placeholders.
type placeholderValues struct {
	req        *plugin.Request
	registry   string
	repository string
	token      inputToken
	username   string         // "" if the response contains the user name
	signedJWT  string         // the value of {jwt}
	responses  map[string]any // responses of earlier steps, by name of the step
}

func (v placeholderValues) value(p templatePart) (string, error) {
	switch p.name {
	case "token":
		return v.token.text, nil
	case "jwt":
		return v.signedJWT, nil
	case "answer":
		value, err := p.path.findString(v.responses[p.arg])
		if err != nil {
			err = fmt.Errorf("{answer:%s}: %w", p.arg, err)
		}
		return value, err
	case "image":
		return v.registry + "/" + v.repository, nil
	case "registry":
		return v.registry, nil
	case "repository":
		return v.repository, nil
	case "annotation":
		annotation := v.req.ServiceAccountAnnotations[p.arg]
		if annotation == "" {
			return "", fmt.Errorf("the service account has no annotation %q; add the annotation, and list its key in requiredServiceAccountAnnotationKeys or optionalServiceAccountAnnotationKeys", p.arg)
		}
		return annotation, nil
	case "file":
		return readSecretFile(p.arg)
	}
	namespace, name, ok := v.token.claims.ServiceAccount()
	switch {
	case !ok:
		return "", fmt.Errorf("{%s}: the token does not name a service account", p.name)
	case p.name == "namespace":
		return namespace, nil
	}
	return name, nil
}

// readSecretFile reads a file that has one line and that other users cannot read. Errors do not
// quote the file.
func readSecretFile(name string) (string, error) {
	data, err := secretfile.ReadSecret(name)
	if err != nil {
		return "", fmt.Errorf("read %w", err)
	}
	secret := strings.TrimRight(string(data), "\r\n")
	switch {
	case secret == "":
		return "", fmt.Errorf("read %q: file is empty", name)
	case !utf8.ValidString(secret) || strings.ContainsFunc(secret, isControl):
		return "", fmt.Errorf("read %q: not a single line of text", name)
	}
	return secret, nil
}

// inputToken is the token to return or exchange. text is "" if there is no token.
type inputToken struct {
	text   string
	path   string // file of the token; "" if the token came from the request
	claims jwt.Claims
}

// String identifies the token without revealing it.
func (t inputToken) String() string {
	if t.path != "" {
		return fmt.Sprintf("the token in %q", t.path)
	}
	return "the service-account token"
}
