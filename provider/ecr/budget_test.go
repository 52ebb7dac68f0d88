// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/internal/remote"
)

// TestDefaultBudget verifies that the default budget is less than the plugin's time limit, so that
// the plugin can still report the cause.
func TestDefaultBudget(t *testing.T) {
	p := must.Get(New(Options{}))(t)
	if p.opts.Budget != remote.RequestTimeout || p.opts.Budget >= protocol.ServeTimeout {
		t.Errorf("got %v, want %v, less than %v", p.opts.Budget, remote.RequestTimeout, protocol.ServeTimeout)
	}
	// Three attempts must fit in the budget, even if each of them times out.
	if 3*p.opts.Timeout > p.opts.Budget {
		t.Errorf("three attempts of %v do not fit in %v", p.opts.Timeout, p.opts.Budget)
	}
}
