// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command record runs every case of package corpus through the kubelet's own packages. It writes
// the results to testdata/parity of the root module, whose tests replay them without any Kubernetes
// code.
//
// Run it in upstream/, whose go.mod has the dependencies of the kubelet's release:
//
//	go run ./record
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"github.com/regcred/regcred/upstream/kubelet"
	"github.com/regcred/regcred/upstream/vector"
)

func main() {
	out := flag.String("out", filepath.Join("..", "testdata", "parity"), "write the vectors to this `directory`")
	check := flag.Bool("check", false, "write nothing; fail if the files there hold other cases")
	flag.Parse()
	if err := recordVectors(*out, *check); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func recordVectors(out string, check bool) error {
	kubelet.DisableLog()
	if err := checkLibraries(); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "record")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	asker := vector.New(tmp)
	asker.Processes = true
	for _, kind := range vector.Kinds {
		cases, err := kind.AllVectors(asker)
		if err != nil {
			return err
		}
		data, err := encodeCases(cases)
		if err != nil {
			return err
		}
		path := filepath.Join(out, kind.Name+".json")
		if check {
			err = compareFile(path, data)
		} else {
			err = os.WriteFile(path, data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkLibraries returns an error if this program was built with other library versions than the
// kubelet release.
func checkLibraries() error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("no build information")
	}
	return kubelet.CheckRelease(info)
}

// encodeCases writes one case per line, so that a diff shows which case has changed.
func encodeCases(cases []any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	fmt.Fprintf(&buf, "{\n\"kubelet\": %q,\n\"go\": %q,\n\"command\": %q,%s",
		kubelet.Version, runtime.Version(), "go run ./record", casesKey)
	for i, c := range cases {
		if i > 0 {
			buf.Truncate(buf.Len() - 1)
			buf.WriteString(",\n")
		}
		if err := enc.Encode(c); err != nil {
			return nil, err
		}
	}
	buf.WriteString("]\n}\n")
	return buf.Bytes(), nil
}

// casesKey separates the header of a file from its cases.
const casesKey = "\n\"cases\": [\n"

// compareFile returns an error unless the file at path has the same cases as data. The versions in
// the header may differ.
func compareFile(path string, data []byte) error {
	have, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, want, _ := bytes.Cut(data, []byte(casesKey))
	if _, got, ok := bytes.Cut(have, []byte(casesKey)); !ok || !bytes.Equal(got, want) {
		return fmt.Errorf("%s is not what the kubelet says now: record it again", path)
	}
	return nil
}
