// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"io"
	"math"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// pullProgress shows which images are being pulled into a runtime, and how
// many are done. CRI tells no more: neither bytes nor layers. Without a
// terminal it does nothing.
type pullProgress struct {
	out   *mpb.Progress
	total *mpb.Bar
}

func (a *app) newPullProgress(ctx context.Context, images int) *pullProgress {
	f := a.progressTerminal()
	if f == nil {
		return &pullProgress{}
	}
	// A terminal shows ^C where the cursor is, and what is drawn is cleared
	// from the cursor's column on.
	context.AfterFunc(ctx, func() { io.WriteString(f, "\r") })
	p := &pullProgress{out: mpb.New(mpb.WithOutput(f), mpb.WithWidth(60))}
	p.total = p.out.AddBar(int64(images),
		mpb.BarPriority(math.MaxInt), // below the others
		mpb.BarRemoveOnComplete(),
		mpb.AppendDecorators(decor.CountersNoUnit("%d of %d images")))
	return p
}

// begin shows an image until the function that it returns is called.
func (p *pullProgress) begin(image string) (end func()) {
	if p.out == nil {
		return func() {}
	}
	bar := p.out.New(1, mpb.SpinnerStyle(), mpb.BarWidth(1),
		mpb.AppendDecorators(decor.Name(printable(image)+" "), decor.Elapsed(decor.ET_STYLE_GO)))
	return func() {
		bar.Abort(true)
		p.total.Increment()
	}
}

// above returns a writer for whole lines, which go above what is drawn if w
// is the terminal.
func (p *pullProgress) above(w io.Writer) io.Writer {
	if p.out == nil || !isTerminal(w) {
		return w
	}
	return p.out
}

// close takes away what is drawn.
func (p *pullProgress) close() {
	if p.out == nil {
		return
	}
	p.total.Abort(true)
	p.out.Wait()
}
