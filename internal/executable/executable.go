// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package executable reads from the start of a file whether a machine can execute it: the
// format, the machine of an ELF file, and the interpreter of a script or of a dynamically
// linked program.
//
//	info, err := executable.Read(path)
//
// It also recognizes files that are not executables, such as HTML pages, archives and
// text. [FindSimilar] and [FollowDanglingLink] explain missing files.
//
// It reads at most about 70 KB. debug/elf would also read the sections, whose number and
// size are controlled by the file, and would make each plugin larger. The package checks
// neither the file's permissions nor whether the interpreter exists.
package executable

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/regcred/regcred/internal/regularfile"
)

// Format is the format of a file, as detected from its first bytes.
type Format string

const (
	FormatUnknown       Format = ""
	FormatEmpty         Format = "empty"
	FormatELF           Format = "ELF"
	FormatMachO         Format = "Mach-O"
	FormatPE            Format = "PE"
	FormatScript        Format = "script"        // text that begins with #!
	FormatScriptWithBOM Format = "marked script" // a script after a byte order mark; no system executes it
)

// Info describes an executable.
type Info struct {
	Format Format

	// Interpreter is a script's interpreter as Linux reads it: the first word after #!,
	// including a carriage return. For an ELF file it is the dynamic loader, or "" if
	// none exists.
	Interpreter string

	Line string // scripts only: what follows #! on the first line

	Machine     string // ELF only: name in the specification, e.g. "EM_X86_64"
	Arch        string // ELF only: GOARCH of its machine or, for example, "machine 83"
	FormatError error  // ELF only: why no kernel executes it
}

const (
	// shebangSize is how much of the first line Linux reads, in bytes.
	shebangSize = 256
	// peekSize is how much of any file is read. The magic number of tar is after shebangSize.
	peekSize = 512
)

// Read reads a regular file. It does not block on a named pipe that has no writer.
func Read(path string) (Info, error) {
	f, err := regularfile.Open(path)
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	return parse(f)
}

func parse(r io.ReaderAt) (Info, error) {
	head := make([]byte, peekSize)
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return Info{}, err
	}
	info := Info{Format: detectFormat(head[:n])}
	head = head[:min(n, shebangSize)]
	switch info.Format {
	case FormatScript:
		info.Line, _, _ = strings.Cut(string(head[len("#!"):]), "\n")
		words := strings.FieldsFunc(info.Line, func(r rune) bool { return r == ' ' || r == '\t' || r == 0 })
		if len(words) > 0 {
			info.Interpreter = words[0]
		}
	case FormatELF:
		info.readELF(r, head)
	}
	return info, nil
}

func detectFormat(head []byte) Format {
	if len(head) == 0 {
		return FormatEmpty
	}
	for _, magic := range []struct {
		bytes  string
		format Format
	}{
		{"\x7fELF", FormatELF},
		{"#!", FormatScript},
		{"\xef\xbb\xbf#!", FormatScriptWithBOM},
		{"MZ", FormatPE},
		{"\xfe\xed\xfa\xce", FormatMachO}, {"\xce\xfa\xed\xfe", FormatMachO},
		{"\xfe\xed\xfa\xcf", FormatMachO}, {"\xcf\xfa\xed\xfe", FormatMachO},
		{"\xca\xfe\xba\xbe", FormatMachO},
	} {
		if bytes.HasPrefix(head, []byte(magic.bytes)) {
			return magic.format
		}
	}
	return detectOtherFormat(head)
}
