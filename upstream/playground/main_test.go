// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package playground

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/upstream/isolated"
	"github.com/regcred/regcred/upstream/plugins"
)

var screenshotDir = flag.String("shots", "", "the directory for the screenshots, in place of one that is removed")

// isolatedTests runs the tests without a network, because a browser sends requests on its own.
var isolatedTests = isolated.Tests{
	Name:     "chromium",
	Programs: isolated.Programs{"chromium": "chromium"},
	Wrap: func(run func() int) (code int, err error) {
		if err := playground.start(); err != nil {
			return 0, err
		}
		return run(), playground.stop()
	},
}

func TestMain(m *testing.M) {
	flag.Parse()
	isolatedTests.Main(m)
}

// playground is the playground that its command serves, and the regcred command to compare it with.
var playground playgroundServer

type playgroundServer struct {
	url     string
	regcred string
	dir     string
	process *exec.Cmd
}

func (s *playgroundServer) start() (err error) {
	if s.dir, err = os.MkdirTemp("", "playground-"); err != nil {
		return err
	}
	if s.regcred, err = plugins.Build(s.dir, "regcred"); err != nil {
		return err
	}
	root, err := plugins.RepositoryRoot()
	if err != nil {
		return err
	}
	program := filepath.Join(s.dir, "playground")
	build := exec.Command("go", "build", "-o", program, "./docs/playground")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the playground: %w\n%s", err, out)
	}
	s.process = exec.Command(program)
	s.process.Dir, s.process.Stderr = root, os.Stderr
	stdout, err := s.process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.process.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	s.url = strings.TrimSpace(line)
	return err
}

func (s *playgroundServer) stop() error {
	err := errors.Join(s.process.Process.Signal(os.Interrupt), s.process.Wait())
	return errors.Join(err, os.RemoveAll(s.dir))
}
