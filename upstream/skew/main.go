// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command skew asks several releases of the kubelet the same questions, and
// regcred too, which is told which of them it is to judge for. Each kubelet is a
// process of its own, built with its release's libraries and Go settings, so
// that none of these meets regcred's. Run it in upstream/:
//
//	go run ./skew                        all releases, 20,000 inputs of a kind
//	go run ./skew -kubelet 1.33.13       one of them
//	go run ./skew -record                and write testdata/parity/skew.json
//	go run ./skew -check                 and fail if that file says something else
//
// A kubelet that says something else than regcred does is a failure, unless it
// is a difference that docs/project/parity.md lists.
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

// releases are what is asked: of each minor release one, from the oldest to the newest.
const releases = "1.33.13,1.34.4,1.35.4,1.36.3,1.37.2"

// oldest is the oldest minor release that package kubelet is written for.
const oldest = 33

// options are what the flags say.
type options struct {
	kubelets      []string
	seed          uint64
	scale         float64
	record, check bool
	output        string
	vectors       string
	rest          []string // behind the flags
}

// parse reads the flags.
func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("skew", flag.ExitOnError)
	list := f.String("kubelet", releases, "ask these `releases`, with commas between them")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the generators")
	f.Float64Var(&o.scale, "scale", 1, "how many times the usual number of inputs")
	f.BoolVar(&o.record, "record", false, "write what differs")
	f.BoolVar(&o.check, "check", false, "fail if what differs is not what is recorded")
	f.StringVar(&o.output, "o", "text", "output `format`: text or json")
	f.StringVar(&o.vectors, "vectors", filepath.Join("..", "testdata", "parity"), "the vectors' `directory`")
	_ = f.Parse(args) // which exits
	o.rest = f.Args()
	for version := range strings.SplitSeq(*list, ",") {
		o.kubelets = append(o.kubelets, strings.TrimPrefix(version, "v"))
	}
	return o, o.valid()
}

// valid refuses what would be a run that compares less than it seems to.
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
		err = errors.New("interrupted") // whatever that broke
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "skew:", err)
		os.Exit(1)
	}
}

// run asks all releases. What can be found wrong is, before the first is asked:
// to ask them takes many minutes.
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

// open finds the releases.
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

// one asks one release.
func one(ctx context.Context, r *release.Release, opts options, base baseline, recorded *recording) (k kubeletReport, err error) {
	fmt.Fprintln(os.Stderr, "skew: asking kubelet", r.Version)
	dir, err := os.MkdirTemp("", "skew")
	if err != nil {
		return k, err
	}
	defer os.RemoveAll(dir) // with what an oracle leaves that was killed
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
