// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command skew sends the same inputs to several releases of the kubelet and to regcred,
// which gets the release as its target. Each kubelet runs in its own process, built with
// its release's libraries and Go settings, so that these do not affect regcred. Run it in
// upstream/:
//
//	go run ./skew                        all releases, 20,000 inputs of each kind
//	go run ./skew -kubelet 1.33.13       one release
//	go run ./skew -record                also write testdata/parity/skew.json
//	go run ./skew -check                 also fail if that file differs
//
// The run fails if a kubelet and regcred differ, unless docs/project/parity.md lists the
// difference.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/regcred/regcred/upstream/kubelet"
	"github.com/regcred/regcred/upstream/release"
)

// releases lists the releases to compare: one per minor release, oldest first.
const releases = "1.33.13,1.34.4,1.35.4,1.36.3,1.37.2"

// oldest is the oldest minor release that package kubelet supports.
const oldest = 33

// options holds the flags.
type options struct {
	kubelets      []string
	seed          uint64
	scale         float64
	record, check bool
	output        string
	vectors       string
	rest          []string // after the flags
}

// parse parses the flags.
func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("skew", flag.ExitOnError)
	list := f.String("kubelet", releases, "ask these `releases`, with commas between them")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the generators")
	f.Float64Var(&o.scale, "scale", 1, "how many times the usual number of inputs")
	f.BoolVar(&o.record, "record", false, "write what differs")
	f.BoolVar(&o.check, "check", false, "fail if what differs is not what is recorded")
	f.StringVar(&o.output, "o", "text", "output `format`: text or json")
	f.StringVar(&o.vectors, "vectors", filepath.Join("..", "testdata", "parity"), "the vectors' `directory`")
	_ = f.Parse(args) // exits on error
	o.rest = f.Args()
	for version := range strings.SplitSeq(*list, ",") {
		o.kubelets = append(o.kubelets, strings.TrimPrefix(version, "v"))
	}
	return o, o.valid()
}

// valid rejects options with which a run would compare less than it appears to.
func (o options) valid() error {
	usual := strings.Join(o.kubelets, ",") == releases && o.seed == 1 && o.scale == 1
	switch {
	case len(o.rest) > 0:
		return fmt.Errorf("argument %q: there are flags only, and -kubelet has no blanks in it", o.rest[0])
	case o.output != "text" && o.output != "json":
		return fmt.Errorf("output format %q: it is text or json", o.output)
	case !(o.scale > 0 && o.scale <= 1000):
		return fmt.Errorf("scale %v: it is more than 0, and 1000 at most", o.scale)
	case o.record && o.check:
		return errors.New("-record writes what -check compares with: leave out one of them")
	case o.record && !usual:
		return errors.New("-record is of all releases and of the usual inputs: leave out -kubelet, -seed and -scale")
	}
	for i, version := range o.kubelets {
		minor := 0
		if _, err := fmt.Sscanf(version, "1.%d.", &minor); err == nil && minor < oldest {
			return fmt.Errorf("release %s: older than 1.%d, the oldest supported release", version, oldest)
		}
		if slices.Contains(o.kubelets[:i], version) {
			return fmt.Errorf("release %s is there twice", version)
		}
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, os.Stdout, o)
	}
	if err != nil && ctx.Err() != nil {
		err = errors.New("interrupted") // whatever failed because of it
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "skew:", err)
		os.Exit(1)
	}
}

// run compares all releases. It checks for errors before the first comparison, because
// the comparisons take many minutes.
func run(ctx context.Context, w io.Writer, opts options) error {
	kubelet.Silence() // its types are used here
	base, err := loadBaseline(opts.vectors)
	if err != nil {
		return err
	}
	path := filepath.Join(opts.vectors, "skew.json")
	var have *file
	switch {
	case opts.record:
		err = writable(opts.vectors)
	case opts.check:
		have, err = loadFile(path)
	}
	if err != nil {
		return err
	}
	list, err := open(ctx, opts.kubelets)
	if err != nil {
		return err
	}
	rep := &report{Seed: opts.seed, Scale: opts.scale}
	recorded := newRecording()
	for _, r := range list {
		k, err := one(ctx, r, opts, base, recorded)
		if err != nil {
			return err
		}
		rep.Kubelets = append(rep.Kubelets, k)
	}
	if err := rep.write(w, opts.output); err != nil {
		return err
	}
	if err := rep.err(); err != nil {
		return err
	}
	switch {
	case opts.record:
		return recorded.write(path, rep)
	case opts.check:
		return recorded.compare(have, rep)
	}
	return nil
}

// open locates the releases.
func open(ctx context.Context, versions []string) (list []*release.Release, err error) {
	for _, version := range versions {
		r, err := release.Open(ctx, version)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// one compares one release.
func one(ctx context.Context, r *release.Release, opts options, base baseline, recorded *recording) (k kubeletReport, err error) {
	fmt.Fprintln(os.Stderr, "skew: asking kubelet", r.Version)
	dir, err := os.MkdirTemp("", "skew")
	if err != nil {
		return k, err
	}
	defer os.RemoveAll(dir) // including files that a killed oracle left
	o, err := start(ctx, r, dir)
	if err != nil {
		return k, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	k = kubeletReport{Build: o.build, Gates: o.gates}
	if k.Corpus, err = recorded.compareCorpus(o, base); err != nil {
		return k, err
	}
	s := &sides{ctx: ctx, oracle: o, dir: dir}
	for _, c := range checks {
		result, err := s.check(c, opts)
		if err != nil {
			return k, err
		}
		k.Generated = append(k.Generated, result)
	}
	return k, nil
}
