// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/secretfile"
	"github.com/regcred/regcred/plugin"
)

// template is a text with placeholders: {token}, {image}, {registry},
// {repository}, {namespace}, {serviceaccount}, {annotation:KEY}, {file:PATH}.
// {{ and }} are braces. What a placeholder stands for is never looked at
// again, so that an annotation cannot ask for the token.
type template []part

// part is a literal or a placeholder.
type part struct {
	literal string
	name    string // "" for a literal
	arg     string
}

// secrets are the placeholders whose values must not be in an address or a
// user name: those are shown.
func isSecret(name string) bool { return name == "token" || name == "file" }

// parseTemplate parses a text; secrets says whether it may hold any.
func parseTemplate(text string, secrets bool) (template, error) {
	var t template
	for text != "" {
		i := strings.IndexAny(text, "{}")
		if i < 0 {
			return append(t, part{literal: text}), nil
		}
		if i > 0 {
			t = append(t, part{literal: text[:i]})
		}
		switch text = text[i:]; {
		case strings.HasPrefix(text, "{{"), strings.HasPrefix(text, "}}"):
			t = append(t, part{literal: text[:1]})
			text = text[2:]
		case text[0] == '}':
			return nil, errors.New("a } without a {: write }} for a brace")
		default:
			inside, rest, closed := strings.Cut(text[1:], "}")
			if !closed {
				return nil, errors.New("a { without a }: write {{ for a brace")
			}
			placeholder, err := parsePlaceholder(inside)
			if err != nil {
				return nil, err
			}
			if isSecret(placeholder.name) && !secrets {
				return nil, fmt.Errorf("{%s} must not be here, where it would be shown", placeholder.name)
			}
			t, text = append(t, placeholder), rest
		}
	}
	return t, nil
}

func parsePlaceholder(inside string) (part, error) {
	name, arg, hasArg := strings.Cut(inside, ":")
	switch name {
	case "token", "image", "registry", "repository", "namespace", "serviceaccount":
		if !hasArg {
			return part{name: name}, nil
		}
	case "annotation":
		if arg != "" {
			return part{name: name, arg: arg}, nil
		}
		return part{}, errors.New("{annotation:KEY} needs the key of an annotation")
	case "file":
		if filepath.IsAbs(arg) {
			return part{name: name, arg: arg}, nil
		}
		return part{}, errors.New("{file:PATH} needs an absolute path")
	}
	return part{}, fmt.Errorf("there is no placeholder {%s}: there are {token}, {image}, {registry}, {repository}, {namespace}, {serviceaccount}, {annotation:KEY} and {file:PATH}; write {{ for a brace", shownName(inside))
}

// shownName is what of a placeholder may be shown: text that was not meant as
// one may be a secret.
func shownName(inside string) string {
	if len(inside) > 30 || strings.Trim(inside, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:") != "" {
		return "…"
	}
	return inside
}

func (t template) uses(name string) bool {
	for _, p := range t {
		if p.name == name {
			return true
		}
	}
	return false
}

// expand replaces the placeholders by values, each escaped for where it stands.
func (t template) expand(v values, escape func(string) string) (string, error) {
	var b strings.Builder
	for _, p := range t {
		if p.name == "" {
			b.WriteString(p.literal)
			continue
		}
		value, err := v.get(p)
		if err != nil {
			return "", err
		}
		b.WriteString(escape(value))
	}
	return b.String(), nil
}

// asIs is the escaping of places that need none, or get theirs later.
func asIs(s string) string { return s }

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// values are what placeholders stand for.
type values struct {
	req        *plugin.Request
	registry   string
	repository string
	claims     jwt.Claims
}

func (v values) get(p part) (string, error) {
	switch p.name {
	case "token":
		return v.req.ServiceAccountToken.Reveal(), nil
	case "image":
		return v.registry + "/" + v.repository, nil
	case "registry":
		return v.registry, nil
	case "repository":
		return v.repository, nil
	case "annotation":
		return v.annotation(p.arg)
	case "file":
		return readSecret(p.arg)
	}
	namespace, name, ok := v.claims.ServiceAccount()
	switch {
	case !ok:
		return "", fmt.Errorf("{%s}: the token does not name a service account", p.name)
	case p.name == "namespace":
		return namespace, nil
	}
	return name, nil
}

func (v values) annotation(key string) (string, error) {
	value := v.req.ServiceAccountAnnotations[key]
	if value == "" {
		return "", fmt.Errorf("the service account has no annotation %q: set it, and list it in requiredServiceAccountAnnotationKeys or optionalServiceAccountAnnotationKeys", key)
	}
	return value, nil
}

// readSecret reads a file of one line. Errors hold nothing of it.
func readSecret(name string) (string, error) {
	files, err := secretfile.Read(name)
	if err != nil {
		return "", fmt.Errorf("read %w", err)
	}
	secret := strings.TrimRight(string(files[0].Data), "\r\n")
	switch {
	case secret == "":
		return "", fmt.Errorf("read %q: it is empty", name)
	case !utf8.ValidString(secret) || strings.ContainsFunc(secret, isControl):
		return "", fmt.Errorf("read %q: it is not one line of text", name)
	}
	return secret, nil
}
