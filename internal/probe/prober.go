// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe

import (
	"cmp"
	"time"

	"github.com/regcred/regcred/internal/node"
)

// Prober queries hosts for one image. It is safe for concurrent use as long as its
// fields are not changed.
type Prober struct {
	Image    Image
	Runtime  Runtime
	Platform string // such as "linux/amd64"; "" means any

	// StepTimeout limits each connection, handshake and response; 0 means 5 seconds.
	StepTimeout time.Duration
}

// Image is the image to request.
type Image struct {
	Host   string // the reference's host and port; sent to mirrors as ns
	Tag    string
	Digest string // used instead of the tag
}

func (i Image) tagOrDigest() string { return cmp.Or(i.Digest, i.Tag, "latest") }

// Runtime holds the settings of the container runtime that would send the requests.
type Runtime struct {
	Name    string    // name for messages, such as "containerd" or "CRI-O"
	Where   string    // the process that Environ belongs to, such as "containerd, process 812"
	Environ []string  // sets proxies and trusted CAs
	Started time.Time // when its process started and read the trusted CAs; zero if unknown

	Own []string // this process's environment, for hints about variables that the runtime lacks
}

func (r *Runtime) getenv(name string) string { return node.Getenv(r.Environ, name) }
