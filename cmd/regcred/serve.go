// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/internal/runstats"
	"github.com/regcred/regcred/internal/serve"
	"github.com/regcred/regcred/internal/serve/client"
)

// serveFlags holds the flags of "regcred serve".
type serveFlags struct {
	socket, stateDir string
	allowUIDs        []uint
	allowGIDs        []uint
	logFormat        *enumFlag
	server           serve.Server
}

func (a *app) serveCmd() *cobra.Command {
	f := &serveFlags{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the node's credential service on a unix socket",
		Long: `Serve registry credentials to the programs on this node that pull images, with
one cache. docker-credential-regcred, the dispatcher, get, pull and prepull use
the service if it runs, and otherwise run the plugins themselves. Programs can
also send HTTP requests to the socket.

By default the service uses the node's current generation, which "regcred
install" and "regcred rollback" change. With --config and --bin-dir it uses that
configuration. It reloads a changed configuration; if the new one is invalid, it
uses the previous one.

Only root, and the user that runs the service, may request credentials, unless
--allow-uid or --allow-gid permits other users.`,
		Example: `  regcred serve
  regcred serve --config /etc/regcred/providers.yaml --bin-dir /usr/libexec/regcred
  curl --unix-socket /run/regcred/regcred.sock http://localhost/readyz`,
		Args: requireArgs(),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.socket, "socket", client.DefaultSocket, "`path` of the socket, unless systemd passes one")
	fl.StringVar(&f.stateDir, "state-dir", generation.DefaultDir, "`directory` where generations are stored")
	fl.UintSliceVar(&f.allowUIDs, "allow-uid", nil, "user `ID` that may request credentials; may be repeated")
	fl.UintSliceVar(&f.allowGIDs, "allow-gid", nil, "group `ID` whose members may request credentials; may be repeated")
	fl.IntVar(&f.server.MaxConnections, "max-connections", 1024, "maximum `number` of open connections")
	fl.IntVar(&f.server.MaxConnectionsPerUser, "max-connections-per-user", 64, "maximum `number` of open connections of each user other than root")
	fl.DurationVar(&f.server.MaxStale, "max-stale", 0, "maximum `age` of a cached response, unless its plugin fails (default: the generation's --max-stale, or 5m)")
	fl.StringVar(&f.server.CountDir, "count-dir", runstats.DefaultDir, "`directory` where the dispatcher's run counts are stored")
	f.logFormat = addOutputFlag(cmd, "text", "json")
	fl.Lookup("output").Usage = "format of the log on stderr: text | json"
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), f) }
	return cmd
}

func (a *app) serve(ctx context.Context, f *serveFlags) error {
	s := &f.server
	if err := f.complete(a); err != nil {
		return err
	}
	l, release, err := serve.Listen(f.socket, s.Allow)
	if err != nil {
		return err
	}
	defer release()
	if a.Getenv("GOGC") == "" {
		debug.SetGCPercent(50) // the cache is most of the heap, so a smaller heap costs little
	}
	if err := s.Start(); err != nil {
		if s.Source.StateDir == "" {
			l.Close()
			return err
		}
		s.Logger.Warn("waiting for a valid generation; clients run the plugins themselves", "err", err)
	}
	s.Logger.Info("serving", "socket", l.Addr().String())
	return s.Serve(ctx, l)
}

// complete validates the flags and fills in the options that have no flag.
func (f *serveFlags) complete(a *app) (err error) {
	s := &f.server
	switch {
	case a.asKubelet != "" || a.rootDir != "":
		return usageError("use --config and --bin-dir", "serve supports neither --as-kubelet nor --root-dir")
	case (a.config.value == "") != (a.binDir.value == ""):
		return usageError("", "serve requires both --config and --bin-dir, or neither")
	case s.MaxStale < 0:
		return usageError("", "--max-stale must not be negative")
	case s.MaxConnections < 1 || s.MaxConnectionsPerUser < 1:
		return usageError("", "--max-connections and --max-connections-per-user must be at least 1")
	}
	s.Source.StateDir = f.stateDir
	if a.config.value != "" {
		s.Source = serve.Source{Config: a.config.value, BinDir: a.binDir.value}
	}
	for _, path := range []*string{&f.socket, &s.Source.StateDir, &s.Source.Config, &s.Source.BinDir, &s.CountDir} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(a.dir, *path)
		}
	}
	if s.Allow.UIDs, err = userIDs("--allow-uid", f.allowUIDs); err != nil {
		return err
	}
	if s.Allow.GIDs, err = userIDs("--allow-gid", f.allowGIDs); err != nil {
		return err
	}
	if a.timeout != protocol.KubeletTimeout {
		s.PluginTimeout = a.timeout
	}
	s.Environ, s.Logger = a.environ, f.newLogger(a)
	return nil
}

// userIDs converts the values of a flag with user or group IDs.
func userIDs(flag string, values []uint) (ids []uint32, err error) {
	for _, v := range values {
		if uint64(v) >= 1<<32-1 { // the last one means "no user" in system calls
			return nil, usageError("", "%s %d: not a user or group ID", flag, v)
		}
		ids = append(ids, uint32(v))
	}
	return ids, nil
}

// newLogger returns the service's logger.
func (f *serveFlags) newLogger(a *app) *slog.Logger {
	level := slog.LevelInfo
	switch {
	case a.verbose:
		level = slog.LevelDebug
	case a.Quiet:
		level = slog.LevelError
	}
	return a.LeveledLogger(level, f.logFormat.value == "json")
}
