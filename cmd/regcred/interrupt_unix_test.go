// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// TestSignal interrupts regcred while it waits for a plugin.
func TestSignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) { interrupt(t, sig) })
	}
}

func interrupt(t *testing.T, sig os.Signal) {
	if signal.Ignored(sig) {
		t.Skip("the test itself runs with this signal ignored, and so would regcred")
	}
	regcred, err := exec.LookPath("regcred")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := linkPlugins(bin); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "c.yaml")
	const text = `{"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [{"name": "slow",
		"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "matchImages": ["registry.example"], "defaultCacheDuration": "1m"}]}`
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "running")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(regcred, "get", "--config", config, "--bin-dir", bin, "registry.example/app")
	cmd.Env = append(os.Environ(), "RUNNING="+fifo)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(fifo); err != nil { // returns when the plugin has opened and closed it
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	exitErr, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exitErr.ExitCode() != exitFailed {
		t.Errorf("got %v, want exit code %d", err, exitFailed)
	}
	if got, want := stderr.String(), "error: interrupted\n"; got != want {
		t.Errorf("stderr %q, want %q", got, want)
	}
}

// TestIgnoredSignal is what nohup does.
func TestIgnoredSignal(t *testing.T) {
	got := endingSignals(func(sig os.Signal) bool { return sig == syscall.SIGHUP })
	want := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestNobodyReads closes the reading end of standard output, as "| head" does.
func TestNobodyReads(t *testing.T) {
	regcred, err := exec.LookPath("regcred")
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	temp := t.TempDir()
	cmd := exec.Command(regcred, "demo")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	cmd.Stdout = w
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = cmd.Run()
	w.Close()
	exitErr, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exitErr.ExitCode() != exitFailed {
		t.Errorf("got %v, want exit code %d", err, exitFailed)
	}
	if stderr.Len() > 0 {
		t.Errorf("stderr %q, want nothing", stderr.String())
	}
	left, err := filepath.Glob(filepath.Join(temp, "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
