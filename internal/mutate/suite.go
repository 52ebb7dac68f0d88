// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A suite is a package's tests, compiled once with all its mutants.
type suite struct {
	box     *sandbox
	pkg     *goPackage
	shared  switchFile
	env     []string
	mutants []mutant
	unbuilt []mutant // those that do not compile
	failing []string // tests that fail without a mutant, and are skipped
	units   []*unit
	always  map[int]bool // what is reached before a test starts
	whole   map[int]bool // what all tests together reach
}

// A unit is a test, or a subtest of one that takes long, and what it reaches.
type unit struct {
	pattern string
	took    time.Duration
	reached map[int]bool
}

// newSuite compiles a package's tests with the mutants, runs them without any,
// and finds out which test reaches which mutant.
func newSuite(ctx context.Context, box *sandbox, pkg *goPackage, sites []*site) (*suite, error) {
	s := &suite{box: box, pkg: pkg}
	for i, site := range sites {
		s.mutants = append(s.mutants, mutant{site, i + 1})
	}
	s.shared = switchFile{path: filepath.Join(box.work, "switch"), size: len(sites) + 9}
	_ = os.Remove(s.shared.path)
	s.env = []string{
		"CGO_ENABLED=0", // as test.sh has it; and what tests build is mutated as well
		"GOFLAGS=" + box.goflags + " -trimpath -overlay=" + s.overlay(),
	}
	if err := s.shared.set(0); err != nil {
		return nil, err
	}
	if err := s.compile(ctx); err != nil {
		return nil, err
	}
	if err := s.baseline(ctx); err != nil {
		return nil, err
	}
	return s, s.measure(ctx)
}

func (s *suite) overlay() string { return filepath.Join(s.box.work, "overlay.json") }
func (s *suite) binary() string  { return filepath.Join(s.box.work, "package.test") }

// compile builds the test binary; mutants on a line that does not compile are
// left out until it does.
func (s *suite) compile(ctx context.Context) error {
	for range 30 {
		if err := s.write(); err != nil {
			return err
		}
		_ = os.Remove(s.binary())
		out, err := s.box.run(ctx, s.pkg.Dir, s.env, 20*time.Minute, "go", "test", "-c", "-gcflags=-e", "-o", s.binary(), ".")
		if err == nil {
			if _, err := os.Stat(s.binary()); err != nil {
				return errNoTests
			}
			return nil
		}
		if !s.drop(out) {
			return fmt.Errorf("its tests do not compile with the mutants: %w\n%s", err, out)
		}
	}
	return errors.New("its tests do not compile with the mutants")
}

var errNoTests = errors.New("it has no tests")

