// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package tomlfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/tomlfile"
)

func TestLine(t *testing.T) {
	f, err := tomlfile.Parse("x", []byte("a = 1\n[t.'x.y'] # c\nb = {c = 1,\n d.e = 2}\n[[l]]\n[[l]]\nk = [\n 1]\n[[l.m]]\n[l.m.n]\no = 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"a": 1, "t": 2, "t x.y": 2, "t x.y b": 3, "t x.y b c": 3, "t x.y b d": 4, "t x.y b d e": 4, "l": 5, "l 0": 5, "l 1": 6, "l 1 k": 7, "l 1 m 0": 9, "l 1 m 0 n o": 11, "l 2": 0, "o": 0,
	} {
		if got := f.Line(strings.Fields(path)...); got != want {
			t.Errorf("%s is on line %d, want %d", path, got, want)
		}
	}
	if got := f.NearestLine("t", "x.y", "none", "of", "these"); got != 2 {
		t.Errorf("near: line %d, want 2", got)
	}
	if got := fmt.Sprint(f.TableKeys()); got != "[[t x.y] [l] [l] [l m] [l m n]]" {
		t.Errorf("tables: %s", got)
	}
}

// TestError verifies that an error contains a position, but no text from the file.
func TestError(t *testing.T) {
	f, err := tomlfile.Parse("x", []byte("a = 1\nb = "+canary.PasswordSecret+"\n"))
	bad, ok := errors.AsType[*tomlfile.Error](err)
	if !ok || bad.Line != 2 || bad.Column != 5 || f.Line("a") != 1 {
		t.Errorf("got %v", err)
	}
	canary.AssertAbsent(t, "an error", err.Error())
	f = must.Get(tomlfile.Parse("x", []byte("\na = 'x'\n")))(t)
	var v struct{ A int }
	if bad, ok := errors.AsType[*tomlfile.Error](f.Decode(&v)); !ok || bad.Line != 2 {
		t.Errorf("got %v", bad)
	}
}

// FuzzParse verifies that no input causes a panic, and that every reported line exists in the file.
func FuzzParse(f *testing.F) {
	f.Add([]byte("a = 1\n[t.'x.y']\nb = {c = 1}\n[[l]]\n[[l.m]]\n"))
	f.Add([]byte(strings.Repeat("a.", 5000) + "b = 1\n"))
	f.Add([]byte("a = " + strings.Repeat("[", 20000)))
	f.Add([]byte("a = " + strings.Repeat("{b = ", 5000)))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := tomlfile.Parse("x", data)
		if _, ok := errors.AsType[*tomlfile.Error](err); err != nil && !ok {
			t.Errorf("got %v", err)
		}
		lines := strings.Count(string(data), "\n") + 1
		for _, table := range file.TableKeys() {
			if line := file.NearestLine(table...); line < 0 || line > lines {
				t.Errorf("%q is on line %d of %d", table, line, lines)
			}
		}
	})
}

// TestReadOld verifies the lines of values in files that only ReadContainerd1 accepts.
func TestReadOld(t *testing.T) {
	for text, line := range map[string]int{"\ufeffa = 1\n": 1, "# \xff\x00\x01\n\r\na = 1\r\n": 3, "b = 1\ra = 1\r": 2, "\ufeffb = 1\n[": 0} {
		path := filepath.Join(t.TempDir(), "f.toml")
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := tomlfile.Read(t.Context(), inroot.FS{}, path); err == nil {
			t.Errorf("%q is TOML", text)
		}
		f, err := tomlfile.ReadContainerd1(t.Context(), inroot.FS{}, path)
		if (err != nil) != (line == 0) || f.Line("a") != line {
			t.Errorf("%q: a is on line %d, %v; want %d", text, f.Line("a"), err, line)
		}
	}
}
