// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package executable

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// The formats of files that are mistaken for executables. No system executes them.
const (
	Page    Format = "page"    // HTML, XML or JSON: a server's response to a download
	Archive Format = "archive" // packed, or compressed
	Pointer Format = "pointer" // a git-lfs pointer
	Text    Format = "text"    // without #!
)

// Instead explains what a file is instead of an executable, and how to fix it; "" if it is
// an executable.
func (f Format) Instead() (what, cure string) {
	switch f {
	case Empty:
		return "empty", "install it again (the copy or download was interrupted, or the disk was full)"
	case Page:
		return "a web page or server error (HTML, XML, JSON or \"not found\") saved instead of a program", "check the URL, and download the program again with \"curl --fail --location\""
	case Archive:
		return "an archive or a compressed file", "extract it, and install the program"
	case Pointer:
		return "a Git LFS pointer instead of a program", "run \"git lfs pull\", and install the downloaded file"
	case Text:
		return "text without a #! line", "if it is a script, add #!/bin/sh as its first line; otherwise install the program again"
	case Unknown:
		return "neither a program nor a script", "install it again (the file is damaged or is the wrong file)"
	}
	return "", ""
}

// foreign detects the formats that are neither programs nor scripts.
func foreign(head []byte) Format {
	const tarMagic = 257
	for _, magic := range []string{"\x1f\x8b", "PK\x03\x04", "\xfd7zXZ\x00", "BZh", "\x28\xb5\x2f\xfd", "!<arch>\n", "\xed\xab\xee\xdb", "7z\xbc\xaf"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return Archive
		}
	}
	if len(head) > tarMagic && bytes.HasPrefix(head[tarMagic:], []byte("ustar")) {
		return Archive
	}
	if !isText(head) {
		return Unknown
	}
	text := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(string(head), "\ufeff")))
	switch {
	case strings.HasPrefix(text, "version https://git-lfs.github.com/"):
		return Pointer
	case strings.HasPrefix(text, "<"), strings.HasPrefix(text, `{"`), strings.HasPrefix(text, "{\n"), strings.HasPrefix(text, "{\r\n"):
		return Page
	case slices.ContainsFunc([]string{"404", "403", "401", "502", "503", "not found", "page not found", "access denied", "forbidden", "unauthorized", "bad gateway"},
		func(status string) bool { return strings.HasPrefix(text, status) }):
		return Page
	}
	return Text
}

// isText reports whether head is UTF-8, except for a truncated last character, and has no
// control characters except white space and escape.
func isText(head []byte) bool {
	for len(head) > 0 {
		r, size := utf8.DecodeRune(head)
		if r == utf8.RuneError && size == 1 && (len(head) >= utf8.UTFMax || utf8.FullRune(head)) ||
			r < ' ' && !strings.ContainsRune("\t\n\r\f\x1b", r) {
			return false
		}
		head = head[size:]
	}
	return true
}
