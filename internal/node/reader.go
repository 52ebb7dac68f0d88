// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

// Reader reads a node. It reads each file only once and caches the content, so all results of a
// Reader are consistent. To see changes, create a new Reader. A Reader is not safe for
// concurrent use.
type Reader struct {
	*fileCache
	service             *kubeletService
	setupWithoutVersion *Setup
	setup               *Setup
}

// kubeletService returns the service that starts the kubelet. It adds the files that define the
// service to rd's dependencies.
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
	rd.service = found
	return *found
}

// NewReader returns a Reader for n. The Reader reads files on demand.
func (n Node) NewReader() *Reader { return &Reader{fileCache: n.newFileCache()} }
