// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package testelf builds ELF files for tests that read or start programs for other
// architectures.
package testelf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"testing"
)

// BuildFile returns an ELF file with headers and no code. If there is a loader, the file
// has two program headers, of which the second is PT_INTERP, and ends with the loader's
// name. Otherwise it has no program headers.
func BuildFile(t testing.TB, class elf.Class, order binary.ByteOrder, machine elf.Machine, loader string) []byte {
	t.Helper()
	data, headers := elf.ELFDATA2LSB, uint16(0)
	if order == binary.ByteOrder(binary.BigEndian) {
		data = elf.ELFDATA2MSB
	}
	if loader != "" {
		loader += "\x00"
		headers = 2
	}
	ident := [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(class), byte(data), byte(elf.EV_CURRENT)}
	size := len(loader)
	parts := []any{
		elf.Header64{Ident: ident, Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: headers},
		elf.Prog64{Type: uint32(elf.PT_LOAD)},
		elf.Prog64{Type: uint32(elf.PT_INTERP), Off: 64 + 2*56, Filesz: uint64(size), Memsz: uint64(size)},
	}
	if class == elf.ELFCLASS32 {
		parts = []any{
			elf.Header32{Ident: ident, Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Phoff: 52, Ehsize: 52, Phentsize: 32, Phnum: headers},
			elf.Prog32{Type: uint32(elf.PT_LOAD)},
			elf.Prog32{Type: uint32(elf.PT_INTERP), Off: 52 + 2*32, Filesz: uint32(size), Memsz: uint32(size)},
		}
	}
	var b bytes.Buffer
	for _, part := range parts[:1+headers] {
		if err := binary.Write(&b, order, part); err != nil {
			t.Fatal(err)
		}
	}
	b.WriteString(loader)
	return b.Bytes()
}
