// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package executable

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// Formats of files that are sometimes installed instead of an executable. No system executes
// them.
const (
	FormatMarkup     Format = "page"    // HTML, XML or JSON, such as a server's error page
	FormatArchive    Format = "archive" // an archive or a compressed file
	FormatLFSPointer Format = "pointer" // a Git LFS pointer file
	FormatText       Format = "text"    // text without #!
)

// ExplainMismatch describes a file that is not an executable, and how to fix the problem. It
// returns "" for executables.
func (f Format) ExplainMismatch() (what, cure string) {
	switch f {
	case FormatEmpty:
		return "empty", "install it again (the copy or download was interrupted, or the disk was full)"
	case FormatMarkup:
		return "a web page or server error (HTML, XML, JSON or \"not found\") saved instead of a program", "check the URL, and download the program again with \"curl --fail --location\""
	case FormatArchive:
		return "an archive or a compressed file", "extract it, and install the program"
	case FormatLFSPointer:
		return "a Git LFS pointer instead of a program", "run \"git lfs pull\", and install the downloaded file"
	case FormatText:
		return "text without a #! line", "if it is a script, add #!/bin/sh as its first line; otherwise install the program again"
	case FormatUnknown:
		return "neither a program nor a script", "install it again (the file is damaged or is the wrong file)"
	}
	return "", ""
}

// detectOtherFormat returns the format of a file that is neither a program nor a script.
func detectOtherFormat(head []byte) Format {
	const tarMagic = 257
	for _, magic := range []string{"\x1f\x8b", "PK\x03\x04", "\xfd7zXZ\x00", "BZh", "\x28\xb5\x2f\xfd", "!<arch>\n", "\xed\xab\xee\xdb", "7z\xbc\xaf"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return FormatArchive
		}
	}
	if len(head) > tarMagic && bytes.HasPrefix(head[tarMagic:], []byte("ustar")) {
		return FormatArchive
	}
	if !isText(head) {
		return FormatUnknown
	}
	text := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(string(head), "\ufeff")))
	switch {
	case strings.HasPrefix(text, "version https://git-lfs.github.com/"):
		return FormatLFSPointer
	case strings.HasPrefix(text, "<"), strings.HasPrefix(text, `{"`), strings.HasPrefix(text, "{\n"), strings.HasPrefix(text, "{\r\n"):
		return FormatMarkup
	case slices.ContainsFunc([]string{"404", "403", "401", "502", "503", "not found", "page not found", "access denied", "forbidden", "unauthorized", "bad gateway"},
		func(status string) bool { return strings.HasPrefix(text, status) }):
		return FormatMarkup
	}
	return FormatText
}

// isText reports whether head is valid UTF-8 without control characters. White space and escape
// are allowed, and so is a truncated last character.
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
