// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

// TestConfigIsOpaque verifies that values of args and env in a configuration are not exposed by
// formatting verbs, encoders, loggers, or packages that read unexported fields, such as spew.
func TestConfigIsOpaque(t *testing.T) {
	for _, text := range []string{
		testConfig + "  args: [" + canary.ArgSecret + "]\n  env: [{name: A, value: " + canary.EnvSecret + "}]\n",
		outOfTreeHeader + "providers:\n- name: a\n  imageMatchers: [a.example]\n  extraArgs: {a: " + canary.EnvSecret + "}\n",
	} {
		c := must.Get(Parse("f", []byte(text)))(t)
		c.Position(0, "name") // so that the file is parsed
		p, f := &c.Providers[0], c.Files()[0]
		for what, v := range map[string]any{
			"Config": *c, "*Config": c, "unexported Config": struct{ c Config }{*c}, "unexported *Config": struct{ c *Config }{c},
			"Provider": *p, "unexported Provider": struct{ p Provider }{*p}, "list": c.Providers, "EnvVar": struct{ v []EnvVar }{p.Env},
			"File": *f, "*File": f, "unexported File": struct{ f File }{*f}, "map": map[string]any{"k": []*File{f}},
		} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
				canary.AssertAbsent(t, what+" with "+verb, fmt.Sprintf(verb, v))
			}
			var out bytes.Buffer
			slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "k", v)
			slog.New(slog.NewTextHandler(&out, nil)).Info("m", "k", v)
			if data, err := json.Marshal(v); err == nil {
				out.Write(data)
			}
			_ = gob.NewEncoder(&out).Encode(v)
			writeStrings(&out, reflect.ValueOf(v), map[uintptr]bool{})
			canary.AssertAbsent(t, what, out.String())
		}
	}
}

// writeStrings writes to out every string that v contains.
func writeStrings(out *bytes.Buffer, v reflect.Value, seen map[uintptr]bool) {
	switch v.Kind() {
	case reflect.String:
		fmt.Fprintln(out, v.String())
	case reflect.Pointer:
		if v.IsNil() || seen[v.Pointer()] {
			return
		}
		seen[v.Pointer()] = true
		writeStrings(out, v.Elem(), seen)
	case reflect.Interface:
		writeStrings(out, v.Elem(), seen)
	case reflect.Struct:
		for i := range v.NumField() {
			writeStrings(out, v.Field(i), seen)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			writeStrings(out, k, seen)
			writeStrings(out, v.MapIndex(k), seen)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if v.Type().Elem().Kind() == reflect.Uint8 {
				out.WriteByte(byte(v.Index(i).Uint()))
				continue
			}
			writeStrings(out, v.Index(i), seen)
		}
	}
}
