// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// elfFile is what an ELF file says about where it can run. debug/elf would
// also read the sections, whose number and size the file decides.
type elfFile struct {
	class   elf.Class
	order   binary.ByteOrder
	machine elf.Machine
	interp  string // path of the dynamic loader; "" for a static program
}

// Offsets and widths that differ between the two classes (System V ABI, ELF header and program header).
type elfLayout struct {
	header, phoff, phentsize, phnum int
	entry, offset, filesz, word     int
}

var (
	errELFShort  = errors.New("the ELF header is cut short or damaged")
	errELFInterp = errors.New("the ELF file names no usable dynamic loader")
)

// maxProgramHeaders is the kernel's bound for all of them, in bytes.
const maxProgramHeaders = 64 << 10

// maxInterp is the kernel's PATH_MAX.
const maxInterp = 4096

// readELF reads the headers of an ELF file, at most 70 KB of it.
func readELF(r io.ReaderAt) (*elfFile, error) {
	head := make([]byte, 64)
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	head = head[:n]
	if n < elf.EI_NIDENT || string(head[:4]) != elf.ELFMAG {
		return nil, errELFShort
	}
	f := &elfFile{class: elf.Class(head[elf.EI_CLASS]), order: binary.LittleEndian}
	if elf.Data(head[elf.EI_DATA]) == elf.ELFDATA2MSB {
		f.order = binary.BigEndian
	}
	layout := elfLayout{52, 28, 42, 44, 32, 4, 16, 4}
	if f.class == elf.ELFCLASS64 {
		layout = elfLayout{64, 32, 54, 56, 56, 8, 32, 8}
	}
	if n < layout.header {
		return nil, errELFShort
	}
	f.machine = elf.Machine(f.order.Uint16(head[18:]))
	f.interp, err = f.readInterp(r, head, layout)
	return f, err
}

// readInterp returns the text of the first PT_INTERP segment.
func (f *elfFile) readInterp(r io.ReaderAt, head []byte, l elfLayout) (string, error) {
	size, count := int(f.order.Uint16(head[l.phentsize:])), int(f.order.Uint16(head[l.phnum:]))
	if count == 0 {
		return "", nil
	}
	if size < l.entry || size*count > maxProgramHeaders {
		return "", errELFShort
	}
	table, err := readAt(r, f.word(head[l.phoff:], l.word), size*count)
	if err != nil {
		return "", errELFShort
	}
	for ; len(table) > 0; table = table[size:] {
		if elf.ProgType(f.order.Uint32(table)) != elf.PT_INTERP {
			continue
		}
		n := f.word(table[l.filesz:], l.word)
		if n < 2 || n > maxInterp {
			return "", errELFInterp
		}
		text, err := readAt(r, f.word(table[l.offset:], l.word), int(n))
		text, ended := bytes.CutSuffix(text, []byte{0})
		if err != nil || !ended {
			return "", errELFInterp
		}
		return string(text), nil
	}
	return "", nil
}

func (f *elfFile) word(b []byte, width int) uint64 {
	if width == 8 {
		return f.order.Uint64(b)
	}
	return uint64(f.order.Uint32(b))
}

func readAt(r io.ReaderAt, offset uint64, n int) ([]byte, error) {
	b := make([]byte, n)
	// An offset beyond int64 becomes negative, which readers refuse.
	if read, err := r.ReadAt(b, int64(offset)); read < n {
		return nil, err
	}
	return b, nil
}

// goarch returns the GOARCH that f is for, or the name of its machine.
func (f *elfFile) goarch() string {
	little := f.order == binary.ByteOrder(binary.LittleEndian)
	pick := func(le, be string) string {
		if little {
			return le
		}
		return be
	}
	switch f.machine {
	case elf.EM_X86_64:
		return "amd64"
	case elf.EM_386:
		return "386"
	case elf.EM_AARCH64:
		return "arm64"
	case elf.EM_ARM:
		return "arm"
	case elf.EM_PPC64:
		return pick("ppc64le", "ppc64")
	case elf.EM_S390:
		return "s390x"
	case elf.EM_RISCV:
		return "riscv64"
	case elf.EM_LOONGARCH:
		return "loong64"
	case elf.EM_MIPS:
		if f.class == elf.ELFCLASS64 {
			return pick("mips64le", "mips64")
		}
		return pick("mipsle", "mips")
	}
	return fmt.Sprintf("machine %d", f.machine)
}

// runsOn reports whether a machine can run programs for another: those whose
// kernels commonly run 32-bit programs too are given the benefit of the doubt.
func runsOn(program, machine string) bool {
	return program == machine ||
		program == "386" && machine == "amd64" ||
		program == "arm" && machine == "arm64"
}
