// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/internal/canary"
)

// secretHolders returns values of different kinds that contain a secret.
func secretHolders() map[string]any {
	s := NewSecret(canary.PasswordSecret)
	auth := AuthConfig{Username: "ci", Password: s}
	resp := &Response{V1, CacheImage, new(time.Hour), map[string]AuthConfig{"a": auth}}
	req := &Request{V1, "a", s, nil}
	x := &Exchange{Stdin: s, Stdout: s, Response: resp}
	return map[string]any{
		"value": s, "pointer": &s,
		"slice": []Secret{s}, "array": [1]Secret{s}, "map value": map[string]Secret{"k": s},
		"field": struct{ S Secret }{s}, "unexported field": struct{ s Secret }{s}, "behind a pointer": struct{ p *struct{ s Secret } }{&struct{ s Secret }{s}},
		"Command field": struct{ C *Command }{&Command{Name: "n", Args: NewSecrets(canary.PasswordSecret)}}, "Commands": []Command{{Args: NewSecrets(canary.PasswordSecret)}},
		"Command":   Command{Name: "n", Args: NewSecrets(canary.PasswordSecret), Env: NewSecrets("A=" + canary.PasswordSecret)},
		"any field": struct{ S any }{s}, "pointer field": struct{ S *Secret }{&s}, "embedded": struct{ Secret }{s},
		"AuthConfig": auth, "*AuthConfig": &auth, "AuthConfig field": struct{ A *AuthConfig }{&auth},
		"Response": *resp, "*Response": resp, "Response field": struct{ R *Response }{resp},
		"Request": *req, "*Request": req, "Request field": struct{ R *Request }{req},
		"Exchange": *x, "*Exchange": x, "Exchange field": struct{ X *Exchange }{x},
		"ExecError": &ExecError{Name: "n", Stage: StageExec, Err: errors.New("cause")},
	}
}

func TestSecretNeverPrints(t *testing.T) {
	for what, v := range secretHolders() {
		for _, flag := range []string{"", "+", "#", " ", "-", "0", "99", ".3", "99.3", "+#"} {
			// The verbs p and w are omitted. Package fmt calls no method for them, and vet
			// rejects them.
			for _, verb := range "vTtbcdoOqxXUeEfFgGs!" {
				format := "%" + flag + string(verb)
				canary.AssertAbsent(t, what+" with "+format, fmt.Sprintf(format, v))
				if what == "value" && verb != 'T' {
					// The result must not even depend on the length or the first bytes of the
					// secret.
					if a, b := fmt.Sprintf(format, v), fmt.Sprintf(format, NewSecret("other")); a != b {
						t.Errorf("%s tells secrets apart", format)
					}
				}
			}
		}
		canary.AssertAbsent(t, what+" with Print", fmt.Sprint(v)+fmt.Sprintln(v))
	}
}

func TestSecretText(t *testing.T) {
	for _, tt := range []struct {
		format string
		secret Secret
		want   string
	}{
		{"%v", NewSecret("x"), "[redacted]"}, {"%s", NewSecret("x"), "[redacted]"}, {"%q", NewSecret("x"), `"[redacted]"`}, {"%#v", NewSecret("x"), `"[redacted]"`},
		{"%v", Secret{}, ""}, {"%q", Secret{}, `""`}, {"%#v", Secret{}, `""`},
	} {
		if got := fmt.Sprintf(tt.format, tt.secret); got != tt.want {
			t.Errorf("%s of %d bytes: got %q, want %q", tt.format, len(tt.secret.Reveal()), got, tt.want)
		}
	}
	if got := NewSecret("open-sesame").Reveal(); got != "open-sesame" {
		t.Errorf("the value: got %q", got)
	}
}

func TestSecretNeverLogs(t *testing.T) {
	var out bytes.Buffer
	for name, handler := range map[string]slog.Handler{
		"text": slog.NewTextHandler(&out, nil),
		"JSON": slog.NewJSONHandler(&out, nil),
	} {
		log := slog.New(handler)
		for what, v := range secretHolders() {
			out.Reset()
			log.Info("message", "key", v, slog.Group("group", "key", v))
			log.With("key", v).Info("message")
			canary.AssertAbsent(t, name+" log of "+what, out.String())
			if out.Len() == 0 {
				t.Fatalf("%s: nothing was logged", name)
			}
		}
		out.Reset()
		log.Info("message", "key", NewSecret(canary.PasswordSecret))
		if !strings.Contains(out.String(), secretMask) {
			t.Errorf("%s: got %s, want the mask in it", name, out.String())
		}
	}
}

