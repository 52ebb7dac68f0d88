// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/regcred/regcred/internal/scrub"
)

// stream reads a pipe to its end, whatever becomes of what it reads.
type stream struct {
	r   *os.File
	eof chan struct{} // closed when nothing more comes

	mu   sync.Mutex
	sink io.Writer // nil when nobody wants it any more
}

func newStream(r *os.File, sink io.Writer) *stream {
	s := &stream{r: r, eof: make(chan struct{}), sink: sink}
	go s.read()
	return s
}

func (s *stream) read() {
	defer close(s.eof)
	defer s.r.Close()
	buf := make([]byte, 8<<10) // an answer is a few hundred bytes
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

// drop forgets the sink; after it the sink is not written to any more.
func (s *stream) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sink = nil
}

// close stops reading.
func (s *stream) close() { s.r.Close() }

// bounded keeps the first max bytes.
type bounded struct {
	max  int
	over chan struct{} // closed when more than max bytes have come

	mu     sync.Mutex
	buf    []byte
	isOver bool
}

func (b *bounded) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	room := b.max - len(b.buf)
	b.buf = append(b.buf, data[:min(room, len(data))]...)
	if len(data) > room && !b.isOver {
		b.isOver = true
		close(b.over)
	}
	return len(data), nil
}

func (b *bounded) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.buf)
}

// keep is how many bytes of each end of standard error are kept.
const keep = 4 << 10

// headTail keeps the first and the last keep bytes.
type headTail struct {
	head    []byte
	tail    []byte // of what follows head
	dropped int64  // bytes cut off the front of tail
}

func (h *headTail) Write(data []byte) (int, error) {
	n := len(data)
	room := min(keep-len(h.head), n)
	h.head = append(h.head, data[:room]...)
	data = data[room:]
	if len(data) > keep {
		h.dropped += int64(len(data) - keep)
		data = data[len(data)-keep:]
	}
	h.tail = append(h.tail, data...)
	if extra := len(h.tail) - keep; extra > 0 {
		h.dropped += int64(extra)
		h.tail = append(h.tail[:0], h.tail[extra:]...)
	}
	return n, nil
}

// maxSecrets bounds the work that an answer can cause.
const maxSecrets = 1000

// holds reports whether one of the secrets stands in what was kept.
func (h *headTail) holds(secrets []string) bool {
	secrets = secrets[:min(len(secrets), maxSecrets)]
	if h.dropped == 0 {
		return scrub.Holds(string(h.head)+string(h.tail), secrets)
	}
	return scrub.Holds(string(h.head), secrets) || scrub.Holds(string(h.tail), secrets)
}

// text returns the head and the tail without secrets, as harmless UTF-8.
func (h *headTail) text(secrets []scrub.Secret) string {
	switch {
	case len(h.head) == 0:
		return ""
	case len(secrets) > maxSecrets:
		return fmt.Sprintf("(standard error is hidden because it might contain one of %d secrets)", len(secrets))
	case h.dropped == 0:
		return scrub.Part(string(h.head)+string(h.tail), secrets, false, false)
	}
	return scrub.Part(string(h.head), secrets, false, true) +
		fmt.Sprintf("\n(%d bytes omitted)\n", h.dropped) +
		scrub.Part(string(h.tail), secrets, true, false)
}
