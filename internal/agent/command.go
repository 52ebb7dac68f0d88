// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/scrub"
	"github.com/regcred/regcred/internal/shown"
)

// run runs regcred on the node and waits so long for it.
func (w work) run(ctx context.Context, within time.Duration, args ...string) (out []byte, code int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, &overdueError{args[0], within})
	defer cancel()
	out, code, err = w.Host.Run(ctx, args...)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return out, code, err
}

// overdueError means that a command was not waited for any longer.
type overdueError struct {
	command string
	within  time.Duration
}

func (e *overdueError) Error() string {
	return fmt.Sprintf("regcred %s is still running on the node after %v", e.command, e.within)
}

// installArgs are those beside the configuration.
func (w work) installArgs() []string {
	args := append(w.Install.args(), w.Install.where()...)
	return append([]string{"--bin-dir", w.Host.Path(pluginDir), "--dispatcher", w.Host.Path(dispatcherName), "--owner", w.Owner, "--hide-values", "-o", "json"}, args...)
}

// command is one that changes the node.
type command struct {
	args []string
	good []report.ChangeOutcome
}

func (w work) installs(more ...string) command {
	args := append([]string{"install", w.Host.Path(configDir)}, w.installArgs()...)
	return command{append(args, more...), []report.ChangeOutcome{report.ChangeInstalled, report.ChangeRolledBack, report.ChangeRepaired, report.ChangeUnchanged, report.ChangePlanned}}
}

// uninstalls may restart the kubelet, which would otherwise run what is not there any more.
func (w work) uninstalls() command {
	args := []string{"uninstall", "--restart", w.Install.timeout(), "--owner", w.Owner, "-o", "json"}
	return command{append(args, w.Install.where()...), []report.ChangeOutcome{report.ChangeUninstalled, report.ChangeUnchanged}}
}

// make makes a change of the node.
func (w work) make(ctx context.Context, c command) (*changeResponse, error) {
	w.publish(w.Install.within())
	out, code, err := w.run(ctx, w.Install.within(), c.args...)
	w.talked = true // as it may have
	if err != nil {
		return nil, err
	}
	a, err := decodeChange(c.args[0], out, code, c.good...)
	if err != nil {
		return nil, &unclearError{err}
	}
	return a, nil
}

// unclearError means that a change came to an end, and not to an answer that can be read.
type unclearError struct{ why error }

func (e *unclearError) Error() string { return e.why.Error() }

// look looks at the node and keeps what is said of it beside the phase.
func (w work) look(ctx context.Context) (*statusResponse, error) {
	return w.lookWithin(ctx, lookWithin)
}

// lookWithin is a look that first waits so long at most for what is under way there.
func (w work) lookWithin(ctx context.Context, within time.Duration) (*statusResponse, error) {
	out, code, err := w.run(ctx, within, append([]string{"status", "-o", "json", "--quiet"}, w.Install.where()...)...)
	if err != nil {
		return nil, err
	}
	a, err := decodeLook(out, code)
	if err != nil {
		return nil, err
	}
	w.missed, w.memory.Reached = 0, true
	w.mu.Lock()
	w.counts = a.Counts
	w.mu.Unlock()
	w.change(func(s *Status) {
		s.Kind, s.Kubelet, s.Generation, s.KubeletHas = a.Node.Kind, a.Node.Kubelet, *a.Current, a.KubeletHas
	})
	return a, nil
}

// words makes of a text of the node one of the pod: without secrets of the
// configuration, and with the paths that the chart's user knows.
func (w work) words(text string) string {
	text = scrub.Part(text, w.secrets(), false, false)
	for name, here := range map[string]string{configDir: w.Options.Config, pluginDir: w.Plugins} {
		text = strings.ReplaceAll(text, w.Host.Path(name)+"/", strings.TrimSuffix(here, "/")+"/")
	}
	return shown.Line(text)
}

// allWords is words of each text that is shown; the others are only counted.
func (w work) allWords(list []string) (texts []string) {
	for i, text := range list {
		if i < maxDrift {
			text = w.words(text)
		} else {
			text = "…"
		}
		texts = append(texts, text)
	}
	return texts
}

// minSecret is the length from which values of args and env count as secrets, as for
// package plugin: shorter ones are things like "true".
const minSecret = 8

// secrets are the values of args and env.
func (w work) secrets() (list []scrub.Secret) {
	if w.stage.cfg == nil {
		return nil
	}
	add := func(value, name string) {
		if len(value) >= minSecret && !strings.Contains(w.Install.Probe, value) {
			list = append(list, scrub.Secret{Text: value, Name: name})
		}
	}
	for i := range w.stage.cfg.Providers {
		p := &w.stage.cfg.Providers[i]
		for _, v := range p.Env {
			add(v.Value.Reveal(), fmt.Sprintf("env %s of provider %s", v.Name, p.Name))
		}
		for j, arg := range p.Arguments() {
			if strings.HasPrefix(arg, "-") { // of a flag, the value counts
				_, arg, _ = strings.Cut(arg, "=")
			}
			add(arg, fmt.Sprintf("args[%d] of provider %s", j, p.Name))
		}
	}
	return list
}
