// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command regcred-credential-provider is the plugin that regcred configures in the kubelet. Each
// run calls the providers of the node's current generation. "regcred install" installs it on a
// node. See docs/node.md.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/regcred/regcred/internal/dispatch"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/pluginmain"
	"github.com/regcred/regcred/internal/runstats"
	"github.com/regcred/regcred/plugin"
)

// version is set by the linker in release builds: -ldflags "-X main.version=v1.2.3".
var version string

func main() {
	// The stop function is not called, because it would take longer than the run itself.
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	os.Exit(run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}

// run is main without global state. The base name of args[0] is the name of the provider entry in
// the kubelet's configuration.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) int {
	d := &dispatcher{entry: filepath.Base(args[0])}
	flags := pluginmain.NewFlagSet()
	flags.StringVar(&d.stateDir, "state-dir", "", "`path` to the directory that contains the generations (default: this program's directory, with symlinks resolved)")
	flags.StringVar(&d.countDir, "count-dir", runstats.DefaultDir, "`path` to the directory where run counts are stored; an empty path disables counting")
	code := pluginmain.Program{
		Name:    generation.DispatcherName,
		Version: version,
		Flags:   flags,
		Timeout: dispatch.ServeTimeout,
		Summary: "The plugin that regcred configures in the kubelet: it calls the providers of the\n" +
			"node's current generation, which \"regcred install\" and \"regcred rollback\" change.\n" +
			"It reads one CredentialProviderRequest from standard input. The name under which\n" +
			"it is run determines which entry in the kubelet's configuration it serves.",
		New: func(pluginmain.Input) (plugin.Provider, error) { return d, nil },
	}.Run(ctx, args[1:], stdin, stdout, stderr, getenv)
	d.waitAndCount()
	return code
}

// dispatcher handles one request.
type dispatcher struct {
	entry, stateDir, countDir string

	mu       sync.Mutex // GetCredentials may still be running after a timeout
	provider *dispatch.Provider
	current  *generation.LockedGeneration
	batch    *runstats.Batch
}

// GetCredentials implements [plugin.Provider]. It opens the generation here, not in run, so that
// errors in opening it are counted.
func (d *dispatcher) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	p, err := d.openGeneration()
	if err != nil {
		d.recordCounts(runstats.Batch{Err: err.Error()})
		return nil, err
	}
	return p.GetCredentials(ctx, req)
}

func (d *dispatcher) openGeneration() (*dispatch.Provider, error) {
	state, err := d.stateDir, error(nil)
	if state == "" {
		state, err = dispatch.DefaultStateDir()
	}
	if err != nil {
		return nil, err
	}
	p, current, err := dispatch.OpenProvider(state, d.entry)
	if err != nil {
		return nil, err
	}
	p.Observe = func(o dispatch.Outcome) { d.recordCounts(o.CounterBatch()) }
	d.mu.Lock()
	defer d.mu.Unlock()
	d.provider, d.current = p, current
	return p, nil
}

func (d *dispatcher) recordCounts(b runstats.Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.batch = &b
}

// countTimeout limits how long finish may take to update the run counts. The kubelet waits for the
// plugin to exit, not only for the response.
const countTimeout = 100 * time.Millisecond

// waitAndCount waits until stopped plugins have exited, then adds the run to the counts. It ignores
// errors in counting.
func (d *dispatcher) waitAndCount() {
	d.mu.Lock()
	p, current, batch := d.provider, d.current, d.batch
	d.mu.Unlock()
	if p != nil {
		p.Close()
		current.Close()
	}
	if d.countDir == "" || batch == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	_ = runstats.AddBatch(ctx, d.countDir, *batch)
}
