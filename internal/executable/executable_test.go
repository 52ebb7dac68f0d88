// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package executable

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/regularfile"
)

func TestRead(t *testing.T) {
	long := "/" + strings.Repeat("x", 2*shebangSize)
	for name, tt := range map[string]struct {
		content string
		want    Info
	}{
		"empty":            {"", Info{Format: FormatEmpty}},
		"text":             {"echo hello\n", Info{Format: FormatText}},
		"one byte":         {"#", Info{Format: FormatText}},
		"Windows":          {"MZ\x90\x00", Info{Format: FormatPE}},
		"macOS":            {"\xcf\xfa\xed\xfe", Info{Format: FormatMachO}},
		"macOS, universal": {"\xca\xfe\xba\xbe", Info{Format: FormatMachO}},
		"script":           {"#!/bin/sh\nexit", Info{Format: FormatScript, Interpreter: "/bin/sh", ShebangLine: "/bin/sh"}},
		"argument":         {"#! \t/usr/bin/env\tbash  -e \n", Info{Format: FormatScript, Interpreter: "/usr/bin/env", ShebangLine: " \t/usr/bin/env\tbash  -e "}},
		"CR LF":            {"#!/bin/sh\r\n", Info{Format: FormatScript, Interpreter: "/bin/sh\r", ShebangLine: "/bin/sh\r"}},
		"no line feed":     {"#!/bin/sh", Info{Format: FormatScript, Interpreter: "/bin/sh", ShebangLine: "/bin/sh"}},
		"NUL":              {"#!/bin/sh\x00x\n", Info{Format: FormatScript, Interpreter: "/bin/sh", ShebangLine: "/bin/sh\x00x"}},
		"no interpreter":   {"#! \n/bin/sh", Info{Format: FormatScript, ShebangLine: " "}},
		"long line":        {"#!" + long + "\n", Info{Format: FormatScript, Interpreter: long[:shebangSize-2], ShebangLine: long[:shebangSize-2]}},
		"mark":             {"\xef\xbb\xbf#!/bin/sh\n", Info{Format: FormatScriptWithBOM}},
		"mark of a text":   {"\xef\xbb\xbfhello\n", Info{Format: FormatText}},
	} {
		path := filepath.Join(t.TempDir(), "file")
		must.Do(t, os.WriteFile(path, []byte(tt.content), 0o600))
		got, err := Read(path)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
}

func TestReadErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want an error that it is missing", err)
	}
	_, err := Read(dir)
	if _, ok := errors.AsType[*regularfile.NotRegularError](err); !ok {
		t.Errorf("got %v, want an error that it is a directory", err)
	}
	broken := errors.New("broken")
	if _, err := parse(readerAt{iotest.ErrReader(broken)}); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

// readerAt is an io.ReaderAt that ignores the offset.
type readerAt struct{ io.Reader }

func (r readerAt) ReadAt(p []byte, _ int64) (int, error) { return r.Read(p) }

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "MZ", "#!/bin/sh\n", "#! \t\r\n", "\xef\xbb\xbf#!/bin/sh", "\x7fELF",
		"\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 60), "\x7fELF\x01\x02\x01" + strings.Repeat("\x01", 160)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		info, err := parse(bytes.NewReader(b))
		switch {
		case err != nil:
			t.Errorf("a file in memory: %v", err)
		case !bytes.Contains(b, []byte(info.Interpreter)) || !bytes.Contains(b, []byte(info.ShebangLine)):
			t.Errorf("%+v is not in the file", info)
		case info.Format != FormatScript && info.ShebangLine != "", info.Format != FormatELF && info.Machine+info.Arch != "":
			t.Errorf("%+v has what belongs to another format", info)
		}
	})
}
