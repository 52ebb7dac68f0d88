// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"fmt"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// allPlatforms is the [Puller.Platform] value that stores a whole index.
const allPlatforms = "all"

type platform struct {
	all bool
	v1.Platform
}

// CheckPlatform returns the error that a [Puller] with Platform s would return.
func CheckPlatform(s string) error {
	_, err := parsePlatform(s)
	return err
}

func parsePlatform(s string) (platform, error) {
	switch s {
	case allPlatforms:
		return platform{all: true}, nil
	case "":
		s = "linux/" + runtime.GOARCH
	}
	p, err := v1.ParsePlatform(s)
	if err != nil || p.OS == "" || p.Architecture == "" {
		return platform{}, fmt.Errorf("platform %q is neither os/architecture[/variant] nor %q, e.g. linux/arm64", s, allPlatforms)
	}
	return platform{Platform: normalizePlatform(*p)}, nil
}

// normalizePlatform removes a redundant variant, because arm64 is always v8.
func normalizePlatform(p v1.Platform) v1.Platform {
	if p.Architecture == "arm64" && p.Variant == "v8" {
		p.Variant = ""
	}
	return p
}

func (p platform) matches(have v1.Platform) bool {
	return p.all || normalizePlatform(have).Satisfies(p.Platform)
}
