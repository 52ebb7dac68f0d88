// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// checkProgress draws one bar for the checks of "regcred plugin test", with
// the check that runs, if standard error is a terminal.
type checkProgress struct {
	*progress
	running atomic.Pointer[string]
}

func (a *app) newCheckProgress() *checkProgress {
	return &checkProgress{progress: a.newProgress()}
}

// check is the Progress of plugintest.Options.
func (p *checkProgress) check(done, total int, id string) {
	if p.out == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running.Store(&id)
	bar := p.bars[""]
	if bar == nil {
		bar = p.out.AddBar(int64(total),
			mpb.PrependDecorators(decor.CountersNoUnit("check %d of %d")),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return *p.running.Load() }, decor.WC{W: idWidth(), C: decor.DindentRight})),
		)
		p.bars[""] = bar
	}
	bar.SetCurrent(int64(done))
}
