// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"io"
	"os"
	"strings"
	"sync"

	"github.com/regcred/regcred/internal/pull"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// progress draws a bar for each layer on standard error if that is a
// terminal; otherwise it does nothing.
type progress struct {
	out *mpb.Progress

	mu   sync.Mutex
	bars map[string]*mpb.Bar // by digest
}

func (a *app) newProgress() *progress {
	f := a.progressTerminal()
	if f == nil {
		return &progress{}
	}
	return &progress{out: mpb.New(mpb.WithOutput(f), mpb.WithWidth(60)), bars: map[string]*mpb.Bar{}}
}

// progressTerminal returns standard error if it is a terminal to draw on.
func (a *app) progressTerminal() *os.File {
	if !isTerminal(a.stderr) || lookupEnv(a.environ, "TERM") == "dumb" {
		return nil
	}
	return a.stderr.(*os.File)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// event takes a [pull.Event]; it is called from several goroutines.
func (p *progress) event(e pull.Event) {
	if p.out == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	bar := p.bars[e.Digest]
	switch e.Kind {
	case pull.EventQueued:
		if bar != nil {
			bar.Abort(true) // the next credential begins anew
		}
		p.bars[e.Digest] = p.add(e)
	case pull.EventAdvance, pull.EventRestart:
		bar.SetCurrent(e.Bytes)
	case pull.EventDone:
		bar.SetTotal(e.Size, true)
	}
}

func (p *progress) add(e pull.Event) *mpb.Bar {
	name := "layer "
	if e.Config {
		name = "config "
	}
	return p.out.AddBar(e.Size,
		mpb.PrependDecorators(decor.Name(name+shortDigest(e.Digest), decor.WCSyncSpaceR)),
		mpb.AppendDecorators(decor.OnComplete(decor.CountersKibiByte("% .1f / % .1f", decor.WCSyncSpace), "done")),
	)
}

// close ends the drawing; bars that are not done are taken away.
func (p *progress) close() {
	if p.out == nil {
		return
	}
	p.mu.Lock()
	for _, bar := range p.bars {
		bar.Abort(true)
	}
	p.mu.Unlock()
	p.out.Wait()
}

// shortDigest is what docker shows of a digest.
func shortDigest(digest string) string {
	_, hex, _ := strings.Cut(digest, ":")
	return hex[:min(12, len(hex))]
}
