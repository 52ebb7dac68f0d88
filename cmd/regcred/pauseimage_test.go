// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/testcri"
)

// TestPauseImage pulls what the runtime's status names, once.
func TestPauseImage(t *testing.T) {
	for _, tt := range []struct {
		name, config string
		images       []string
		code         int
		out          string
		pulls        int
	}{
		{"alone", `{"sandboxImage": "it.example/pause:3"}`, nil, exitOK, "ok      it.example/pause:3: pulled ", 1},
		{"beside another", `{"sandboxImage": "it.example/pause:3"}`, []string{"it.example/a"}, exitOK, "2 images: 2 pulled\n", 2},
		{"beside itself", `{"sandboxImage": "it.example/pause:3"}`, []string{"it.example/pause:3"}, exitOK, "pulled ", 1},
		{"not told", ``, []string{"it.example/a"}, exitFailed, "error: the runtime does not say which its pause image is\nhint: name it as an IMAGE", 0},
		{"not JSON", `sandboxImage=x`, nil, exitFailed, "error: the runtime does not say", 0},
		{"no image", `{"sandboxImage": "IT\u001b[2J"}`, nil, exitFailed, "error: the runtime's pause image: ", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := &testcri.Server{Config: tt.config}
			server.Start(t)
			args := append([]string{"prepull", "--pause-image", "--runtime-endpoint", server.Socket}, writeRuntimeConfig(t, "good", "it.example")...)
			code, out, errOut := runApp(t, append(args, tt.images...)...)
			if all := out + errOut; code != tt.code || !strings.Contains(all, tt.out) || strings.Contains(all, "\x1b") {
				t.Errorf("exit code %d\n%s", code, all)
			}
			if n := len(server.Pulls()); n != tt.pulls {
				t.Errorf("%d pulls, want %d", n, tt.pulls)
			}
		})
	}
}
