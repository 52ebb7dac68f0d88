// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
)

// TestDocsPredecessor verifies that docs/protocol.md contains the messages of both protocols
// exactly as this package encodes them.
func TestDocsPredecessor(t *testing.T) {
	text := must.Get(os.ReadFile("../docs/protocol.md"))(t)
	_, section, _ := strings.Cut(string(text), "\n## Out-of-tree protocol\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var documented []string
	for _, m := range regexp.MustCompile("(?s)```json\n(.*?\n)```").FindAllStringSubmatch(section, -1) {
		documented = append(documented, m[1])
	}
	var wire []string
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))) // sets the fake clock of the test to this time
		wire = docMessages(t)
	})
	if diff := cmp.Diff(wire, documented); diff != "" {
		t.Errorf("docs/protocol.md: -wire +documented\n%s", diff)
	}
}

// docMessages returns the requests of both protocols, followed by their responses.
func docMessages(t *testing.T) []string {
	t.Helper()
	provider := func(context.Context, *Request) (*Response, error) {
		return &Response{
			CacheKeyType:  CacheRegistry,
			CacheDuration: new(10 * time.Minute),
			Auth:          map[string]AuthConfig{"registry.example": {"node", NewSecret("open-sesame")}},
		}, nil
	}
	var requests, answers []string
	for _, version := range []string{V1, OutOfTree} {
		request := must.Get(EncodeRequest(&Request{APIVersion: version, Image: "registry.example/team/app"}))(t)
		answer := serveRequest(t.Context(), bytes.NewReader(request), provider, ServeOptions{Args: []string{"get-credentials"}})
		requests, answers = append(requests, string(request)), append(answers, answer.stdout)
	}
	return append(requests, answers...)
}
