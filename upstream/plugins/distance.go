// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugins

import (
	"io"
	"net"
	"time"
)

// distance is a way to a server on which a round trip takes time. What a client
// sends arrives that much later, and what it is answered arrives at once: a
// handshake of TLS 1.3 waits once, and so does each request. Connections wait
// for themselves alone. To connect takes no time, which a listener cannot
// delay.
type distance struct {
	listener net.Listener
	server   string
	trip     time.Duration
}

func (d distance) serve() {
	for {
		client, err := d.listener.Accept()
		if err != nil {
			return
		}
		go d.carry(client)
	}
}

// carry takes bytes to and fro until both have closed the connection.
func (d distance) carry(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", d.server)
	if err != nil {
		return
	}
	defer server.Close()
	done := make(chan struct{})
	go func() {
		io.Copy(client, server)
		client.(*net.TCPConn).CloseWrite()
		close(done)
	}()
	d.delay(server, client)
	server.(*net.TCPConn).CloseWrite()
	<-done
}

// packet is what was read at once, and when it arrives.
type packet struct {
	data []byte
	at   time.Time
}

// delay writes what it reads, later.
func (d distance) delay(w io.Writer, r io.Reader) {
	sent := make(chan packet, 1000)
	go func() {
		defer close(sent)
		for {
			buffer := make([]byte, 16<<10)
			n, err := r.Read(buffer)
			if err != nil {
				return
			}
			sent <- packet{buffer[:n], time.Now().Add(d.trip)}
		}
	}()
	for p := range sent {
		time.Sleep(time.Until(p.at))
		w.Write(p.data) // after an error the rest is read all the same, and lost
	}
}
