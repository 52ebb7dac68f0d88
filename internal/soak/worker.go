// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/plugin"
)

// The environment that makes a worker of this program.
const (
	workerImage = "REGCRED_SOAK_IMAGE"
	workerDir   = "REGCRED_SOAK_DIR"
)

// Names in the directory of a soak.
const (
	pluginName   = "soak-plugin"
	passwordFile = "password"
	configFile   = "config.yaml"
)

// writePlugin makes a bin dir in which this program is the plugin, and its
// configuration.
func writePlugin(dir, registry string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text := fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: %s
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: [%q]
  defaultCacheDuration: 0s
  args: [%q]
`, pluginName, registry, filepath.Join(dir, passwordFile))
	return errors.Join(os.Symlink(self, filepath.Join(dir, pluginName)), os.WriteFile(filepath.Join(dir, configFile), []byte(text), 0o600))
}

// servePlugin answers with the password of the moment.
func servePlugin() int {
	return plugin.Serve(context.Background(), plugin.ProviderFunc(func(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
		raw, err := os.ReadFile(os.Args[1])
		if err != nil {
			return nil, err
		}
		host, _, _ := strings.Cut(req.Image, "/")
		return &plugin.Response{CacheKeyType: plugin.CacheRegistry, CacheDuration: new(time.Hour),
			Auth: map[string]plugin.AuthConfig{host: {Username: user, Password: plugin.NewSecret(string(raw))}}}, nil
	}), plugin.ServeOptions{Args: os.Args[2:]})
}

// event is what a worker tells: that a pull failed, or that an answer was
// invalidated; or, at its end, the counts.
type event struct {
	Kind  string    // "failed", "invalidated", "end"
	At    time.Time // of a pull: its beginning
	End   time.Time `json:",omitzero"` // of a pull
	Error string    `json:",omitempty"`

	Pulls, Lookups, Failures, Execs int           `json:",omitempty"`
	LongestExec                     time.Duration `json:",omitempty"`
}

// teller writes events, and counts.
type teller struct {
	mu  sync.Mutex
	out *json.Encoder
	sum event
	err error
}

func (t *teller) tell(e event, count func(sum *event)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if count != nil {
		count(&t.sum)
	}
	if e.Kind != "" {
		t.err = errors.Join(t.err, t.out.Encode(e))
	}
}

func (t *teller) observe(e regcred.Event) {
	switch e.Kind {
	case regcred.EventExec:
		t.tell(event{}, func(sum *event) { sum.Execs++; sum.LongestExec = max(sum.LongestExec, e.Duration) })
	case regcred.EventInvalidate:
		t.tell(event{Kind: "invalidated", At: time.Now()}, nil)
	}
}

// work pulls until the context ends, and one half as many only look up.
func work(ctx context.Context, image, dir string, pullers int, out io.Writer) error {
	t := &teller{out: json.NewEncoder(out)}
	cfg, err := config.Load(filepath.Join(dir, configFile))
	if err != nil {
		return err
	}
	keyring, err := regcred.New(cfg, regcred.Options{BinDir: dir, Observer: t.observe})
	if err != nil {
		return err
	}
	defer keyring.Close()
	// Until its end is told: its parent closes standard input.
	ctx, cancel := context.WithCancel(ctx)
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); cancel() }()
	var wg sync.WaitGroup
	for i := range pullers {
		puller := &pull.Puller{Parallel: 1 + i%2*2, Refused: keyring.Invalidate}
		wg.Go(func() {
			for pauseFor(ctx, 100*time.Millisecond) {
				t.pullOnce(ctx, keyring, puller, image)
			}
		})
		if i%2 == 0 {
			wg.Go(func() {
				for pauseFor(ctx, 10*time.Millisecond) {
					_, _ = keyring.Lookup(ctx, regcred.Request{Image: image}) // pulls tell whether it was right
					t.tell(event{}, func(sum *event) { sum.Lookups++ })
				}
			})
		}
	}
	wg.Wait()
	t.sum.Kind, t.sum.At = "end", time.Now()
	t.tell(t.sum, nil)
	return t.err
}

func pauseFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// pullOnce looks up and pulls, into a layout of its own so that all is downloaded.
func (t *teller) pullOnce(ctx context.Context, keyring *regcred.Keyring, puller *pull.Puller, image string) {
	began := time.Now()
	dir, err := os.MkdirTemp("", "regcred-soak-layout-")
	if err == nil {
		defer os.RemoveAll(dir)
		var res *regcred.Result
		if res, err = keyring.Lookup(ctx, regcred.Request{Image: image}); err == nil {
			_, err = puller.Pull(ctx, image, res.Credentials, dir)
		}
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		t.tell(event{Kind: "failed", At: began, End: time.Now(), Error: err.Error()}, func(sum *event) { sum.Pulls++; sum.Failures++ })
	default:
		t.tell(event{}, func(sum *event) { sum.Pulls++ })
	}
}

// worker is a process that pulls, as its parent sees it.
type worker struct {
	events []event
	err    error
}

func (w *worker) run(ctx context.Context, image, dir string, pullers int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, fmt.Sprintf("-pullers=%d", pullers))
	cmd.Env = append(os.Environ(), workerImage+"="+image, workerDir+"="+dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { stdin.Close() })
	defer stop()
	for dec := json.NewDecoder(stdout); ; {
		var e event
		if err := dec.Decode(&e); err != nil {
			return errors.Join(cmd.Wait(), eof(err))
		}
		w.events = append(w.events, e)
	}
}

func eof(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
