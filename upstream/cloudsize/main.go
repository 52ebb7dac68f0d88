// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command cloudsize measures how much package keychain/cloud adds to a program: size, packages and
// start-up time. It compares the package with the keychains of three clouds that programs with
// go-containerregistry use. The measured programs send no requests. Run it in upstream/:
//
//	go run ./cloudsize
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// program is a program to measure.
type program struct {
	name   string
	source string   // source code; "" for a program in a file
	dir    string   // directory of the module to build in
	args   []string // arguments of go build before the package

	file     string
	packages int
	inits    []time.Duration // initialization time of all packages, per run
	runs     []time.Duration // time from start to exit, per run
}

const runCount = 40

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "cloudsize:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "cloudsize-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	theirs := []string{"-modfile=cloudsize.mod"}
	list := []*program{
		{name: "none", source: emptyMainSource},
		newProgram("ecr"), newProgram("gcr"), newProgram("acr"), newProgram("acr", "ecr", "gcr"),
		{name: "helpers", dir: ".", args: theirs}, {name: "k8schain", dir: ".", args: theirs},
	}
	for _, p := range list {
		if err := p.build(dir); err != nil {
			return err
		}
	}
	for range runCount { // alternate, so that other load affects all programs equally
		for _, p := range list {
			if err := p.measureStart(dir); err != nil {
				return err
			}
		}
	}
	fmt.Printf("| program | stripped | packages | init | start to exit |\n|---|---|---|---|---|\n")
	for _, p := range list {
		info, err := os.Stat(p.file)
		if err != nil {
			return err
		}
		fmt.Printf("| %s | %.2f MB | %d | %.2f ms | %.1f ms |\n", p.name, float64(info.Size())/1e6, p.packages, medianMillis(p.inits), medianMillis(p.runs))
	}
	return nil
}

// medianMillis returns the median in milliseconds.
func medianMillis(d []time.Duration) float64 {
	return float64(slices.Sorted(slices.Values(d))[len(d)/2]) / 1e6
}

// emptyMainSource is a program that only uses HTTP over TLS, which all programs do.
const emptyMainSource = "package main\n\nimport (\n\t\"net/http\"\n\t\"os\"\n)\n\nfunc main() {\n\tif len(os.Args) > 1 {\n\t\thttp.Get(os.Args[1])\n\t}\n}\n"

// newProgram returns a minimal program with a keyring for these clouds.
func newProgram(clouds ...string) *program {
	imports, members := "", "" // the lookup is linked into the program but never run
	for _, c := range clouds {
		imports += fmt.Sprintf("\t%q\n", "github.com/regcred/regcred/provider/"+c)
		members += fmt.Sprintf("provider(%s.InPod(%[1]s.Options{})), ", c)
	}
	return &program{name: strings.Join(clouds, "-"), source: "package main\n\nimport (\n\t\"context\"\n\t\"os\"\n\n" +
		"\t\"github.com/regcred/regcred\"\n\t\"github.com/regcred/regcred/keychain/cloud\"\n\t\"github.com/regcred/regcred/plugin\"\n" + imports + ")\n\n" +
		"func provider(p plugin.Provider, err error) cloud.Provider {\n\tif err != nil {\n\t\tpanic(err)\n\t}\n\treturn cloud.Provider{Provider: p}\n}\n\n" +
		"func main() {\n\tkeyring, err := cloud.New(regcred.Options{}, " + members + ")\n" +
		"\tif err != nil {\n\t\tpanic(err)\n\t}\n" +
		"\tif len(os.Args) > 1 {\n\t\tkeyring.Lookup(context.Background(), regcred.Request{Image: os.Args[1]})\n\t}\n\tkeyring.Close()\n}\n"}
}

// build builds the program with the flags of ./release.sh.
func (p *program) build(dir string) error {
	p.file = filepath.Join(dir, p.name)
	pkg := "./cloudsize/" + p.name + "/main.go" // a file, so that build constraints do not apply
	if p.source != "" {
		if err := p.writeOverlay(dir); err != nil {
			return err
		}
	}
	if _, err := p.goCommand(slices.Concat([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", p.file}, p.args, []string{pkg})...); err != nil {
		return err
	}
	out, err := p.goCommand(slices.Concat([]string{"list", "-deps"}, p.args, []string{pkg})...)
	p.packages = len(strings.Fields(out))
	return err
}

// writeOverlay adds the source to the parent module through go build's -overlay.
func (p *program) writeOverlay(dir string) error {
	above, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	source, overlay := p.file+".go", p.file+".json"
	data, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(above, "cloudsize", p.name, "main.go"): source}})
	if err != nil {
		return err
	}
	p.dir, p.args = above, []string{"-overlay=" + overlay}
	return errors.Join(os.WriteFile(source, []byte(p.source), 0o600), os.WriteFile(overlay, data, 0o600))
}

// goCommand runs the go command in the program's module.
func (p *program) goCommand(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), "CGO_ENABLED=0")
	return runCommand(cmd)
}

var initTimePattern = regexp.MustCompile(`(?m)^init \S+ @\S+ ms, (\S+) ms clock`)

// measureStart runs the program twice: once to measure its run time, once to measure the
// initialization of its packages.
func (p *program) measureStart(dir string) error {
	plain, traced := exec.Command(p.file), exec.Command(p.file)
	plain.Env, traced.Env = []string{"HOME=" + dir}, []string{"HOME=" + dir, "GODEBUG=inittrace=1"}
	begin := time.Now()
	if _, err := runCommand(plain); err != nil {
		return err
	}
	p.runs = append(p.runs, time.Since(begin))
	trace, err := runCommand(traced)
	if err != nil {
		return err
	}
	total := time.Duration(0)
	for _, m := range initTimePattern.FindAllStringSubmatch(trace, -1) {
		ms, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return err
		}
		total += time.Duration(ms * 1e6)
	}
	if total == 0 {
		return errors.New(p.name + ": no trace of its inits")
	}
	p.inits = append(p.inits, total)
	return nil
}

// runCommand runs a command and returns its standard output or, if that is empty, its
// standard error.
func runCommand(cmd *exec.Cmd) (string, error) {
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%q: %w: %s", cmd.Args, err, stderr.String())
	}
	return cmp.Or(stdout.String(), stderr.String()), nil
}
