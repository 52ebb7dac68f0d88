// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
)

// holders returns every way in which a program may hold a secret, in exported fields.
func holders() map[string]any {
	s := Secret(canary.Password)
	auth := AuthConfig{Username: "ci", Password: s}
	resp := &Response{V1, CacheImage, new(time.Hour), map[string]AuthConfig{"a": auth}}
	req := &Request{V1, "a", s, nil}
	x := &Exchange{Stdin: s, Stdout: s, Response: resp}
	return map[string]any{
		"value": s, "pointer": &s,
		"slice": []Secret{s}, "array": [1]Secret{s}, "map value": map[string]Secret{"k": s},
		"field": struct{ S Secret }{s}, "any field": struct{ S any }{s}, "pointer field": struct{ S *Secret }{&s}, "embedded": struct{ Secret }{s},
		"AuthConfig": auth, "*AuthConfig": &auth, "AuthConfig field": struct{ A *AuthConfig }{&auth},
		"Response": *resp, "*Response": resp, "Response field": struct{ R *Response }{resp},
		"Request": *req, "*Request": req, "Request field": struct{ R *Request }{req},
		"Exchange": *x, "*Exchange": x, "Exchange field": struct{ X *Exchange }{x},
		"ExecError": &ExecError{Name: "n", Stage: StageExec, Err: errors.New("cause")},
	}
}

func TestSecretNeverPrints(t *testing.T) {
	for what, v := range holders() {
		for _, flag := range []string{"", "+", "#", " ", "-", "0", "99", ".3", "99.3", "+#"} {
			// Without p and w, for which fmt asks no method; vet refuses them.
			for _, verb := range "vTtbcdoOqxXUeEfFgGs!" {
				format := "%" + flag + string(verb)
				canary.Check(t, what+" with "+format, fmt.Sprintf(format, v))
				if what == "value" && verb != 'T' {
					// Not even its length or its first bytes.
					if a, b := fmt.Sprintf(format, v), fmt.Sprintf(format, Secret("other")); a != b {
						t.Errorf("%s tells secrets apart", format)
					}
				}
			}
		}
		canary.Check(t, what+" with Print", fmt.Sprint(v)+fmt.Sprintln(v))
	}
}

func TestSecretText(t *testing.T) {
	for _, tt := range []struct {
		format string
		secret Secret
		want   string
	}{
		{"%v", "x", "[redacted]"}, {"%s", "x", "[redacted]"}, {"%q", "x", `"[redacted]"`}, {"%#v", "x", `"[redacted]"`},
		{"%v", "", ""}, {"%q", "", `""`}, {"%#v", "", `""`},
	} {
		if got := fmt.Sprintf(tt.format, tt.secret); got != tt.want {
			t.Errorf("%s of %d bytes: got %q, want %q", tt.format, len(tt.secret), got, tt.want)
		}
	}
	if got := string(Secret("open-sesame")); got != "open-sesame" {
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
		for what, v := range holders() {
			out.Reset()
			log.Info("message", "key", v, slog.Group("group", "key", v))
			log.With("key", v).Info("message")
			canary.Check(t, name+" log of "+what, out.String())
			if out.Len() == 0 {
				t.Fatalf("%s: nothing was logged", name)
			}
		}
		out.Reset()
		log.Info("message", "key", Secret(canary.Password))
		if !strings.Contains(out.String(), mask) {
			t.Errorf("%s: got %s, want the mask in it", name, out.String())
		}
	}
}

func TestSecretIsNotMarshalled(t *testing.T) {
	for what, v := range holders() {
		data, err := json.Marshal(v)
		canary.Check(t, what+" as JSON", string(data)+fmt.Sprint(err))
		if err == nil && what != "ExecError" {
			t.Errorf("%s: marshalled", what)
		}
	}
	if _, err := Secret("").MarshalText(); err == nil {
		t.Error("MarshalText succeeds")
	}
}
