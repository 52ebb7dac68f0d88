// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tiny is a module with a mutant of each fate.
var tiny = map[string]string{
	"go.mod": "module example.test/tiny\n\ngo 1.26\n",
	"tiny.go": `package tiny

func AtLeastThree(n int) bool { return n >= 3 }

func Far(n int) bool {
	return n > 1000
}

func Never() int { return 7 }

func Child() string { return "child" }

func Count(n int) (i int) {
	for i < n {
		i++
	}
	return i
}
`,
	"tiny_test.go": `package tiny

import (
	"os"
	"os/exec"
	"testing"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "child" {
		os.Stdout.WriteString(Child())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestAtLeastThree(t *testing.T) {
	for n, want := range []bool{false, false, false, true, true} {
		if AtLeastThree(n) != want {
			t.Error(n)
		}
	}
}

func TestFar(t *testing.T) {
	if Far(1) || !Far(2000) {
		t.Error()
	}
}

// Another process, whose environment is empty, is mutated too.
func TestChild(t *testing.T) {
	cmd := exec.Command(os.Args[0], "child")
	cmd.Env = []string{"NOTHING=1"}
	if out, err := cmd.Output(); err != nil || string(out) != "child" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestCount(t *testing.T) {
	if Count(3) != 3 {
		t.Error()
	}
}

// A test that fails without a mutant kills none.
func TestInTheWay(t *testing.T) {
	t.Run("passes", func(*testing.T) {})
	t.Run("fails", func(t *testing.T) {
		if Never() == 7 {
			t.Error()
		}
	})
}
`,
}

func writeModule(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("GOFLAGS", "")
	return dir
}

// mutants runs the command and returns its report.
func mutants(t *testing.T, args ...string) report {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), append([]string{"-o", "json"}, args...), &stdout, &stderr); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr.Bytes())
	}
	var r report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) > 0 {
		t.Errorf("%q is left in the temporary directory (%v)", left, err)
	}
	return r
}

func lines(r report) (list []string) {
	for _, p := range r.Packages {
		for _, s := range p.Survivors {
			list = append(list, fmt.Sprintf("%s:%d %s: %s → %s %v", s.File, s.Line, s.Operator, s.Before, s.After, s.Reached))
		}
	}
	return list
}

func TestFates(t *testing.T) {
	dir := writeModule(t, tiny)
	state := filepath.Join(t.TempDir(), "state")
	r := mutants(t, "-C", dir, "-timeout", "2s", "-state", state, "./...")
	want := []string{
		"tiny.go:6 boundary: n > 1000 → >= true",
		"tiny.go:6 constant: 1000 → +1 true",
		"tiny.go:9 constant: 7 → +1 false",
		"tiny.go:9 constant: 7 → -1 false",
	}
	if diff := cmp.Diff(want, lines(r)); diff != "" {
		t.Errorf("survivors (-want +got):\n%s", diff)
	}
	p := r.Packages[0]
	if p.Mutants != 13 || p.Killed != 9 || p.TimedOut != 1 || p.Survived != 4 || p.NotReached != 2 || p.NotBuilt != 0 {
		t.Errorf("%+v", p)
	}
	if diff := cmp.Diff([]string{"^TestInTheWay$/^fails$"}, p.FailingTests); diff != "" {
		t.Errorf("skipped tests (-want +got):\n%s", diff)
	}
	// A second run has nothing to do, and says the same.
	before, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	again := mutants(t, "-C", dir, "-state", state, "./...")
	if diff := cmp.Diff(lines(r), lines(again)); diff != "" {
		t.Errorf("the second run (-first +second):\n%s", diff)
	}
	if after, err := os.ReadFile(state); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the second run tried something: %v\n%s", err, after)
	}
}

func TestDraw(t *testing.T) {
	dir := writeModule(t, tiny)
	packages, err := load(t.Context(), dir, []string{"./..."})
	if err != nil {
		t.Fatal(err)
	}
	drawn := func(o options) (list []string) {
		for _, sites := range new(report).draw(packages, o) {
			for _, s := range sites {
				list = append(list, fmt.Sprint(s.Line, s.Column, s.Operator, s.After))
			}
		}
		return list
	}
	if a, b := drawn(options{draw: 5, seed: 1}), drawn(options{draw: 5, seed: 1}); len(a) != 5 || !cmp.Equal(a, b) {
		t.Errorf("one seed, two drawings: %q, %q", a, b)
	}
	if a, b := drawn(options{draw: 5, seed: 1}), drawn(options{draw: 5, seed: 2}); cmp.Equal(a, b) {
		t.Errorf("two seeds, one drawing: %q", a)
	}
	if got := drawn(options{files: []string{"other.go"}}); len(got) > 0 {
		t.Errorf("of another file: %q", got)
	}
}

