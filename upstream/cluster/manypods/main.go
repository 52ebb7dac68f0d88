// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command manypods looks up an image for each of many pods, like a process that serves all pulls of
// a node, and prints its memory usage. It runs as a separate process so that only the lookups are
// measured.
//
//	manypods KUBECONFIG CONFIG IMAGE <pods.json
//
// Standard input is a list of regcred.Pod. The provider in CONFIG runs in this process, because
// plugin processes would use additional memory.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/kubeconfig"
	"github.com/regcred/regcred/kube"
	"github.com/regcred/regcred/plugin"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "manypods:", err)
		os.Exit(1)
	}
}

// tokenCredential returns a different credential of a typical size for each token.
func tokenCredential(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
	return &plugin.Response{
		CacheKeyType: plugin.CacheRegistry, CacheDuration: new(time.Hour),
		Auth: map[string]plugin.AuthConfig{req.Registry(): {Username: "pod", Password: plugin.NewSecret(req.ServiceAccountToken.Reveal()[:64])}},
	}, nil
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 3 {
		return errors.New("usage: manypods KUBECONFIG CONFIG IMAGE <pods.json")
	}
	var pods []regcred.Pod
	if err := json.NewDecoder(stdin).Decode(&pods); err != nil {
		return err
	}
	k, err := newKeyring(args[0], args[1])
	if err != nil {
		return err
	}
	defer k.Close()
	if err := lookUpForPods(ctx, k, args[2], pods); err != nil {
		return err
	}
	// The second lookups are cache hits.
	if err := lookUpForPods(ctx, k, args[2], pods); err != nil {
		return err
	}
	now, most, err := residentMemory()
	if err != nil {
		return err
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return json.NewEncoder(stdout).Encode(map[string]uint64{"resident": now, "most": most, "heap": m.HeapAlloc})
}

func newKeyring(kubeconfigPath, path string) (*regcred.Keyring, error) {
	rest, _, err := kubeconfig.Load(kubeconfig.Options{Kubeconfig: kubeconfigPath})
	if err != nil {
		return nil, err
	}
	client, err := kube.New(rest, kube.Options{})
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	return regcred.New(cfg, regcred.Options{
		BinDir: "none", ServiceAccounts: client,
		InProcess: map[string]plugin.Provider{cfg.Providers[0].Name: plugin.ProviderFunc(tokenCredential)},
	})
}

func lookUpForPods(ctx context.Context, k *regcred.Keyring, image string, pods []regcred.Pod) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i := range pods {
		g.Go(func() error {
			res, err := k.Lookup(ctx, regcred.Request{Image: image, Pod: &pods[i]})
			if err == nil && len(res.Credentials) != 1 {
				err = fmt.Errorf("pod %s: %d credentials", pods[i].Name, len(res.Credentials))
			}
			return err
		})
	}
	return g.Wait()
}

// residentMemory returns the current and maximum resident set size of this process in bytes.
func residentMemory() (now, most uint64, err error) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, err
	}
	for line := range bytes.Lines(data) {
		f := bytes.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch string(f[0]) {
		case "VmRSS:":
			now, err = strconv.ParseUint(string(f[1]), 10, 64)
		case "VmHWM:":
			most, err = strconv.ParseUint(string(f[1]), 10, 64)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return now << 10, most << 10, nil
}
