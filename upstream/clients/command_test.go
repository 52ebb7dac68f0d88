// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package clients

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
)

// commandTimeout is the timeout of a client's run.
const commandTimeout = 2 * time.Minute

// runCommandJob returns a function that runs the client with these arguments. In the arguments it
// replaces IMAGE, REPOSITORY, TAG and HOME (the writable directory).
func runCommandJob(args string) func(*testing.T, pullJob) (bool, string) {
	return func(t *testing.T, j pullJob) (ok bool, said string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
		defer cancel()
		colon := strings.LastIndex(j.image, ":")
		words := strings.NewReplacer("IMAGE", j.image, "REPOSITORY", j.image[:colon], "TAG", j.image[colon+1:], "HOME", j.home)
		cmd := exec.CommandContext(ctx, j.program, strings.Fields(words.Replace(args))...)
		cmd.Dir, cmd.Env = j.home, j.environ
		out, err := cmd.CombinedOutput()
		if ctx.Err() != nil {
			t.Errorf("%s has not ended within %s", j.program, commandTimeout)
		}
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return err == nil, string(out)
	}
}

// koBuild builds a program with ko. The image is its base image.
func koBuild(t *testing.T, j pullJob) (ok bool, said string) {
	t.Helper()
	writeFile(t, filepath.Join(j.home, "go.mod"), "module app.example/app\n\ngo 1.26\n")
	writeFile(t, filepath.Join(j.home, "main.go"), "package main\n\nfunc main() {}\n")
	writeFile(t, filepath.Join(j.home, ".ko.yaml"), "defaultBaseImage: "+j.image+"\n")
	cache := must.Get(exec.Command("go", "env", "GOCACHE").Output())(t)
	j.environ = append(j.environ, "GOCACHE="+strings.TrimSpace(string(cache)), "GOFLAGS=", "GOPROXY=off")
	return runCommandJob("build --push=false --oci-layout-path HOME/image .")(t, j)
}

// cueEval evaluates a file that imports the module with cue.
func cueEval(t *testing.T, j pullJob) (ok bool, said string) {
	t.Helper()
	path, version, _ := strings.Cut(strings.TrimPrefix(cueModule, "team/"), ":")
	writeFile(t, filepath.Join(j.home, "cue.mod", "module.cue"), fmt.Sprintf(`module: "app.example/app@v0"
language: version: "v0.9.0"
deps: "%s@v0": v: %q
`, path, version))
	writeFile(t, filepath.Join(j.home, "app.cue"), fmt.Sprintf("package app\n\nimport \"%s\"\n\nanswer: lib.answer\n", path))
	j.environ = append(j.environ, "CUE_REGISTRY="+strings.TrimSuffix(j.image, "/"+path+":"+version))
	return runCommandJob("eval")(t, j)
}