// TestOperators: what every operator makes compiles, and changes nothing
// while it is off; each is killed here.
func TestOperators(t *testing.T) {
	dir := writeModule(t, map[string]string{
		"go.mod":      tiny["go.mod"],
		"all.go":      allOperators,
		"all_test.go": allOperatorsTest,
	})
	r := mutants(t, "-C", dir, ".")
	p := r.Packages[0]
	for _, s := range p.Unbuilt {
		t.Errorf("does not compile: %d:%d %s: %s → %s", s.Line, s.Column, s.Operator, s.Before, s.After)
	}
	for _, line := range lines(r) {
		t.Errorf("survived: %s", line)
	}
	if len(p.FailingTests) > 0 {
		t.Errorf("while all are off: %q fail", p.FailingTests)
	}
	packages, err := load(t.Context(), dir, []string{"."})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, s := range packages[0].files[0].sites {
		seen[s.Operator] = true
	}
	for _, operator := range []string{
		"negate", "logic", "boundary", "arithmetic", "constant", "return zero", "drop case", "remove call",
		"remove assignment", "remove statement", "remove defer", "remove break", "remove continue",
	} {
		if !seen[operator] {
			t.Errorf("the text has no site for %q", operator)
		}
	}
}

const allOperators = `package tiny

import (
	"errors"
	"fmt"
	str "strings"
	"time"
)

type level uint8

const high level = 3

var pause = 2 * time.Second

type named string

func calls(log *[]string, ok bool) (n int, err error) {
	defer func() { *log = append(*log, "end") }()
	add := func(s string) { *log = append(*log, s) }
	add("begin")
	if err = check(ok); err != nil {
		return 0, fmt.Errorf("calls: %w", err)
	}
	n = 4
	n++
	n += 2
	n -= 1
	return n * 3 / 2 % 5, nil
}

func check(ok bool) error {
	if !ok {
		return errors.New("no")
	}
	return nil
}

func pair(ok bool) (int, error) { return calls(new([]string), ok) }

func logic(a, b, c bool) bool { return a && b || !c }

func which(l level, s named) string {
	switch l {
	case 1, 2:
		return "low"
	case high:
		return "high"
	}
	switch s := str.ToLower(string(s)); s {
	case "x":
		return "ex"
	}
	switch len(s) + 1 {
	case 2:
		return "one"
	default:
		return "more"
	}
}

func bits(a, b uint8) [6]uint8 { return [6]uint8{a & b, a | b, a ^ b, a &^ b, a << 1, b >> 1} }

func loop(list []int) (sum int) {
	for _, n := range list {
		if n < 0 {
			continue
		}
		if n > 9 {
			break
		}
		sum = sum*10 + n
	}
	return
}

func generic[T any](list []T, none T) T {
	if len(list) <= 1 {
		return none
	}
	return list[1]
}

var table = map[string]struct{ on bool }{"a": {on: true}}
`

const allOperatorsTest = `package tiny

import (
	"fmt"
	"strings"
	"testing"
)

func TestAll(t *testing.T) {
	var b strings.Builder
	log := []string{}
	fmt.Fprintln(&b, pause, table)
	for _, ok := range []bool{true, false} {
		n, err := calls(&log, ok)
		fmt.Fprintln(&b, n, err, log)
		n, err = pair(ok)
		fmt.Fprintln(&b, n, err)
	}
	for i := range 8 {
		fmt.Fprint(&b, logic(i&1 > 0, i&2 > 0, i&4 > 0), " ")
	}
	for l := range level(5) {
		fmt.Fprint(&b, which(l, "X"), which(l, "y"), which(l, "zz"), " ")
	}
	fmt.Fprintln(&b, bits(0b1100, 0b1010), loop([]int{1, -1, 0, 9, 10, 2}), generic([]int{5}, 6), generic([]int{5, 7}, 6), generic([]int{5, 7, 8}, 6))
	const want = "2s map[a:{true}]\n4 <nil> [begin end]\n4 <nil>\n0 calls: no [begin end begin end]\n0 calls: no\n" +
		"true true true true false false false true exonemore lowlowlow lowlowlow highhighhigh exonemore " +
		"[8 14 6 4 24 5] 109 6 7 7\n"
	if got := b.String(); got != want {
		t.Errorf("%q", got)
	}
}
`

// TestInterrupted: whoever stops it finds nothing left, and the state has
// what was tried.
func TestInterrupted(t *testing.T) {
	dir := writeModule(t, tiny)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout bytes.Buffer
	// The first thing it says is said when the sandbox is there.
	stop := writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	if code := run(ctx, []string{"-C", dir, "."}, &stdout, stop); code != 1 {
		t.Errorf("exit %d", code)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("%q is left in the temporary directory (%v)", left, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"-o", "yaml", "."}, {"-n", "-1", "."}, {"-nothing"}} {
		if code := run(t.Context(), args, io.Discard, io.Discard); code != 2 {
			t.Errorf("%q: exit %d", args, code)
		}
	}
	var stderr strings.Builder
	if code := run(t.Context(), []string{"-C", t.TempDir(), "."}, io.Discard, &stderr); code != 1 || stderr.Len() == 0 {
		t.Errorf("no module: exit %d, %q", code, &stderr)
	}
}
