// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package terminal

import (
	"context"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// Progress displays are drawn on standard error if it is a terminal. Their Close methods remove
// them. All methods are safe for concurrent use.

// newProgress returns the container for progress bars, or nil if no progress is to be drawn.
func (t *Terminal) newProgress() *mpb.Progress {
	if asTerminal(t.Stderr) == nil || t.isDumb() || t.Quiet {
		return nil
	}
	return mpb.New(mpb.WithOutput(t.Stderr), mpb.WithWidth(60))
}

// singleBar is a progress display with one bar. If out is nil, it draws nothing.
type singleBar struct {
	out *mpb.Progress
	bar *mpb.Bar
}

// Close removes the bar.
func (b *singleBar) Close() {
	if b.out != nil {
		b.bar.Abort(true)
		b.out.Wait()
	}
}

// LayerProgress draws one bar per download. The zero value draws nothing.
type LayerProgress struct {
	out *mpb.Progress

	mu   sync.Mutex
	bars map[string]*mpb.Bar // by digest
}

// NewLayerProgress starts drawing downloads.
func (t *Terminal) NewLayerProgress() *LayerProgress {
	return &LayerProgress{out: t.newProgress(), bars: map[string]*mpb.Bar{}}
}

// Queue adds or restarts a download with a size in bytes.
func (l *LayerProgress) Queue(what, digest string, size int64) {
	l.withBar(digest, func(bar *mpb.Bar) {
		if bar != nil {
			bar.Abort(true)
		}
		l.bars[digest] = l.out.AddBar(size,
			mpb.PrependDecorators(decor.Name(escapeLine(what+" "+shortDigest(digest)), decor.WCSyncSpaceR)),
			mpb.AppendDecorators(decor.OnComplete(decor.CountersKibiByte("% .1f / % .1f", decor.WCSyncSpace), "done")),
		)
	})
}

// SetBytes sets the number of bytes received for a download.
func (l *LayerProgress) SetBytes(digest string, n int64) {
	l.withBar(digest, func(bar *mpb.Bar) { bar.SetCurrent(n) })
}

// Done marks a download as complete.
func (l *LayerProgress) Done(digest string, size int64) {
	l.withBar(digest, func(bar *mpb.Bar) { bar.SetTotal(size, true) })
}

func (l *LayerProgress) withBar(digest string, do func(*mpb.Bar)) {
	if l.out == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	do(l.bars[digest])
}

// Close removes the bars.
func (l *LayerProgress) Close() {
	if l.out == nil {
		return
	}
	l.mu.Lock()
	for _, bar := range l.bars {
		bar.Abort(true)
	}
	l.mu.Unlock()
	l.out.Wait()
}

// shortDigest shortens a digest as docker does.
func shortDigest(digest string) string {
	_, hex, _ := strings.Cut(digest, ":")
	return hex[:min(12, len(hex))]
}

// CheckProgress draws one bar for a series of checks, with the name of the running check.
type CheckProgress struct {
	singleBar
	running atomic.Value // string
}

// NewCheckProgress starts drawing checks, whose names have at most width columns.
func (t *Terminal) NewCheckProgress(width int) *CheckProgress {
	c := &CheckProgress{singleBar: singleBar{out: t.newProgress()}}
	if c.out != nil {
		c.addBar(width)
	}
	return c
}

func (c *CheckProgress) addBar(width int) {
	c.running.Store("")
	c.bar = c.out.AddBar(0,
		mpb.PrependDecorators(decor.CountersNoUnit("check %d of %d")),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return c.running.Load().(string) }, decor.WC{W: width, C: decor.DindentRight})),
	)
}

// Update sets how many checks are done, and which one runs.
func (c *CheckProgress) Update(done, total int, name string) {
	if c.out == nil {
		return
	}
	c.running.Store(escapeLine(name))
	c.bar.SetTotal(int64(total), false)
	c.bar.SetCurrent(int64(done))
}

// CounterProgress draws one bar with the number of finished items.
type CounterProgress struct{ singleBar }

// NewCounterProgress starts drawing how many items are finished. format is for example "node %d of
// %d".
func (t *Terminal) NewCounterProgress(format string) *CounterProgress {
	c := &CounterProgress{singleBar{out: t.newProgress()}}
	if c.out != nil {
		c.bar = c.out.AddBar(0, mpb.AppendDecorators(decor.CountersNoUnit(format)))
	}
	return c
}

// Increment counts one more finished item.
func (c *CounterProgress) Increment(total int) {
	if c.out == nil {
		return
	}
	c.bar.SetTotal(int64(total), false)
	c.bar.Increment()
}

// ImageProgress shows which images are being pulled when neither bytes nor layers are known.
type ImageProgress struct{ singleBar }

// NewImageProgress starts drawing n pulls. When ctx ends, it hides a ^C that the terminal echoed.
func (t *Terminal) NewImageProgress(ctx context.Context, n int) *ImageProgress {
	p := &ImageProgress{singleBar{out: t.newProgress()}}
	if p.out == nil {
		return p
	}
	// The terminal echoes ^C at the cursor. The bars are cleared from the cursor's column on, so
	// move the cursor to the first column.
	context.AfterFunc(ctx, func() { io.WriteString(t.Stderr, "\r") })
	p.addTotalBar(n)
	return p
}

func (p *ImageProgress) addTotalBar(n int) {
	p.bar = p.out.AddBar(int64(n),
		mpb.BarPriority(math.MaxInt), // below the bars of the images
		mpb.BarRemoveOnComplete(),
		mpb.AppendDecorators(decor.CountersNoUnit("%d of %d images")))
}

// Show shows an image until the returned function is called.
func (p *ImageProgress) Show(image string) (end func()) {
	if p.out == nil {
		return func() {}
	}
	bar := p.out.New(1, mpb.SpinnerStyle(), mpb.BarWidth(1),
		mpb.AppendDecorators(decor.Name(escapeLine(image)+" "), decor.Elapsed(decor.ET_STYLE_GO)))
	return func() {
		bar.Abort(true)
		p.bar.Increment()
	}
}

// WriterAbove returns a writer for complete lines. If w is the terminal, the lines appear
// above the bars.
func (p *ImageProgress) WriterAbove(w io.Writer) io.Writer {
	if p.out == nil || asTerminal(w) == nil {
		return w
	}
	return p.out
}
