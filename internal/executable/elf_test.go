// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package executable

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testelf"
)

func TestReadELF(t *testing.T) {
	le, be := binary.ByteOrder(binary.LittleEndian), binary.ByteOrder(binary.BigEndian)
	for _, tt := range []struct {
		class   elf.Class
		order   binary.ByteOrder
		machine elf.Machine
		interp  string
		want    string
	}{
		{elf.ELFCLASS64, le, elf.EM_X86_64, "", "amd64"},
		{elf.ELFCLASS64, le, elf.EM_X86_64, "/lib64/ld-linux-x86-64.so.2", "amd64"},
		{elf.ELFCLASS64, le, elf.EM_AARCH64, "/lib/ld-musl-aarch64.so.1", "arm64"},
		{elf.ELFCLASS32, le, elf.EM_386, "/lib/ld-linux.so.2", "386"},
		{elf.ELFCLASS32, le, elf.EM_ARM, "", "arm"},
		{elf.ELFCLASS64, be, elf.EM_S390, "/lib/ld64.so.1", "s390x"},
		{elf.ELFCLASS64, be, elf.EM_PPC64, "", "ppc64"},
		{elf.ELFCLASS64, le, elf.EM_PPC64, "", "ppc64le"},
		{elf.ELFCLASS64, le, elf.EM_RISCV, "", "riscv64"},
		{elf.ELFCLASS64, le, elf.EM_LOONGARCH, "", "loong64"},
		{elf.ELFCLASS32, be, elf.EM_MIPS, "", "mips"},
		{elf.ELFCLASS32, le, elf.EM_MIPS, "", "mipsle"},
		{elf.ELFCLASS64, be, elf.EM_MIPS, "", "mips64"},
		{elf.ELFCLASS64, le, elf.EM_MIPS, "", "mips64le"},
		{elf.ELFCLASS64, le, elf.EM_AVR, "", "machine 83"},
	} {
		image := testelf.BuildFile(t, tt.class, tt.order, tt.machine, tt.interp)
		want := Info{Format: FormatELF, Machine: tt.machine.String(), Arch: tt.want, Interpreter: tt.interp}
		if tt.machine == elf.EM_AVR {
			want.Machine = want.Arch
		}
		got, err := parse(bytes.NewReader(image))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v %v: %v (-want +got)\n%s", tt.machine, tt.class, err, diff)
		}
	}
}

// countingReader counts the bytes that are requested from r.
type countingReader struct {
	r io.ReaderAt
	n int
}

func (c *countingReader) ReadAt(p []byte, off int64) (int, error) {
	c.n += len(p)
	return c.r.ReadAt(p, off)
}

func TestReadELFIsBounded(t *testing.T) {
	whole := testelf.BuildFile(t, elf.ELFCLASS64, binary.LittleEndian, elf.EM_X86_64, "/lib/ld.so")
	patch := func(offset int, v any) []byte {
		b := bytes.Clone(whole)
		must.Get(binary.Encode(b[offset:], binary.LittleEndian, v))(t)
		return b
	}
	const second = 64 + 56 // offset of the PT_INTERP program header
	for name, tt := range map[string]struct {
		image []byte
		want  error
	}{
		"magic only":             {whole[:4], errELFTruncated},
		"half a header":          {whole[:40], errELFTruncated},
		"no program headers":     {whole[:64], errELFTruncated},
		"half a program header":  {whole[:second+8], errELFTruncated},
		"no interpreter":         {whole[:second+56], errELFInterpreter},
		"half an interpreter":    {whole[:second+60], errELFInterpreter},
		"huge program headers":   {patch(54, uint16(0xffff)), errELFTruncated},
		"many program headers":   {patch(56, uint16(0xffff)), errELFTruncated},
		"small program headers":  {patch(54, uint16(8)), errELFTruncated},
		"headers far away":       {patch(32, uint64(1)<<63), errELFTruncated},
		"headers past the end":   {patch(32, uint64(1)<<30), errELFTruncated},
		"long interpreter":       {patch(second+32, uint64(1)<<40), errELFInterpreter},
		"empty interpreter":      {patch(second+32, uint64(1)), errELFInterpreter},
		"interpreter far away":   {patch(second+8, uint64(1)<<63), errELFInterpreter},
		"interpreter not closed": {patch(second+32, uint64(4)), errELFInterpreter},
	} {
		t.Run(name, func(t *testing.T) {
			r := &countingReader{r: bytes.NewReader(tt.image)}
			if info, err := parse(r); err != nil || info.FormatError == nil || !errors.Is(info.FormatError, tt.want) {
				t.Errorf("%v, damage %v, want %v", err, info.FormatError, tt.want)
			}
			if r.n > shebangSize+maxProgramHeaders+maxInterpreterPath {
				t.Errorf("%d bytes read", r.n)
			}
		})
	}
}
