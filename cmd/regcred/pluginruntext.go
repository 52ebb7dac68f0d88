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

	"github.com/regcred/regcred/plugin"
)

// renderPluginRun lays out one exchange.
func (a *app) renderPluginRun(r *pluginRunReport) *text {
	t := a.newText()
	t.pair("plugin", r.Path)
	t.pair("arguments", r.arguments())
	t.pair("environment", describeEnvironment(r.Environment))
	if len(r.Env) > 0 {
		t.pair("", "with "+strings.Join(r.Env, ", ")+" from the configuration (values not shown)")
	}
	t.head("stdin")
	t.document(r.Request)
	if r.Response != nil {
		head := "stdout"
		if r.outOfTree {
			head += ", in today's terms"
		}
		t.head(head)
		t.document(r.Response)
	}
	if r.Stderr != "" {
		t.head("stderr")
		for line := range strings.Lines(r.Stderr) {
			t.WriteString("  " + printable(strings.TrimRight(line, "\r\n")) + "\n")
		}
	}
	t.head("result")
	a.renderPluginResult(t, r)
	return t
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

// document prints a value as indented JSON. Its strings are escaped by JSON.
func (t *text) document(v any) {
	data, err := json.MarshalIndent(v, "  ", "  ")
	if err != nil {
		return // of our own plain structs none can fail
	}
	t.WriteString("  " + printable(string(data)) + "\n")
}

func (a *app) renderPluginResult(t *text, r *pluginRunReport) {
	took := fmt.Sprintf("exit code %d after %s", r.ExitCode, millis(r.DurationSeconds))
	switch {
	case r.Stage == plugin.StageStart:
		took = "was not started"
	case r.ExitCode < 0:
		took = "did not exit by itself; " + millis(r.DurationSeconds)
	}
	if !r.Accepted {
		t.item(markFail, took)
		t.detail("%s drops this: %s: %s", r.host, r.Stage, r.Error)
		if r.StdoutBytes != nil && *r.StdoutBytes > 0 {
			t.detail("stdout had %s, not shown: it may hold a password", count(*r.StdoutBytes, "byte"))
		}
		return
	}
	m := markOK
	if r.Credentials == 0 {
		m = markNone
	}
	t.item(m, took)
	t.detail("%s accepts this: %s, good for %s%s", r.host, count(len(r.Response.Auth), "credential"), scope(r.Response.CacheKeyType), kept(r.Response.duration))
	if keys := slices.Sorted(maps.Keys(r.Response.Auth)); len(keys) > 0 && r.Credentials == 0 {
		t.detail("none of its keys matches the image: %s", strings.Join(keys, ", "))
	}
}

func kept(d *time.Duration) string {
	switch {
	case d == nil:
		return ", kept for the provider's defaultCacheDuration"
	case *d <= 0:
		return ", not cached"
	}
	return ", kept for " + span(*d)
}
