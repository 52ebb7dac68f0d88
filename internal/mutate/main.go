// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

// Command mutate finds out what tests would not notice: it makes a package
// wrong in one small way after another, and runs the package's own tests
// against each.
//
//	go run ./internal/mutate [flags] PACKAGE...
//
// All mutants of a package are compiled into its test binary at once, each
// behind a switch. Only the tests run that reach the mutant which is on. As
// root on Linux they run where they can do no harm.
//
// What survives is to be judged: it may be the same program in other words.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type options struct {
	dir      string
	draw     int
	seed     uint64
	files    []string
	timeout  time.Duration
	state    string
	output   string
	patterns []string
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.dir, "C", ".", "work in this `directory`, which is in the module")
	flags.IntVar(&o.draw, "n", 0, "draw so many of the mutants; 0 is all")
	flags.Uint64Var(&o.seed, "seed", 1, "draw them by this number")
	files := flags.String("files", "", "mutate only `files` of these names, separated by commas")
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "the longest that the tests may take against a mutant")
	flags.StringVar(&o.state, "state", "", "resume from this `file`, and save the results in it")
	flags.StringVar(&o.output, "o", "text", "text or json")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *files != "" {
		o.files = strings.Split(*files, ",")
	}
	o.patterns = flags.Args()
	if len(o.patterns) == 0 || o.output != "text" && o.output != "json" || o.draw < 0 {
		flags.Usage()
		return o, errors.New("name the packages to mutate; -o takes text or json; -n is not negative")
	}
	o.dir, err = filepath.Abs(o.dir)
	return o, err
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 2
	}
	report, err := mutate(ctx, o, stderr)
	if err == nil || ctx.Err() != nil { // what is known so far
		err = errors.Join(err, report.write(stdout, o.output))
	}
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	return 0
}

// mutate draws the mutants and tries them, package by package.
func mutate(ctx context.Context, o options, progress io.Writer) (*report, error) {
	r := &report{SchemaVersion: 1, Seed: o.seed, Skipped: skipped}
	packages, err := load(ctx, o.dir, o.patterns)
	if err != nil {
		return r, err
	}
	state, err := openState(o.state)
	if err != nil {
		return r, err
	}
	defer state.close()
	box, err := newSandbox(ctx)
	if err != nil {
		return r, err
	}
	defer func() { _ = box.close() }()
	fmt.Fprintln(progress, "tests run", box.describe())
	drawn := r.draw(packages, o)
	for _, pkg := range packages {
		if len(drawn[pkg]) == 0 {
			continue
		}
		summary, err := tryPackage(ctx, o, box, state, pkg, drawn[pkg], progress)
		if summary != nil {
			r.Packages = append(r.Packages, summary)
		}
		if err != nil {
			return r, fmt.Errorf("%s: %w", pkg.ImportPath, err)
		}
	}
	return r, nil
}

// draw takes as many sites as are asked for, all alike.
func (r *report) draw(packages []*goPackage, o options) map[*goPackage][]*site {
	type choice struct {
		pkg  *goPackage
		site *site
	}
	var all []choice
	for _, pkg := range packages {
		for _, file := range pkg.files {
			if len(o.files) > 0 && !slices.Contains(o.files, filepath.Base(file.path)) {
				continue
			}
			for _, s := range file.sites {
				all = append(all, choice{pkg, s})
			}
		}
	}
	r.Sites = len(all)
	if o.draw > 0 && o.draw < len(all) {
		rand.New(rand.NewPCG(o.seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:o.draw]
	}
	r.Drawn = len(all)
	drawn := map[*goPackage][]*site{}
	for _, c := range all {
		drawn[c.pkg] = append(drawn[c.pkg], c.site)
	}
	return drawn
}

func tryPackage(ctx context.Context, o options, box *sandbox, state *state, pkg *goPackage, sites []*site, progress io.Writer) (*summary, error) {
	sum := &summary{Package: pkg.ImportPath}
	if !slices.ContainsFunc(sites, func(s *site) bool { return state.results[s.key(pkg)] == "" }) {
		for _, s := range sites {
			sum.count(s, state.results[s.key(pkg)])
		}
		return sum, nil
	}
	begin := time.Now()
	suite, err := newSuite(ctx, box, pkg, sites)
	if errors.Is(err, errNoTests) {
		for _, s := range sites {
			sum.count(s, notReached)
		}
		return sum, nil
	}
	if err != nil {
		return nil, err
	}
	sum.FailingTests = suite.failing
	fmt.Fprintf(progress, "%s: %d mutants; %d tests, %.1f s one by one; ready after %.0f s\n",
		pkg.ImportPath, len(suite.mutants), len(suite.units), suite.total().Seconds(), time.Since(begin).Seconds())
	for _, m := range suite.unbuilt {
		sum.count(m.site, notBuilt)
	}
	begin = time.Now()
	tried := 0
	for _, m := range suite.mutants {
		status := state.results[m.key(pkg)]
		if status == "" {
			if status, err = suite.try(ctx, m, o.timeout); err != nil {
				return sum, err // with what is known so far
			}
			if err := state.put(m.key(pkg), status); err != nil {
				return nil, err
			}
			tried++
		}
		sum.count(m.site, status)
	}
	fmt.Fprintf(progress, "%s: %d mutants tried in %.0f s\n", pkg.ImportPath, tried, time.Since(begin).Seconds())
	return sum, nil
}

// key names a mutant of a package in one state of its files.
func (s *site) key(p *goPackage) string {
	return fmt.Sprintf("%s %s:%d:%d %s %s", p.content, s.File, s.Line, s.Column, s.Operator, s.After)
}

// state is what is known from this run and those before it.
type state struct {
	results map[string]string
	file    *os.File
}

type stateLine struct{ Mutant, Status string }

func openState(path string) (*state, error) {
	s := &state{results: map[string]string{}}
	if path == "" {
		return s, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	s.file = f
	for decoder := json.NewDecoder(f); ; {
		var line stateLine
		if err := decoder.Decode(&line); errors.Is(err, io.EOF) {
			return s, nil
		} else if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
		}
		s.results[line.Mutant] = line.Status
	}
}

func (s *state) put(mutant, status string) error {
	s.results[mutant] = status
	if s.file == nil {
		return nil
	}
	return json.NewEncoder(s.file).Encode(stateLine{mutant, status})
}

func (s *state) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}
