// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command soak pulls for minutes from a registry whose tokens live two seconds
// and whose password changes, in several processes, each with a keyring and a
// real plugin that gives the password of the moment and has it cached for an
// hour. It prints what happened, and fails if a pull failed for longer than the
// rule of [regcred.Keyring.Invalidate] explains: once a minute for each entry.
//
//	go run ./internal/soak -for 10m
//
// Every second change reaches the plugin late: until then what the first refused
// pull has invalidated is fetched in vain, and the next minute has to pass.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"github.com/regcred/regcred/internal/testregistry"
)

// user is the one whose password changes.
const user = "ci"

type options struct {
	whole, change, late, token, slack time.Duration
	processes, pullers                int
}

func main() {
	if filepath.Base(os.Args[0]) == pluginName {
		os.Exit(servePlugin())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flag.DurationVar(&o.whole, "for", 10*time.Minute, "how long")
	flag.DurationVar(&o.change, "change", 90*time.Second, "how long a password is good for")
	flag.DurationVar(&o.late, "late", 2*time.Second, "how much later the plugin learns every second change")
	flag.DurationVar(&o.token, "token", 2*time.Second, "how long a token is good for")
	flag.DurationVar(&o.slack, "slack", 5*time.Second, "how long after a change, or the end of the minute, a pull may still begin that fails")
	flag.IntVar(&o.processes, "processes", 2, "how many processes pull")
	flag.IntVar(&o.pullers, "pullers", 4, "how many pulls each has at a time")
	flag.Parse()
	var err error
	if image := os.Getenv(workerImage); image != "" {
		err = work(ctx, image, os.Getenv(workerDir), o.pullers, os.Stdout)
	} else {
		err = run(ctx, o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "regcred-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	reg, err := testregistry.New(testregistry.Options{Auth: testregistry.Bearer, TokenTTL: o.token})
	if err != nil {
		return err
	}
	defer reg.Close()
	if _, err := reg.Push("team/app", "v1", testregistry.Image{Layers: 3}); err != nil {
		return err
	}
	s := &soak{options: o, reg: reg, dir: dir}
	if err := s.set(0); err != nil {
		return err
	}
	if err := writePlugin(dir, reg.Addr()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.whole)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { s.disturb(ctx) })
	workers := make([]*worker, o.processes)
	for i := range workers {
		workers[i] = &worker{}
		wg.Go(func() { workers[i].err = workers[i].run(ctx, reg.Addr()+"/team/app:v1", dir, o.pullers) })
	}
	s.changes(ctx)
	wg.Wait()
	if s.err != nil {
		return s.err
	}
	return s.report(workers, out)
}

// soak is a registry whose password changes.
type soak struct {
	options
	reg     *testregistry.Server
	dir     string
	changed []change
	err     error
}

// change is a new password.
type change struct {
	at    time.Time // at the registry
	known time.Time // to the plugin
}

func password(n int) string { return fmt.Sprintf("soak-password-%d", n) }

// set makes a password known to the registry, and to the plugin: at once or
// late, every second time.
func (s *soak) set(n int) error {
	late := n%2 == 0 && n > 0
	c := change{}
	steps := []func() error{
		func() error { c.known = time.Now(); return replace(filepath.Join(s.dir, passwordFile), password(n)) },
		func() error { c.at = time.Now(); s.reg.SetUser(user, password(n)); return nil },
	}
	if late {
		steps[0], steps[1] = steps[1], func() error {
			time.Sleep(s.late)
			c.known = time.Now()
			return replace(filepath.Join(s.dir, passwordFile), password(n))
		}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	s.changed = append(s.changed, c)
	return nil
}

// changes changes the password until the end.
func (s *soak) changes(ctx context.Context) {
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.change):
		}
		if s.err = s.set(n); s.err != nil {
			return
		}
	}
}

// disturb holds an answer up now and then for longer than a token lives, so
// that it expires in the middle of a pull.
func (s *soak) disturb(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Second):
		}
		s.reg.Inject(testregistry.Fault{Kind: testregistry.Slow, Endpoint: testregistry.Blobs, Delay: s.token + s.token/4})
	}
}

// replace writes a file at one stroke.
func replace(name, text string) error {
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
