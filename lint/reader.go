// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"slices"

	"github.com/regcred/regcred/config"
)

// reader is the program that reads a file and runs the plugins in it.
type reader string

const (
	theKubelet reader = "the kubelet"
	weAlone    reader = "regcred" // of the predecessor's files
)

func readerOf(predecessor bool) reader {
	if predecessor {
		return weAlone
	}
	return theKubelet
}

// reader is the kubelet if it reads any of c's providers.
func readerOfAny(c *config.Config) reader {
	notOurs := slices.ContainsFunc(c.Providers, func(p config.Provider) bool { return !p.Predecessor() })
	return readerOf(!notOurs && len(c.Providers) > 0)
}

// runs is what a person decides who can write to a file.
func (r reader) runs() string {
	if r == theKubelet {
		return "the kubelet runs as root"
	}
	return "regcred runs"
}

// fails is what happens for want of an executable.
func (r reader) fails() string {
	if r == theKubelet {
		return "the kubelet exits"
	}
	return "regcred cannot run the plugin"
}
