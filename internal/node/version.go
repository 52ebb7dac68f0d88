// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/regularfile"
)

// versionTime is how long a kubelet may take to say its version. It reads
// nothing for that.
const versionTime = 10 * time.Second

// version asks a kubelet, k3s or rke2 for its version.
func (r *reading) version(program string) Version {
	if program == "" {
		return Version{Why: "the path to its executable is unknown"}
	}
	if !r.node.Here() && !r.node.Foreign {
		return Version{Why: program + ": regcred does not run programs from another root directory"}
	}
	real, err := r.node.files().Real(program)
	if err != nil {
		return Version{Why: fmt.Sprintf("%s: %v", program, regularfile.Cause(err))}
	}
	return r.ask(program, r.node.files().Host(real))
}

// ask runs a program, which is called so in what is said of it.
func (r *reading) ask(program, file string) Version {
	ctx, cancel := context.WithTimeout(r.ctx, versionTime)
	defer cancel()
	out := &limited{left: 4096}
	cmd := exec.CommandContext(ctx, file, "--version")
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.WaitDelay = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, r.node.host("/"), out, time.Second
	endAll(cmd)
	// What a script has left running, with its output, takes nothing from what it said.
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		switch {
		case r.ctx.Err() != nil:
			err = context.Cause(r.ctx)
		case ctx.Err() != nil:
			err = fmt.Errorf("timed out after %v", versionTime)
		}
		return Version{Why: fmt.Sprintf("%s --version: %v", program, cause(err))}
	}
	return parseVersion(program, string(out.kept))
}

// cause takes the path, which the caller names, from an error of starting a program.
func cause(err error) error {
	if failed, ok := errors.AsType[*exec.Error](err); ok {
		return failed.Err
	}
	return regularfile.Cause(err)
}

// limited keeps the start of what a program says. It is no Buffer, whose ReadFrom
// would take all of it.
type limited struct {
	kept []byte
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	l.kept = append(l.kept, p[:n]...)
	return len(p), nil
}

// versions are written as v1.33.4, v1.33.4+k3s1, v1.33.4+rke2r1, v1.33.4-eks-1a2b3c4,
// v1.33.4-gke.1000, v1.34.0-rc.1. What is built without one says v0.0.0-master+….
var versions = regexp.MustCompile(`\bv(1\.\d{1,3}\.\d{1,4})[-+.\w]*`)

// parseVersion reads what a program says of itself: "Kubernetes v1.33.4", or
// "k3s version v1.33.4+k3s1 (148243c4)".
func parseVersion(program, text string) Version {
	line, _, _ := strings.Cut(text, "\n")
	found := versions.FindStringSubmatch(line)
	if found == nil {
		return Version{Why: program + " --version: printed no version"}
	}
	return Version{Kubelet: found[1], Text: found[0]}
}
