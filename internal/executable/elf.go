// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package executable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

var (
	errELFTruncated   = errors.New("the ELF header is truncated or damaged")
	errELFInterpreter = errors.New("the ELF file has no valid dynamic loader")
)

// maxProgramHeaders is the maximum total size of program headers in bytes, as in the Linux
// kernel.
const maxProgramHeaders = 64 << 10

// maxInterpreterPath is the maximum length of the dynamic loader's path: Linux's PATH_MAX.
const maxInterpreterPath = 4096

// elfFile holds the start of an ELF file, and the offsets and sizes of header fields. They
// differ between 32-bit and 64-bit files (System V ABI, ELF header and program header).
type elfFile struct {
	head  []byte
	order binary.ByteOrder
	is64  bool

	header, phoff, phentsize, phnum int
	entry, offset, filesz, word     int
}

// readELF sets info's ELF fields from the headers of an ELF file. head is the beginning of the
// file.
func (info *Info) readELF(r io.ReaderAt, head []byte) {
	const identSize, class, data, class64, bigEndian = 16, 4, 5, 2, 2
	if info.FormatError = errELFTruncated; len(head) < identSize {
		return
	}
	f := elfFile{head, binary.LittleEndian, false, 52, 28, 42, 44, 32, 4, 16, 4}
	if head[class] == class64 {
		f = elfFile{head, binary.LittleEndian, true, 64, 32, 54, 56, 56, 8, 32, 8}
	}
	if head[data] == bigEndian {
		f.order = binary.BigEndian
	}
	if len(head) < f.header {
		return
	}
	info.Machine, info.Arch = f.machineName()
	info.Interpreter, info.FormatError = f.interpreterPath(r)
}

// interpreterPath returns the path of the dynamic loader from the first PT_INTERP segment.
func (f *elfFile) interpreterPath(r io.ReaderAt) (string, error) {
	const interp = 3 // PT_INTERP
	size, count := int(f.order.Uint16(f.head[f.phentsize:])), int(f.order.Uint16(f.head[f.phnum:]))
	if count == 0 {
		return "", nil
	}
	if size < f.entry || size*count > maxProgramHeaders {
		return "", errELFTruncated
	}
	table, err := readAt(r, f.decodeUint(f.head[f.phoff:]), size*count)
	if err != nil {
		return "", errELFTruncated
	}
	for ; len(table) > 0; table = table[size:] {
		if f.order.Uint32(table) != interp {
			continue
		}
		n := f.decodeUint(table[f.filesz:])
		if n < 2 || n > maxInterpreterPath {
			return "", errELFInterpreter
		}
		text, err := readAt(r, f.decodeUint(table[f.offset:]), int(n))
		text, ended := bytes.CutSuffix(text, []byte{0})
		if err != nil || !ended {
			return "", errELFInterpreter
		}
		return string(text), nil
	}
	return "", nil
}

func (f *elfFile) decodeUint(b []byte) uint64 {
	if f.word == 8 {
		return f.order.Uint64(b)
	}
	return uint64(f.order.Uint32(b))
}

func readAt(r io.ReaderAt, offset uint64, n int) ([]byte, error) {
	b := make([]byte, n)
	// An offset that exceeds int64 becomes negative, and ReadAt rejects it.
	if read, err := r.ReadAt(b, int64(offset)); read < n {
		return nil, err
	}
	return b, nil
}

// machineName returns the name of the file's machine and the matching GOARCH.
func (f *elfFile) machineName() (name, arch string) {
	const mips, ppc64 = 8, 21
	n := f.order.Uint16(f.head[18:])
	known, ok := map[uint16][2]string{
		3: {"EM_386", "386"}, mips: {"EM_MIPS", "mips"}, ppc64: {"EM_PPC64", "ppc64"}, 22: {"EM_S390", "s390x"}, 40: {"EM_ARM", "arm"},
		62: {"EM_X86_64", "amd64"}, 183: {"EM_AARCH64", "arm64"}, 243: {"EM_RISCV", "riscv64"}, 258: {"EM_LOONGARCH", "loong64"},
	}[n]
	if !ok {
		name = fmt.Sprintf("machine %d", n)
		return name, name
	}
	name, arch = known[0], known[1]
	if n == mips && f.is64 {
		arch += "64"
	}
	if (n == mips || n == ppc64) && f.order == binary.ByteOrder(binary.LittleEndian) {
		arch += "le"
	}
	return name, arch
}
