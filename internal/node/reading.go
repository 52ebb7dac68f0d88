// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

// Reading reads a node. It keeps what it has read, so a command that uses one Reading
// reads each file once and all results are consistent. A Reading is not safe for
// concurrent use. To see changes, create another one.
type Reading struct {
	*fileCache
	service *kubeletService
	survey  *Setup // without Version
	setup   *Setup
}

// Read returns a Reading of n. Files are read when they are needed.
func (n Node) Read() *Reading { return &Reading{fileCache: n.cache()} }

// kubeletService returns the service that starts the kubelet. rd then depends on the
// files that describe the service.
func (r *Reading) kubeletService(rd *reader) kubeletService {
	found := r.service
	if found == nil {
		by := r.reader(rd.ctx)
		s := by.findKubeletService()
		s.by, found = by, &s
		if rd.ctx.Err() == nil {
			r.service = found
		}
	}
	rd.include(found.by)
	return *found
}
