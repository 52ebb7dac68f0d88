// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/plugin"
)

// render lays out one exchange.
func (r *pluginRunReport) render(t *terminal.Text) {
	t.Pair("plugin", r.Path)
	t.Pair("arguments", r.arguments())
	t.Pair("environment", describeEnvironment(r.Environment))
	if len(r.Env) > 0 {
		t.Pair("", "with "+strings.Join(r.Env, ", ")+" from the configuration (values not shown)")
	}
	t.Head("stdin")
	renderDocument(t, r.Request)
	if r.Response != nil {
		head := "stdout"
		if r.outOfTree {
			head += ", in today's terms"
		}
		t.Head(head)
		renderDocument(t, r.Response)
	}
	if r.Stderr != "" {
		t.Head("stderr")
		t.Quote("  ", r.Stderr)
	}
	t.Head("result")
	r.renderResult(t)
}

// arguments names the one that is no secret.
func (r *pluginRunReport) arguments() string {
	switch {
	case !r.outOfTree:
		return hidden(r.Args)
	case r.Args == 1:
		return "get-credentials"
	}
	return "get-credentials, " + hidden(r.Args-1)
}

// renderDocument shows a value as indented JSON.
func renderDocument(t *terminal.Text, v any) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return // of our own plain structs none can fail
	}
	t.Quote("  ", string(data))
}

func (r *pluginRunReport) renderResult(t *terminal.Text) {
	took := fmt.Sprintf("exit code %d after %s", r.ExitCode, terminal.Millis(r.DurationSeconds))
	switch {
	case r.Stage == plugin.StageStart:
		took = "was not started"
	case r.ExitCode < 0:
		took = "did not exit by itself; " + terminal.Millis(r.DurationSeconds)
	}
	if !r.Accepted {
		t.Item(terminal.Fail, took)
		t.Detail("%s drops this: %s: %s", r.host, r.Stage, r.Error)
		if r.StdoutBytes != nil && *r.StdoutBytes > 0 {
			t.Detail("stdout had %s, not shown: it may hold a password", terminal.Count(*r.StdoutBytes, "byte"))
		}
		return
	}
	m := terminal.OK
	if r.Credentials == 0 {
		m = terminal.None
	}
	t.Item(m, took)
	t.Detail("%s accepts this: %s, good for %s%s", r.host, terminal.Count(len(r.Response.Auth), "credential"), scope(r.Response.CacheKeyType), kept(r.Response.duration))
	if keys := slices.Sorted(maps.Keys(r.Response.Auth)); len(keys) > 0 && r.Credentials == 0 {
		t.Detail("none of its keys matches the image: %s", strings.Join(keys, ", "))
	}
}

func kept(d *time.Duration) string {
	switch {
	case d == nil:
		return ", kept for the provider's defaultCacheDuration"
	case *d <= 0:
		return ", not cached"
	}
	return ", kept for " + terminal.Span(*d)
}
