// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package process

import (
	"io"
	"os"
	"sync"
)

// pipeReader copies a pipe to a sink until EOF.
type pipeReader struct {
	r   *os.File
	eof chan struct{} // closed at the pipe's EOF

	mu   sync.Mutex
	sink io.Writer // nil after dropSink
}

func newPipeReader(r *os.File, sink io.Writer) *pipeReader {
	s := &pipeReader{r: r, eof: make(chan struct{}), sink: sink}
	go s.copyLoop()
	return s
}

func (s *pipeReader) copyLoop() {
	defer close(s.eof)
	defer s.r.Close()
	buf := make([]byte, 8<<10) // responses are a few hundred bytes long
	for {
		n, err := s.r.Read(buf)
		s.mu.Lock()
		if s.sink != nil {
			s.sink.Write(buf[:n])
		}
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// dropSink discards all further output, but keeps reading the pipe.
func (s *pipeReader) dropSink() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sink = nil
}

// close stops reading.
func (s *pipeReader) close() { s.r.Close() }

// boundedBuffer keeps the first max bytes.
type boundedBuffer struct {
	max      int
	exceeded chan struct{} // closed after more than max bytes

	mu         sync.Mutex
	buf        []byte
	overflowed bool
}

func (b *boundedBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	room := b.max - len(b.buf)
	b.buf = append(b.buf, data[:min(room, len(data))]...)
	if len(data) > room && !b.overflowed {
		b.overflowed = true
		close(b.exceeded)
	}
	return len(data), nil
}

func (b *boundedBuffer) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.buf)
}

// HeadTailSize is the number of bytes kept from each end of standard error.
const HeadTailSize = 4 << 10

// HeadTail is an [io.Writer] that keeps the first and the last [HeadTailSize] bytes.
type HeadTail struct {
	Head    []byte
	Tail    []byte // last bytes of the output after Head
	Omitted int64  // bytes between Head and Tail
}

func (h *HeadTail) Write(data []byte) (int, error) {
	n := len(data)
	room := min(HeadTailSize-len(h.Head), n)
	h.Head = append(h.Head, data[:room]...)
	data = data[room:]
	if len(data) > HeadTailSize {
		h.Omitted += int64(len(data) - HeadTailSize)
		data = data[len(data)-HeadTailSize:]
	}
	h.Tail = append(h.Tail, data...)
	if extra := len(h.Tail) - HeadTailSize; extra > 0 {
		h.Omitted += int64(extra)
		h.Tail = append(h.Tail[:0], h.Tail[extra:]...)
	}
	return n, nil
}
