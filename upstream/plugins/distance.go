// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugins

import (
	"io"
	"net"
	"time"
)

// latencyProxy simulates latency to a server. Data from the client arrives one round trip
// later, and data from the server at once. A TLS 1.3 handshake is delayed once, and so is
// each request. Connections are delayed independently. Connecting is not delayed, because
// a listener cannot delay it.
type latencyProxy struct {
	listener  net.Listener
	server    string
	roundTrip time.Duration
}

func (d latencyProxy) acceptLoop() {
	for {
		client, err := d.listener.Accept()
		if err != nil {
			return
		}
		go d.forward(client)
	}
}

// forward copies data in both directions until both sides have closed the connection.
func (d latencyProxy) forward(client net.Conn) {
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
	d.copyDelayed(server, client)
	server.(*net.TCPConn).CloseWrite()
	<-done
}

// delayedPacket is the data of one read and the time at which it arrives.
type delayedPacket struct {
	data    []byte
	arrival time.Time
}

// copyDelayed copies r to w with the delay.
func (d latencyProxy) copyDelayed(w io.Writer, r io.Reader) {
	sent := make(chan delayedPacket, 1000)
	go func() {
		defer close(sent)
		for {
			buffer := make([]byte, 16<<10)
			n, err := r.Read(buffer)
			if err != nil {
				return
			}
			sent <- delayedPacket{buffer[:n], time.Now().Add(d.roundTrip)}
		}
	}()
	for p := range sent {
		time.Sleep(time.Until(p.arrival))
		w.Write(p.data) // after an error the remaining data is read and dropped
	}
}
