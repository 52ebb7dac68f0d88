// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcri"
)

// TestPauseImage checks that the image from the runtime's status is pulled only once.
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
		{"not told", ``, []string{"it.example/a"}, exitFailed, "error: the runtime does not report its pause image\nhint: pass the pause image as IMAGE", 0},
		{"not JSON", `sandboxImage=x`, nil, exitFailed, "error: the runtime does not report its pause image\n", 0},
		{"no image", `{"sandboxImage": "IT\u001b[2J"}`, nil, exitFailed, "error: parse the runtime's pause image from the runtime's status: ", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := &testcri.Server{Config: tt.config}
			server.Start(t)
			args := append([]string{"prepull", "--pause-image", "--runtime-endpoint", server.Socket}, writeRuntimeConfig(t, "good", "it.example")...)
			code, out, errOut := runApp(t, append(args, tt.images...)...)
			if all := out + errOut; code != tt.code || !strings.Contains(all, tt.out) || strings.Contains(all, "\x1b") {
				t.Errorf("exit code %d\n%s", code, all)
			}
			if n := len(server.PullRequests()); n != tt.pulls {
				t.Errorf("%d pulls, want %d", n, tt.pulls)
			}
		})
	}
}

// TestPauseImageStays checks that the report names the source of the image, and whether
// the kubelet may remove it.
func TestPauseImageStays(t *testing.T) {
	const image = "it.example/pause:3"
	for _, pinned := range []string{"", image} {
		server := &testcri.Server{Config: `{"sandboxImage": "` + image + `"}`, PinnedImage: pinned}
		server.Start(t)
		list := filepath.Join(t.TempDir(), "list")
		must.Do(t, os.WriteFile(list, []byte("# none yet\n"), 0o600))
		args := append([]string{"prepull", "--pause-image", "-f", list, "-o", "json", "--runtime-endpoint", server.Socket}, writeRuntimeConfig(t, "good", "it.example")...)
		for _, outcome := range []string{outcomePulled, outcomePresent} {
			code, out, errOut := runApp(t, args...)
			var got pullReport
			if err := json.Unmarshal([]byte(out), &got); code != exitOK || err != nil || len(got.Images) != 1 {
				t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errOut)
			}
			if diff := cmp.Diff(&pauseImageReport{image, "the runtime's status"}, got.PauseImage); diff != "" {
				t.Errorf("the pause image (-want +got):\n%s", diff)
			}
			if r := got.Images[0]; r.Image != image || r.Outcome != outcome || r.Pinned != (pinned != "") {
				t.Errorf("got %+v, want it %s, and pinned only if the runtime does", r, outcome)
			}
			if warned := strings.Contains(errOut, "warning: testcri 1.0 does not pin "+image); warned != (pinned == "") {
				t.Errorf("pinned %q:\n%s", pinned, errOut)
			}
		}
	}
}
