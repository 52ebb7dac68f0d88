// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package executable reads the start of a file to check whether a machine can execute it: the
// file's format, the machine of an ELF file, and the interpreter of a script or of a
// dynamically linked program.
//
//	info, err := executable.Read(path)
//
// It also recognizes files that are not executables, such as HTML pages, archives and text.
// [FindSimilar] and [FollowDanglingLink] help to explain why a file is missing.
//
// The package reads at most about 70 KB of a file. It does not use debug/elf, which also reads
// the sections and makes each plugin larger. The package does not check the file's permissions
// or whether the interpreter exists.
package executable

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/regcred/regcred/internal/regularfile"
)

// Format is the format of a file. It is detected from the first bytes.
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

// Info describes the format of a file and what is needed to execute it.
type Info struct {
	Format Format

	// Interpreter is the interpreter of a script, as Linux reads it: the first word after #!,
	// including a carriage return. For an ELF file, it is the path of the dynamic loader, or ""
	// if the file needs none.
	Interpreter string

	ShebangLine string // scripts only: the first line without #!

	Machine     string // ELF only: name in the ELF specification, such as "EM_X86_64"
	Arch        string // ELF only: GOARCH of the machine or, if it is unknown, its number, such as "machine 83"
	FormatError error  // ELF only: why the kernel does not execute the file
}

const (
	// shebangSize is the number of bytes of a script's first line that Linux reads.
	shebangSize = 256
	// peekSize is the number of bytes that are read to detect the format. It includes tar's
	// magic number, which begins at byte 257.
	peekSize = 512
)

// Read returns the format and interpreter of a regular file. It does not block on a named pipe
// without a writer.
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
		info.ShebangLine, _, _ = strings.Cut(string(head[len("#!"):]), "\n")
		words := strings.FieldsFunc(info.ShebangLine, func(r rune) bool { return r == ' ' || r == '\t' || r == 0 })
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
