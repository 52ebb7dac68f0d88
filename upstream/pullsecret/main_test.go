// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"testing"

	"github.com/regcred/regcred/upstream/node"
)

func TestMain(m *testing.M) { node.Main(m) }
