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

	subprocess "github.com/regcred/regcred/internal/process"
	"github.com/regcred/regcred/internal/regularfile"
)

// versionTimeout is the maximum duration of a --version command.
const versionTimeout = 10 * time.Second

// kubeletVersion runs a kubelet, k3s or rke2 executable to get its version.
func (n Node) kubeletVersion(ctx context.Context, program string) Version {
	if program == "" {
		return Version{Why: "the path to its executable is unknown"}
	}
	if !n.IsHost() && !n.Foreign {
		return Version{Why: program + ": regcred does not run programs from another root directory"}
	}
	real, err := n.fs().EvalSymlinks(program)
	if err != nil {
		return Version{Why: fmt.Sprintf("%s: %v", program, regularfile.BareError(err))}
	}
	return n.runVersion(ctx, program, n.fs().HostPath(real))
}

// runVersion runs file with --version. In messages, it refers to the file as program.
func (n Node) runVersion(parent context.Context, program, file string) Version {
	ctx, cancel := context.WithTimeout(parent, versionTimeout)
	defer cancel()
	out := &limitedBuffer{left: 4096}
	cmd := exec.CommandContext(ctx, file, "--version")
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.WaitDelay = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, n.HostPath("/"), out, time.Second
	subprocess.KillGroupOnCancel(cmd)
	// cmd.Run returns ErrWaitDelay if a child process keeps the output open.
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		switch {
		case parent.Err() != nil:
			err = context.Cause(parent)
		case ctx.Err() != nil:
			err = fmt.Errorf("timed out after %v", versionTimeout)
		}
		return Version{Why: fmt.Sprintf("%s --version: %v", program, withoutPath(err))}
	}
	return parseVersion(program, string(out.kept))
}

// withoutPath returns err without the path of the file or program.
func withoutPath(err error) error {
	if failed, ok := errors.AsType[*exec.Error](err); ok {
		return failed.Err
	}
	return regularfile.BareError(err)
}

// limitedBuffer keeps only the start of a program's output and discards the rest. It has no
// ReadFrom method, unlike bytes.Buffer, so that io.Copy calls Write.
type limitedBuffer struct {
	kept []byte
	left int
}

func (l *limitedBuffer) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	l.kept = append(l.kept, p[:n]...)
	return len(p), nil
}

// versionPattern matches v1.33.4, v1.33.4+k3s1, v1.33.4+rke2r1, v1.33.4-eks-1a2b3c4,
// v1.33.4-gke.1000 and v1.34.0-rc.1. Development builds print v0.0.0-master+….
var versionPattern = regexp.MustCompile(`\bv(1\.\d{1,3}\.\d{1,4})[-+.\w]*`)

// parseVersion parses the output of --version, such as "Kubernetes v1.33.4" or "k3s version
// v1.33.4+k3s1 (148243c4)".
func parseVersion(program, text string) Version {
	line, _, _ := strings.Cut(text, "\n")
	found := versionPattern.FindStringSubmatch(line)
	if found == nil {
		return Version{Why: program + " --version: printed no version"}
	}
	return Version{Kubelet: found[1], Text: found[0]}
}
