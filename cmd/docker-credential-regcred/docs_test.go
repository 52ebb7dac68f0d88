// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

var durationPattern = regexp.MustCompile(`\d+(\.\d+)?m?s\b`)

// TestDocumentedMessages compares the failure messages in the docs with the program's
// messages. "…" stands for any text; times are ignored.
func TestDocumentedMessages(t *testing.T) {
	docs := must.Get(os.ReadFile("../../docs/docker-credential-helper.md"))(t)
	said := failureMessages(t)
	_, table, _ := strings.Cut(string(docs), "\n## Failure messages\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := 0
	for line := range strings.Lines(table) {
		message, _, isRow := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !isRow || !strings.HasPrefix(message, "`") {
			continue
		}
		rows++
		for quoted := range strings.SplitSeq(strings.Trim(message, "`"), "`, `") {
			text := regexp.QuoteMeta(strings.TrimSpace(quoted))
			text = strings.NewReplacer("…", ".*", "HOST", "[^ ]+").Replace(durationPattern.ReplaceAllString(text, "TIME"))
			if !regexp.MustCompile(text).MatchString(said) {
				t.Errorf("nothing says %q", quoted)
			}
		}
	}
	if rows < 15 {
		t.Errorf("%d rows with a message", rows)
	}
}

// failureMessages returns the message of every failure, one per line.
func failureMessages(t *testing.T) string {
	b := newTestHost(t, "good r.example", "failing f.example", "hanging h.example", "asking a.example", "nameless n.example")
	var said strings.Builder
	run := func(server string, env ...string) {
		t.Helper()
		stdout, code := b.runGet(server, env...)
		if code != 1 {
			t.Errorf("get of %.50q: exit code %d", server, code)
		}
		said.WriteString(stdout)
	}
	for _, server := range []string{"nobody.example", "", "r.example:x", "r.example/A", "ftp://r.example", "r.example/a b", "team/app", "u@r.example", strings.Repeat("a", 5000), "f.example", "a.example", "n.example"} {
		run(server)
	}
	said.WriteString(b.readFile("runs.said"))
	run("h.example", "TEST_PLUGIN=200ms")
	run("h.example", "TEST_RUN=200ms")
	stdout, _ := b.run(b.helperCommand("", []string{"store"}))
	said.WriteString(stdout)
	stdin, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	defer writer.Close()
	cmd := b.helperCommand("", []string{"get"}, "TEST_INPUT=100ms")
	cmd.Stdin = stdin
	stdout, _ = b.run(cmd)
	said.WriteString(stdout)
	none := []string{"TEST_ROOT=" + b.filePath("root"), "REGCRED_CONFIG=", "REGCRED_BIN_DIR="}
	run("r.example", none...)
	run("r.example", none[0], none[2])
	b.writeFile("root/etc/regcred/credential-providers.yaml", "")
	run("r.example", none...)
	b.writeFile("root/etc/regcred/credential-providers.yaml", providersConfig("good r.example"))
	must.Do(t, os.Chmod(b.filePath("root/etc/regcred"), 0o777))
	run("r.example", none...)
	for _, closed := range []string{"root/etc/regcred/credential-providers.yaml", "root/etc/regcred"} {
		cmd := b.helperCommand("r.example", []string{"get"}, none...)
		b.runUnprivileged(cmd)
		path := b.filePath(closed)
		must.Do(t, os.Chmod(path, 0))
		t.Cleanup(func() { os.Chmod(path, 0o755) })
		stdout, _ := b.run(cmd)
		said.WriteString(stdout)
	}
	return durationPattern.ReplaceAllString(said.String(), "TIME")
}
