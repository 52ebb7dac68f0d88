// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

// Reader reads a node. It caches what it reads, so a command that uses a single Reading
// reads each file once, and all results are consistent. A Reading is not safe for
// concurrent use. To see changes, create a new one.
type Reader struct {
	*fileCache
	service             *kubeletService
	setupWithoutVersion *Setup // without Version
	setup               *Setup
}

// kubeletService returns the service that starts the kubelet. It records in rd the
// files that describe the service.
func (r *Reader) kubeletService(rd *fileReader) kubeletService {
	found := r.service
	if found == nil {
		by := r.newReader(rd.ctx)
		s := by.findKubeletService()
		s.foundBy, found = by, &s
		if rd.ctx.Err() == nil {
			r.service = found
		}
	}
	rd.mergeDependencies(found.foundBy)
	return *found
}

// NewReader returns a Reading of n. Files are read on demand.
func (n Node) NewReader() *Reader { return &Reader{fileCache: n.newFileCache()} }
