// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package executable reads at the beginning of a file what decides whether a
// machine can start it: the format, the machine of an ELF file, and the
// interpreter that a script or a dynamically linked program asks for.
//
//	info, err := executable.Read(path)
//
// What stands where an executable belongs is told too: a page of a server, an
// archive, text. [Near] and [Dangling] look for what is not there.
//
// It reads at most some 70 KB, whatever the file says of itself: debug/elf
// would read the sections too, whose number and size the file decides, and
// would make each plugin larger. Whether the file may be executed, and whether
// the interpreter exists, is not looked at.
package executable

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/regcred/regcred/internal/regularfile"
)

// Format is what a file begins like.
type Format string

const (
	Unknown      Format = ""
	Empty        Format = "empty" // there is not one byte in it
	ELF          Format = "ELF"
	MachO        Format = "Mach-O"
	PE           Format = "PE"
	Script       Format = "script"        // text that begins with #!
	MarkedScript Format = "marked script" // a script behind a byte order mark, which no system starts
)

// Info is what a file says of how it is to be started.
type Info struct {
	Format Format

	// Interpreter is that of a script as Linux reads it, the first word behind
	// #!, a carriage return included; or the dynamic loader of an ELF file. It
	// is "" if there is none.
	Interpreter string

	Line string // of a script: what follows #! on the first line

	Machine string // of an ELF file: its name in the specification, e.g. "EM_X86_64"
	Arch    string // of an ELF file: the GOARCH of its machine; what has none is "machine 83"
	Damage  error  // of an ELF file: why no kernel starts it
}

const (
	// headSize is as much of a first line as Linux looks at.
	headSize = 256
	// peekSize is how much of any file is read: tar has its mark behind that.
	peekSize = 512
)

// Read reads a regular file. It does not wait for a writer of a named pipe.
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
	info := Info{Format: formatOf(head[:n])}
	head = head[:min(n, headSize)]
	switch info.Format {
	case Script:
		info.Line, _, _ = strings.Cut(string(head[len("#!"):]), "\n")
		info.Interpreter = firstWord(info.Line)
	case ELF:
		info.readELF(r, head)
	}
	return info, nil
}

func formatOf(head []byte) Format {
	if len(head) == 0 {
		return Empty
	}
	for _, magic := range []struct {
		bytes  string
		format Format
	}{
		{"\x7fELF", ELF},
		{"#!", Script},
		{"\xef\xbb\xbf#!", MarkedScript},
		{"MZ", PE},
		{"\xfe\xed\xfa\xce", MachO}, {"\xce\xfa\xed\xfe", MachO},
		{"\xfe\xed\xfa\xcf", MachO}, {"\xcf\xfa\xed\xfe", MachO},
		{"\xca\xfe\xba\xbe", MachO},
	} {
		if bytes.HasPrefix(head, []byte(magic.bytes)) {
			return magic.format
		}
	}
	return foreign(head)
}

// firstWord ends at a blank, a tab or a NUL.
func firstWord(line string) string {
	words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == 0 })
	if len(words) == 0 {
		return ""
	}
	return words[0]
}
