// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package dispatch

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/plugin"
)

// TestTooLong verifies that a slow plugin is killed and reported at the timeout, and that the
// default timeout is less than the kubelet's.
func TestTooLong(t *testing.T) {
	if DefaultTimeout >= ServeTimeout || ServeTimeout >= protocol.KubeletTimeout {
		t.Errorf("a plugin has %v, the dispatcher %v, and a kubelet waits %v", DefaultTimeout, ServeTimeout, protocol.KubeletTimeout)
	}
	dir := t.TempDir()
	script := "#!/bin/sh\necho $$ >\"$0.pid\"\nsleep 600\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "slow"), []byte(script), 0o700))
	for _, timeout := range []time.Duration{500 * time.Millisecond, 5 * time.Second, 50 * time.Second} {
		if ended := pluginEnded(t, dir, timeout); ended {
			return
		} // try a longer timeout, because a slow machine may not have started the plugin yet
	}
	t.Error("the plugin had never begun")
}

// pluginEnded runs the plugin with a timeout and checks that its process group was killed. It
// returns false if the plugin had not started yet.
func pluginEnded(t *testing.T, dir string, timeout time.Duration) bool {
	p := &Provider{
		Entry:   entries.Entry{Name: entries.DispatcherName, MatchImages: []string{"r.example"}},
		Config:  &config.Config{Providers: []config.Provider{{Name: "slow", MatchImages: []string{"r.example"}, DefaultCacheDuration: new(time.Duration(0)), APIVersion: plugin.V1}}},
		BinDir:  dir,
		Timeout: timeout,
	}
	_, err := p.GetCredentials(t.Context(), newRequest("r.example/app"))
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf(`plugin "slow": timeout: no response within %v`, timeout)) {
		t.Errorf("got %v", err)
	}
	p.Close()
	data, err := os.ReadFile(filepath.Join(dir, "slow.pid"))
	if err != nil {
		return false
	}
	pid := must.Get(strconv.Atoi(strings.TrimSpace(string(data))))(t)
	if err := syscall.Kill(pid, 0); err == nil && syscall.Kill(-pid, 0) == nil {
		t.Errorf("process %d and its group are still there", pid)
	}
	return true
}