func TestSecretIsNotEncoded(t *testing.T) {
	empty := func(what string) bool { // reports whether the value has no exported fields or no secrets
		return what == "unexported field" || what == "behind a pointer" || what == "ExecError"
	}
	for what, v := range secretHolders() {
		data, err := json.Marshal(v)
		canary.AssertAbsent(t, what+" as JSON", string(data)+fmt.Sprint(err))
		if err == nil && !empty(what) {
			t.Errorf("%s: written as JSON", what)
		}
		var buf bytes.Buffer
		err = gob.NewEncoder(&buf).Encode(v)
		canary.AssertAbsent(t, what+" as gob", buf.String()+fmt.Sprint(err))
		if err == nil && !empty(what) {
			t.Errorf("%s: written as gob", what)
		}
		if what == "embedded" {
			continue // encoding/xml panics for an unnamed type that has a MarshalText method
		}
		data, err = xml.Marshal(v)
		canary.AssertAbsent(t, what+" as XML", string(data)+fmt.Sprint(err))
		data, err = yaml.Marshal(v)
		canary.AssertAbsent(t, what+" as YAML", string(data)+fmt.Sprint(err))
		if err == nil && !empty(what) {
			t.Errorf("%s: written as YAML", what)
		}
	}
	for what, err := range map[string]error{
		"gob": gob.NewEncoder(io.Discard).Encode(NewSecret("x")),
		"XML": xml.NewEncoder(io.Discard).Encode(NewSecret("x")),
	} {
		if err == nil {
			t.Errorf("a Secret is written as %s", what)
		}
	}
	if _, err := (Secret{}).MarshalText(); err == nil {
		t.Error("MarshalText succeeds")
	}
}

// TestSecretDiff verifies that cmp.Diff does not show secrets.
func TestSecretDiff(t *testing.T) {
	a, b := AuthConfig{"ci", NewSecret(canary.PasswordSecret)}, AuthConfig{"ci", NewSecret(canary.TokenSecret)}
	diff := cmp.Diff(a, b) + cmp.Diff(struct{ S Secret }{a.Password}, struct{ S Secret }{b.Password})
	canary.AssertAbsent(t, "cmp.Diff", diff)
	if diff == "" || cmp.Diff(a, AuthConfig{"ci", NewSecret(canary.PasswordSecret)}) != "" {
		t.Error("cmp does not compare what they hold")
	}
}

func TestSecretEqual(t *testing.T) {
	for _, tt := range []struct {
		a, b Secret
		want bool
	}{
		{NewSecret("a"), NewSecret("a"), true}, {NewSecret("a"), NewSecret("b"), false}, {NewSecret("a"), NewSecret("ab"), false},
		{Secret{}, NewSecret(""), true}, {Secret{}, NewSecret("a"), false},
	} {
		if got := tt.a.Equal(tt.b); got != tt.want || tt.b.Equal(tt.a) != got {
			t.Errorf("%q, %q: %t", tt.a.Reveal(), tt.b.Reveal(), got)
		}
	}
	if !NewSecret("").IsZero() || NewSecret("a").IsZero() {
		t.Error("IsZero")
	}
}

func TestSecretUnmarshal(t *testing.T) {
	for in, want := range map[string]string{`"a\u0041"`: "aA", `""`: "", `null`: "before"} {
		s := NewSecret("before")
		if err := json.Unmarshal([]byte(in), &s); err != nil || s.Reveal() != want {
			t.Errorf("%s: got %q, %v; want %q", in, s.Reveal(), err, want)
		}
	}
	for _, in := range []string{`1`, `["` + canary.PasswordSecret + `"]`, `{"` + canary.PasswordSecret + `":1}`} {
		var s Secret
		err := json.Unmarshal([]byte(in), &s)
		if err == nil {
			t.Errorf("%s is a secret", in)
		}
		canary.AssertAbsent(t, "error", fmt.Sprint(err))
	}
}

func TestSecretUnmarshalXML(t *testing.T) {
	var got struct {
		Attr Secret `xml:"a,attr"`
		Elem Secret `xml:"e"`
	}
	if err := xml.Unmarshal([]byte(`<x a="one"><e>two</e></x>`), &got); err != nil || got.Attr.Reveal() != "one" || got.Elem.Reveal() != "two" {
		t.Errorf("got %q and %q, %v", got.Attr.Reveal(), got.Elem.Reveal(), err)
	}
}