// write makes the overlay.
func (s *suite) write() error {
	replace := map[string]string{}
	put := func(path, text string) error {
		replace[path] = filepath.Join(s.box.work, filepath.Base(path))
		return os.WriteFile(replace[path], []byte(text), 0o644)
	}
	for _, file := range s.pkg.files {
		var here []mutant
		for _, m := range s.mutants {
			if slices.Contains(file.sites, m.site) {
				here = append(here, m)
			}
		}
		if len(here) > 0 {
			if err := put(file.path, rewrite(file.text, file.nameEnd, file.imports, here)); err != nil {
				return err
			}
		}
	}
	if err := put(filepath.Join(s.pkg.Dir, "zz_mutate_switch.go"), s.shared.source(s.pkg.Name)); err != nil {
		return err
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(s.overlay(), data, 0o644)
}

var compileError = regexp.MustCompile(`(?m)^(?:\S*/)?([^/\s:]+\.go):(\d+):\d+: `)

// drop takes out the mutants on the lines that a compiler complains of.
func (s *suite) drop(output []byte) bool {
	bad := map[string]bool{}
	for _, match := range compileError.FindAllSubmatch(output, -1) {
		bad[string(match[1])+":"+string(match[2])] = true
	}
	before := len(s.mutants)
	s.mutants = slices.DeleteFunc(s.mutants, func(m mutant) bool {
		complained := bad[filepath.Base(m.File)+":"+strconv.Itoa(m.Line)]
		if complained {
			s.unbuilt = append(s.unbuilt, m)
		}
		return complained
	})
	return len(s.mutants) < before
}

// run runs the tests that a pattern names, with one mutant on, or none.
func (s *suite) run(ctx context.Context, number int, limit time.Duration, pattern string, args ...string) ([]byte, error) {
	if err := s.shared.set(number); err != nil {
		return nil, err
	}
	args = append([]string{s.binary(), "-test.timeout=" + limit.String(), "-test.run=" + pattern}, args...)
	if len(s.failing) > 0 {
		args = append(args, "-test.skip="+strings.Join(s.failing, "|"))
	}
	return s.box.run(ctx, s.pkg.Dir, s.env, limit+10*time.Second, args...)
}

const baselineLimit = 20 * time.Minute

// baseline runs all tests without a mutant, until those that fail are known.
func (s *suite) baseline(ctx context.Context) error {
	for range 5 {
		out, err := s.run(ctx, 0, baselineLimit, ".", "-test.v")
		ended := parseResults(out)
		if err == nil {
			if s.whole, err = s.shared.reached(); err != nil {
				return err
			}
			s.units = units(ended)
			return nil
		}
		failed := leaves(ended)
		if len(failed) == 0 || ctx.Err() != nil {
			return fmt.Errorf("its tests do not pass without a mutant: %w\n%s", err, tail(out, 3000))
		}
		s.failing = append(s.failing, failed...)
	}
	return fmt.Errorf("its tests do not pass without a mutant: %q", s.failing)
}

func tail(text []byte, n int) []byte { return text[max(0, len(text)-n):] }

// ended is how a test ended that go test -v told of.
type ended struct {
	name   string
	depth  int
	failed bool
	took   time.Duration
}

var resultLine = regexp.MustCompile(`^( *)--- (PASS|FAIL|SKIP): (\S+) \(([0-9.]+)s\)`)

func parseResults(out []byte) (list []ended) {
	for line := range bytes.Lines(out) {
		if m := resultLine.FindSubmatch(line); m != nil {
			seconds, _ := strconv.ParseFloat(string(m[4]), 64)
			list = append(list, ended{
				name: string(m[3]), depth: len(m[1]) / 4, failed: string(m[2]) == "FAIL",
				took: time.Duration(seconds * float64(time.Second)),
			})
		}
	}
	return list
}

// exactly is the pattern for -test.run and -test.skip that names one test.
func exactly(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// leaves are the failed tests that none of their subtests made fail.
func leaves(list []ended) (patterns []string) {
	for _, t := range list {
		if t.failed && !slices.ContainsFunc(list, func(sub ended) bool {
			return sub.failed && strings.HasPrefix(sub.name, t.name+"/")
		}) {
			patterns = append(patterns, exactly(t.name))
		}
	}
	return patterns
}

// long is the time from which the subtests of a test are run one by one.
const long = time.Second

func units(list []ended) (found []*unit) {
	for _, t := range list {
		if t.depth != 0 {
			continue
		}
		var subtests []*unit
		took := t.took // without that of subtests that ran beside each other
		for _, sub := range list {
			if sub.depth == 1 && strings.HasPrefix(sub.name, t.name+"/") {
				subtests = append(subtests, &unit{pattern: exactly(sub.name)})
				took += sub.took
			}
		}
		if took >= long && len(subtests) > 1 {
			found = append(found, subtests...)
		} else {
			found = append(found, &unit{pattern: exactly(t.name)})
		}
	}
	return found
}

// measure runs each unit alone. One that fails so is left out: which mutants
// it reaches, the tests as a whole tell.
func (s *suite) measure(ctx context.Context) (err error) {
	if _, err := s.run(ctx, 0, baselineLimit, "^$"); err != nil {
		return err
	}
	if s.always, err = s.shared.reached(); err != nil {
		return err
	}
	var alone []*unit
	for _, u := range s.units {
		begin := time.Now()
		if _, err := s.run(ctx, 0, baselineLimit, u.pattern); ctx.Err() != nil {
			return context.Cause(ctx)
		} else if err != nil {
			continue
		}
		u.took = time.Since(begin)
		if u.reached, err = s.shared.reached(); err != nil {
			return err
		}
		alone = append(alone, u)
	}
	slices.SortStableFunc(alone, func(a, b *unit) int { return int(a.took - b.took) })
	s.units = alone
	return nil
}

// rounds are the tests for a mutant, the fast ones first: there is no sense in
// knowing how a mutant that a short test kills fares in a long one. There are
// none if no test reaches it.
func (s *suite) rounds(number int) (rounds []round) {
	if s.always[number] {
		return []round{{pattern: ".", took: s.total()}}
	}
	var r round
	most := 300 * time.Millisecond
	for _, u := range s.units { // the fast ones first
		if !u.reached[number] {
			continue
		}
		if r.pattern != "" && r.took+u.took > most {
			rounds = append(rounds, r)
			r = round{}
			most *= 10
		}
		r.add(u)
	}
	if r.pattern != "" {
		return append(rounds, r)
	}
	if s.whole[number] {
		return []round{{pattern: ".", took: s.total()}}
	}
	return nil
}

type round struct {
	pattern string
	took    time.Duration
}

func (r *round) add(u *unit) {
	if r.pattern != "" {
		r.pattern += "|"
	}
	r.pattern += u.pattern
	r.took += u.took
}

func (s *suite) total() (sum time.Duration) {
	for _, u := range s.units {
		sum += u.took
	}
	return sum
}

// How a mutant ended.
const (
	killed     = "killed"
	timedOut   = "timed out" // killed, too
	survived   = "survived"
	notReached = "not reached" // survived, too
	notBuilt   = "not built"   // counts for nothing
)

// try runs the tests that reach a mutant, with it on.
func (s *suite) try(ctx context.Context, m mutant, limit time.Duration) (string, error) {
	rounds := s.rounds(m.number)
	if len(rounds) == 0 {
		return notReached, nil
	}
	for _, r := range rounds {
		limit := min(limit, 5*time.Second+10*r.took)
		out, err := s.run(ctx, m.number, limit, r.pattern, "-test.failfast")
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case errors.Is(err, errTimeout) || bytes.Contains(out, []byte("panic: test timed out after ")):
			return timedOut, nil
		case err != nil:
			return killed, nil
		}
	}
	return survived, nil
}
