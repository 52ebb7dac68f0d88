// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"fmt"
	"os"
	"testing"

	"github.com/regcred/regcred/upstream/helm"
	"github.com/regcred/regcred/upstream/node"
)

// helmPath is the path of the helm executable.
var helmPath string

func TestMain(m *testing.M) {
	var err error
	if helmPath, err = helm.BuildHelm(""); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	node.Main(m)
}
