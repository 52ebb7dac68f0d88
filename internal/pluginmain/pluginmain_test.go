// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pluginmain

import (
	"log/slog"
	"strings"
	"testing"
)

func TestLogger(t *testing.T) {
	for name, tt := range map[string]struct {
		verbosity int
		log       func(*slog.Logger)
		want      string // a part of the output; "" means that there is none
	}{
		"warning": {0, func(l *slog.Logger) { l.Warn("no answer", "host", "a.example", "n", 2) },
			"plug: no answer: host=\"a.example\", n=\"2\"\n"},
		"warning without attributes": {1, func(l *slog.Logger) { l.Warn("no answer") }, "plug: no answer\n"},
		"warning on one line": {0, func(l *slog.Logger) { l.Warn("no answer", "host", "a\nb") },
			"plug: no answer: host=\"a\\nb\"\n"},
		"warning with bound attributes": {0, func(l *slog.Logger) { l.With("host", "a").WithGroup("g").Warn("no answer", "n", 2) },
			"plug: no answer: host=\"a\", n=\"2\"\n"},
		"warning at 4":     {4, func(l *slog.Logger) { l.Warn("no answer") }, "plug: no answer\n"},
		"error":            {0, func(l *slog.Logger) { l.Error("broken") }, "plug: broken\n"},
		"step at 0":        {0, func(l *slog.Logger) { l.Info("step") }, ""},
		"step at 1":        {1, func(l *slog.Logger) { l.Info("step") }, ""},
		"step at 2":        {2, func(l *slog.Logger) { l.With("host", "a").Info("step") }, "level=INFO msg=step host=a\n"},
		"step in a group":  {2, func(l *slog.Logger) { l.WithGroup("g").Info("step", "n", 2) }, "msg=step g.n=2\n"},
		"detail at 2":      {2, func(l *slog.Logger) { l.Debug("detail") }, ""},
		"detail at 4":      {4, func(l *slog.Logger) { l.Debug("detail") }, "level=DEBUG msg=detail\n"},
		"secret of a type": {0, func(l *slog.Logger) { l.Warn("no", "v", masked{}) }, "plug: no: v=\"masked\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			tt.log(logger(&out, "plug", tt.verbosity))
			if got := out.String(); tt.want == "" && got != "" || !strings.HasSuffix(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// masked is something that says itself how it is logged.
type masked struct{}

func (masked) LogValue() slog.Value { return slog.StringValue("masked") }
