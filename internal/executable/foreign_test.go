// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package executable

import (
	"strings"
	"testing"
)

func TestForeign(t *testing.T) {
	tar := strings.Repeat("\x00", 257) + "ustar\x0000"
	for name, tt := range map[string]struct {
		content string
		want    Format
	}{
		"doctype":        {"<!DOCTYPE html>\n<html>", Page},
		"behind blanks":  {"\n\n  <html lang=en>", Page},
		"behind a mark":  {"\ufeff<html>", Page},
		"S3":             {`<?xml version="1.0" encoding="UTF-8"?>` + "\n<Error><Code>NoSuchKey</Code>", Page},
		"JSON":           {`{"message":"Not Found","status":"404"}`, Page},
		"JSON, indented": {"{\r\n  \"errors\" : [ {", Page},
		"raw":            {"404: Not Found", Page},
		"Go":             {"404 page not found\n", Page},
		"proxy":          {"Access Denied by policy", Page},
		"gzip":           {"\x1f\x8b\x08", Archive},
		"zip":            {"PK\x03\x04", Archive},
		"xz":             {"\xfd7zXZ\x00", Archive},
		"tar":            {tar, Archive},
		"package":        {"!<arch>\ndebian-binary", Archive},
		"git-lfs":        {"version https://git-lfs.github.com/spec/v1\noid sha256:", Pointer},
		"script":         {"echo hello\n", Text},
		"block":          {"{ echo; }\n", Text},
		"other script":   {"set -e\nfour=404\n", Text},
		"cut letter":     {strings.Repeat("x", peekSize-1) + "ü", Text},
		"NUL":            {"echo\x00", Unknown},
		"noise":          {"\xf0\x9f\xff\xff", Unknown},
		"nothing":        {"", Empty},
	} {
		got, err := parse(strings.NewReader(tt.content))
		if err != nil || got.Format != tt.want {
			t.Errorf("%s: got %q, %v, want %q", name, got.Format, err, tt.want)
		}
		if what, cure := got.Format.Instead(); what == "" || cure == "" {
			t.Errorf("%s: %q is %q: %q", name, got.Format, what, cure)
		}
	}
	for _, f := range []Format{ELF, MachO, PE, Script, MarkedScript} {
		if what, cure := f.Instead(); what+cure != "" {
			t.Errorf("%q is %q: %q", f, what, cure)
		}
	}
}
