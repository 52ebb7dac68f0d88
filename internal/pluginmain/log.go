// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pluginmain

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

// newLogger returns a logger that writes warnings as plain lines. From verbosity 2 it
// also logs steps (Info), and from verbosity 4 details (Debug).
func newLogger(w io.Writer, name string, verbosity int) *slog.Logger {
	rest := slog.DiscardHandler
	if verbosity >= 2 {
		level := slog.LevelInfo
		if verbosity >= 4 {
			level = slog.LevelDebug
		}
		rest = slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})
	}
	return slog.New(&warningHandler{Handler: rest, w: w, name: name})
}

// warningHandler writes warnings and errors as NAME: message: key="value". It passes
// other records to Handler.
type warningHandler struct {
	slog.Handler
	w     io.Writer
	name  string
	attrs []string
}

func (h *warningHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || h.Handler.Enabled(ctx, level)
}

func (h *warningHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return h.Handler.Handle(ctx, r)
	}
	attrs := slices.Clip(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, formatAttr(a))
		return true
	})
	text := h.name + ": " + r.Message
	if len(attrs) > 0 {
		text += ": " + strings.Join(attrs, ", ")
	}
	_, err := io.WriteString(h.w, text+"\n")
	return err
}

func formatAttr(a slog.Attr) string { return fmt.Sprintf("%s=%q", a.Key, a.Value.Resolve().String()) }

func (h *warningHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.Handler, c.attrs = h.Handler.WithAttrs(attrs), slices.Clip(h.attrs)
	for _, a := range attrs {
		c.attrs = append(c.attrs, formatAttr(a))
	}
	return &c
}

// WithGroup implements [slog.Handler]. The group's name is not added to the keys of warnings.
func (h *warningHandler) WithGroup(name string) slog.Handler {
	c := *h
	c.Handler = h.Handler.WithGroup(name)
	return &c
}
