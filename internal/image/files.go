// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package image

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// commandPrograms are in bin/ of the image, and pluginPrograms in plugins/.
// docker-credential-regcred is not included, because nodes do not use it.
var (
	commandPrograms = []string{"regcred", "regcred-controller", "regcred-credential-provider"}
	pluginPrograms  = []string{
		"acr-credential-provider", "auth-provider-gcp", "dockerconfig-credential-provider",
		"ecr-credential-provider", "static-credential-provider", "token-credential-provider",
	}
)

// passwdContent is the image's /etc/passwd. It sets the user's group, because the kubelet passes
// only the user's number to containerd. For a user that is not in passwd, containerd uses root's
// group.
const passwdContent = "regcred:x:65532:65532:regcred:/:/sbin/nologin\n"

type imageFile struct {
	name    string // no leading slash; directories end with a slash
	mode    fs.FileMode
	content []byte
}

// imageFiles returns all files of the image, sorted by name.
func imageFiles(o BuildOptions) ([]imageFile, error) {
	license, err := os.ReadFile(o.License)
	if err != nil {
		return nil, err
	}
	bin, err := programFiles(o, "bin/", commandPrograms)
	if err != nil {
		return nil, err
	}
	rest, err := programFiles(o, "plugins/", pluginPrograms)
	if err != nil {
		return nil, err
	}
	list := append([]imageFile{{name: "LICENSE", mode: 0o644, content: license}}, bin...)
	list = append(list, imageFile{name: "etc/", mode: 0o755}, imageFile{name: "etc/passwd", mode: 0o644, content: []byte(passwdContent)})
	return append(list, rest...), nil
}

// programFiles returns the directory dir and the programs in it.
func programFiles(o BuildOptions, dir string, names []string) ([]imageFile, error) {
	list := []imageFile{{name: dir, mode: 0o755}}
	for _, name := range names {
		content, err := readProgram(o, name)
		if err != nil {
			return nil, err
		}
		list = append(list, imageFile{name: dir + name, mode: 0o755, content: content})
	}
	return list, nil
}

// readProgram reads a program from the first directory that contains it.
func readProgram(o BuildOptions, name string) ([]byte, error) {
	for _, dir := range o.Programs {
		path := filepath.Join(dir, name)
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = checkProgram(path, o.Platform)
		}
		return content, err
	}
	return nil, fmt.Errorf("%s is not in %s: build it with CGO_ENABLED=0 go build ./cmd/%[1]s", name, strings.Join(o.Programs, " or "))
}

// elfMachines maps image architectures to ELF machines.
var elfMachines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkProgram returns an error for a program that could not run in the image.
func checkProgram(path string, platform v1.Platform) error {
	machine, known := elfMachines[platform.Architecture]
	if !known || platform.OS != "linux" {
		return fmt.Errorf("unsupported platform %s: only linux/amd64 and linux/arm64 are supported", platform)
	}
	program, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s is not a program for %s: %w", path, platform, err)
	}
	defer program.Close()
	if program.Machine != machine {
		return fmt.Errorf("%s is a program for %v, but the image is for %s", path, program.Machine, platform)
	}
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s needs a dynamic loader, which the image does not have: build it with CGO_ENABLED=0", path)
		}
	}
	return nil
}
