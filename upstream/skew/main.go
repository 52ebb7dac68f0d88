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
// is a difference that docs/parity.md lists.
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
	"strings"

	"github.com/regcred/regcred/upstream/kubelet"
)

// releases are what is asked: the oldest that can be had as a Go module with
// all that belongs to it, to the newest.
const releases = "1.33.13,1.34.4,1.35.4,1.36.3,1.37.2"

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

// valid refuses what would be a run that compares less than it seems to.
func (o options) valid() error {
	switch {
	case len(o.rest) > 0:
		return fmt.Errorf("argument %q: there are flags only, and -kubelet has no blanks in it", o.rest[0])
	case o.output != "text" && o.output != "json":
		return fmt.Errorf("output format %q: it is text or json", o.output)
	case !(o.scale > 0 && o.scale <= 1000):
		return fmt.Errorf("scale %v: it is more than 0, and 1000 at most", o.scale)
	}
	return nil
}

func main() {
	var o options
	list := flag.String("kubelet", releases, "ask these `releases`, with commas between them")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the generators")
	flag.Float64Var(&o.scale, "scale", 1, "how many times the usual number of inputs")
	flag.BoolVar(&o.record, "record", false, "write what differs")
	flag.BoolVar(&o.check, "check", false, "fail if what differs is not what is recorded")
	flag.StringVar(&o.output, "o", "text", "output `format`: text or json")
	flag.StringVar(&o.vectors, "vectors", filepath.Join("..", "testdata", "parity"), "the vectors' `directory`")
	flag.Parse()
	o.kubelets, o.rest = strings.Split(*list, ","), flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "skew:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, opts options) error {
	if err := opts.valid(); err != nil {
		return err
	}
	kubelet.Silence() // its types are used here
	dir, err := os.MkdirTemp("", "skew")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	base, err := loadBaseline(opts.vectors)
	if err != nil {
		return err
	}
	rep := &report{Seed: opts.seed, Scale: opts.scale}
	recorded := newRecording()
	for _, version := range opts.kubelets {
		k, err := one(ctx, version, dir, opts, base, recorded)
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
	path := filepath.Join(opts.vectors, "skew.json")
	switch {
	case opts.record:
		return recorded.write(path, rep)
	case opts.check:
		return recorded.compare(path, rep)
	}
	return nil
}

// one asks one release.
func one(ctx context.Context, version, dir string, opts options, base baseline, recorded *recording) (k kubeletReport, err error) {
	o, err := start(ctx, version)
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
