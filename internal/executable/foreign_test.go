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
		"doctype":        {"<!DOCTYPE html>\n<html>", FormatMarkup},
		"behind blanks":  {"\n\n  <html lang=en>", FormatMarkup},
		"behind a mark":  {"\ufeff<html>", FormatMarkup},
		"S3":             {`<?xml version="1.0" encoding="UTF-8"?>` + "\n<Error><Code>NoSuchKey</Code>", FormatMarkup},
		"JSON":           {`{"message":"Not Found","status":"404"}`, FormatMarkup},
		"JSON, indented": {"{\r\n  \"errors\" : [ {", FormatMarkup},
		"raw":            {"404: Not Found", FormatMarkup},
		"Go":             {"404 page not found\n", FormatMarkup},
		"proxy":          {"Access Denied by policy", FormatMarkup},
		"gzip":           {"\x1f\x8b\x08", FormatArchive},
		"zip":            {"PK\x03\x04", FormatArchive},
		"xz":             {"\xfd7zXZ\x00", FormatArchive},
		"tar":            {tar, FormatArchive},
		"package":        {"!<arch>\ndebian-binary", FormatArchive},
		"git-lfs":        {"version https://git-lfs.github.com/spec/v1\noid sha256:", FormatLFSPointer},
		"script":         {"echo hello\n", FormatText},
		"block":          {"{ echo; }\n", FormatText},
		"other script":   {"set -e\nfour=404\n", FormatText},
		"cut letter":     {strings.Repeat("x", peekSize-1) + "ü", FormatText},
		"NUL":            {"echo\x00", FormatUnknown},
		"noise":          {"\xf0\x9f\xff\xff", FormatUnknown},
		"nothing":        {"", FormatEmpty},
	} {
		got, err := parse(strings.NewReader(tt.content))
		if err != nil || got.Format != tt.want {
			t.Errorf("%s: got %q, %v, want %q", name, got.Format, err, tt.want)
		}
		if what, cure := got.Format.ExplainMismatch(); what == "" || cure == "" {
			t.Errorf("%s: %q is %q: %q", name, got.Format, what, cure)
		}
	}
	for _, f := range []Format{FormatELF, FormatMachO, FormatPE, FormatScript, FormatScriptWithBOM} {
		if what, cure := f.ExplainMismatch(); what+cure != "" {
			t.Errorf("%q is %q: %q", f, what, cure)
		}
	}
}
