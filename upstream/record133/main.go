// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build kubelet133

// Command record133 records what kubelet 1.33 says about the single files of
// package corpus (which testdata/parity/config.json holds), with the feature gate of service-account tokens on and off.
// 1.33 is the last release without configuration directories, hashes and
// cacheType. It was recorded once, in upstream/:
//
//	go run -modfile=kubelet133.mod -tags=kubelet133 ./record133
//
// kubelet133.mod sets the GODEBUG defaults of the Go release with which
// kubelets of that time are built.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	_ "unsafe" // for go:linkname

	"k8s.io/apimachinery/pkg/util/validation/field"
	_ "k8s.io/kubernetes/pkg/credentialprovider/plugin" // has the functions below
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"

	"github.com/regcred/regcred/upstream/corpus"
)

const version = "v1.33.13"

const command = "go run -modfile=kubelet133.mod -tags=kubelet133 ./record133"

//go:linkname readConfig k8s.io/kubernetes/pkg/credentialprovider/plugin.readCredentialProviderConfigFile
func readConfig(configPath string) (*kubeletconfig.CredentialProviderConfig, error)

//go:linkname validate k8s.io/kubernetes/pkg/credentialprovider/plugin.validateCredentialProviderConfig
func validate(config *kubeletconfig.CredentialProviderConfig, saTokenForCredentialProviders bool) field.ErrorList

func main() {
	tmp, err := os.MkdirTemp("", "record")
	if err == nil {
		defer os.RemoveAll(tmp)
		err = run(tmp, filepath.Join("..", "testdata", "parity", "validatefor-1.33.json"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "record133:", err)
		os.Exit(1)
	}
}

func run(tmp, out string) error {
	type vector struct {
		Name          string `json:"name"` // of the case in config.json that has the file
		Gate          bool   `json:"gate"`
		LoadError     string `json:"loadError,omitempty"`
		ValidateError string `json:"validateError,omitempty"`
	}
	var buf bytes.Buffer
	fmt.Fprintf(&buf, "{\n\"kubelet\": %q,\n\"go\": %q,\n\"command\": %q,\n\"cases\": [", version, runtime.Version()+" with godebug default=go1.24", command)
	sep := "\n"
	for i, c := range corpus.Configs() {
		if c.IsDir {
			continue
		}
		path, err := c.Write(filepath.Join(tmp, fmt.Sprint(i)))
		if err != nil {
			return err
		}
		for _, gate := range []bool{false, true} {
			v := vector{Name: c.Name, Gate: gate}
			cfg, err := readConfig(path)
			if err != nil {
				v.LoadError = clean(err, filepath.Join(tmp, fmt.Sprint(i)))
			} else if err := validate(cfg, gate).ToAggregate(); err != nil {
				v.ValidateError = clean(err, filepath.Join(tmp, fmt.Sprint(i)))
			}
			var line bytes.Buffer
			enc := json.NewEncoder(&line)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(v); err != nil {
				return err
			}
			buf.WriteString(sep + strings.TrimSuffix(line.String(), "\n"))
			sep = ",\n"
		}
	}
	buf.WriteString("\n]\n}\n")
	return os.WriteFile(out, buf.Bytes(), 0o644)
}

// clean makes an error the same on every machine, and short.
func clean(err error, dir string) string {
	msg := strings.ReplaceAll(err.Error(), dir, "DIR")
	if len(msg) > 500 {
		msg = strings.ToValidUTF8(msg[:500], "") + "…"
	}
	return msg
}
