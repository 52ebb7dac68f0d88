// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command skew sends the same inputs to several releases of the kubelet and to regcred, and
// compares the results. regcred gets the release as its target. Each kubelet runs in its own
// process, which is built with its release's libraries and Go settings, so that these do not affect
// regcred. Run it in upstream/:
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

// defaultReleases lists the releases to compare: one per minor release, oldest first.
const defaultReleases = "1.33.13,1.34.4,1.35.4,1.36.3,1.37.2"

// oldestMinor is the oldest minor release that package kubelet supports.
const oldestMinor = 33

// options holds the flags.
type options struct {
	kubelets      []string
	seed          uint64
	scale         float64
	record, check bool
	output        string
	vectors       string
	rest          []string // arguments after the flags
}

// parseFlags parses the flags.
func parseFlags(args []string) (o options, err error) {
	f := flag.NewFlagSet("skew", flag.ExitOnError)
	list := f.String("kubelet", defaultReleases, "ask these `releases`, with commas between them")
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
	return o, o.validate()
}

// validate rejects options with which a run would compare less than the user expects.
func (o options) validate() error {
	usual := strings.Join(o.kubelets, ",") == defaultReleases && o.seed == 1 && o.scale == 1
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
		if _, err := fmt.Sscanf(version, "1.%d.", &minor); err == nil && minor < oldestMinor {
			return fmt.Errorf("release %s: older than 1.%d, the oldest supported release", version, oldestMinor)
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
	o, err := parseFlags(os.Args[1:])
	if err == nil {
		err = compareReleases(ctx, os.Stdout, o)
	}
	if err != nil && ctx.Err() != nil {
		err = errors.New("interrupted") // instead of the errors that the interruption has caused
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "skew:", err)
		os.Exit(1)
	}
}

// compareReleases compares all releases. It detects errors before the first comparison if possible, because the
// comparisons take many minutes.
func compareReleases(ctx context.Context, w io.Writer, opts options) error {
	kubelet.DisableLog() // this process uses the kubelet's types
	base, err := loadBaselineVectors(opts.vectors)
	if err != nil {
		return err
	}
	path := filepath.Join(opts.vectors, "skew.json")
	var have *recordFile
	switch {
	case opts.record:
		err = checkWritable(opts.vectors)
	case opts.check:
		have, err = loadRecordFile(path)
	}
	if err != nil {
		return err
	}
	list, err := openReleases(ctx, opts.kubelets)
	if err != nil {
		return err
	}
	rep := &report{Seed: opts.seed, Scale: opts.scale}
	recorded := newRecording()
	for _, r := range list {
		k, err := compareRelease(ctx, r, opts, base, recorded)
		if err != nil {
			return err
		}
		rep.Kubelets = append(rep.Kubelets, k)
	}
	if err := rep.write(w, opts.output); err != nil {
		return err
	}
	if err := rep.disagreementError(); err != nil {
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

// openReleases opens the releases, and downloads them if necessary.
func openReleases(ctx context.Context, versions []string) (list []*release.Release, err error) {
	for _, version := range versions {
		r, err := release.OpenRelease(ctx, version)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// compareRelease compares one release of the kubelet with the baseline and with regcred.
func compareRelease(ctx context.Context, r *release.Release, opts options, base baselineVectors, recorded *recording) (k kubeletReport, err error) {
	fmt.Fprintln(os.Stderr, "skew: asking kubelet", r.Version)
	dir, err := os.MkdirTemp("", "skew")
	if err != nil {
		return k, err
	}
	defer os.RemoveAll(dir) // including files that a killed oracle left
	o, err := startKubeletProcess(ctx, r, dir)
	if err != nil {
		return k, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	k = kubeletReport{Build: o.build, Gates: o.gates}
	if k.Corpus, err = recorded.compareCorpus(o, base); err != nil {
		return k, err
	}
	s := &comparison{ctx: ctx, oracle: o, dir: dir}
	for _, c := range comparisonKinds {
		result, err := s.runComparisons(c, opts)
		if err != nil {
			return k, err
		}
		k.Generated = append(k.Generated, result)
	}
	return k, nil
}
