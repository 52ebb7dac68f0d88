// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/regcred/regcred/internal/must"
)

// fakeSystemd is a D-Bus server that acts as systemd but can fail in ways in which systemd does not
// fail. It supports a unit's properties, restarts and reloads.
type fakeSystemd struct {
	faults         map[string]fault                  // faults by request ("AUTH" or the name of a method)
	unitProperties func(n int) map[string]any        // returns the unit's properties for the n-th read, starting at 0
	finishJob      func(*fakeSystemd, *dbus.Message) // sends the result of a restart's job

	mu        sync.Mutex
	calls     []string
	readCount int
	conns     []net.Conn
}

// fault replaces the correct reply.
type fault struct {
	name, text string // name and text of an error reply
	raw        string // bytes to send before closing the connection
	noReply    bool   // send no reply
}

const jobID = 42

// startServer starts the server and returns a manager that uses it.
func (f *fakeSystemd) startServer(t *testing.T) Systemd {
	t.Helper()
	dir, err := os.MkdirTemp("", "bus") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "private")
	listener := must.Get(net.Listen("unix", path))(t)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns = append(f.conns, conn)
			f.mu.Unlock()
			serving.Go(func() { f.acceptClients(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		f.closeConnections()
		serving.Wait()
	})
	return Systemd{PrivateSocket: path, BusSocket: filepath.Join(dir, "absent")}
}

// closeConnections closes all connections.
func (f *fakeSystemd) closeConnections() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.conns {
		_ = conn.Close()
	}
	f.conns = nil
}

// wasCalled reports whether a method was called.
func (f *fakeSystemd) wasCalled(member string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.calls, member)
}

// acceptClients accepts a client and responds to its calls.
func (f *fakeSystemd) acceptClients(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimLeft(strings.TrimSpace(line), "\x00")
		if _, struck := f.faults["AUTH"]; struck {
			f.sendFault(conn, "AUTH", nil)
			return
		}
		answer := map[string]string{"AUTH": "REJECTED EXTERNAL", "AUTH EXTERNAL": "OK 0123", "NEGOTIATE_UNIX_FD": "ERROR"}[line]
		if line == "BEGIN" {
			break
		}
		_, _ = io.WriteString(conn, answer+"\r\n")
	}
	for {
		msg, err := dbus.DecodeMessage(in)
		if err != nil {
			return
		}
		f.replyToCall(conn, msg)
	}
}

// sendFault sends the fault for a request instead of the correct reply.
func (f *fakeSystemd) sendFault(conn net.Conn, member string, msg *dbus.Message) {
	fault := f.faults[member]
	switch {
	case fault.noReply && msg == nil:
		_, _ = io.Copy(io.Discard, conn) // until the client gives up
	case fault.noReply:
	case fault.name != "":
		reply := replyTo(msg, dbus.TypeError, fault.text)
		reply.Headers[dbus.FieldErrorName] = dbus.MakeVariant(fault.name)
		sendMessage(conn, reply)
	default:
		_, _ = io.WriteString(conn, fault.raw)
		_ = conn.Close()
	}
}

func (f *fakeSystemd) replyToCall(conn net.Conn, msg *dbus.Message) {
	member, _ := msg.Headers[dbus.FieldMember].Value().(string)
	f.mu.Lock()
	f.calls = append(f.calls, member)
	f.mu.Unlock()
	if _, struck := f.faults[member]; struck {
		f.sendFault(conn, member, msg)
		return
	}
	switch member {
	case "GetAll":
		f.mu.Lock()
		n := f.readCount
		f.readCount++
		f.mu.Unlock()
		properties := map[string]dbus.Variant{}
		for name, value := range f.unitProperties(n) {
			properties[name] = dbus.MakeVariant(value)
		}
		sendMessage(conn, replyTo(msg, dbus.TypeMethodReply, properties))
	case "Hello":
		sendMessage(conn, replyTo(msg, dbus.TypeMethodReply, ":1.7"))
	case "RestartUnit":
		sendMessage(conn, replyTo(msg, dbus.TypeMethodReply, dbus.ObjectPath("/org/freedesktop/systemd1/job/42")))
		if f.finishJob != nil {
			f.finishJob(f, msg)
		}
	default:
		sendMessage(conn, replyTo(msg, dbus.TypeMethodReply))
	}
}

// jobResult returns a handler that ends a job with a result.
func jobResult(result string) func(*fakeSystemd, *dbus.Message) {
	return func(f *fakeSystemd, _ *dbus.Message) {
		signal := newMessage(dbus.TypeSignal, uint32(jobID), dbus.ObjectPath("/org/freedesktop/systemd1/job/42"), "kubelet.service", result)
		signal.Headers[dbus.FieldPath] = dbus.MakeVariant(dbus.ObjectPath("/org/freedesktop/systemd1"))
		signal.Headers[dbus.FieldInterface] = dbus.MakeVariant("org.freedesktop.systemd1.Manager")
		signal.Headers[dbus.FieldMember] = dbus.MakeVariant("JobRemoved")
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, conn := range f.conns {
			sendMessage(conn, signal)
		}
	}
}

func replyTo(msg *dbus.Message, kind dbus.Type, body ...any) *dbus.Message {
	reply := newMessage(kind, body...)
	reply.Headers[dbus.FieldReplySerial] = dbus.MakeVariant(msg.Serial())
	return reply
}

func newMessage(kind dbus.Type, body ...any) *dbus.Message {
	msg := &dbus.Message{Type: kind, Headers: map[dbus.HeaderField]dbus.Variant{}, Body: body}
	msg.Headers[dbus.FieldSender] = dbus.MakeVariant("org.freedesktop.systemd1")
	if len(body) > 0 {
		msg.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
	}
	return msg
}

func sendMessage(conn net.Conn, msg *dbus.Message) {
	_ = msg.EncodeTo(conn, binary.LittleEndian) // the client may have disconnected
}

// runningUnit returns the systemd properties of a unit that runs as process pid. edits are pairs of
// a property's name and value.
func runningUnit(pid int, edits ...any) map[string]any {
	p := map[string]any{
		"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "MainPID": uint32(pid),
		"InvocationID": []byte{0xab, byte(pid)}, "NRestarts": uint32(0), "Result": "success",
		"ExecMainStatus": int32(0), "ExecMainCode": int32(0), "ExecMainStartTimestamp": uint64(1_790_000_000_000_000 + pid),
		"ConditionResult": true, "ConditionTimestamp": uint64(1), "Job": job{0, "/"},
	}
	for i := 0; i < len(edits); i += 2 {
		p[edits[i].(string)] = edits[i+1]
	}
	return p
}

type job struct {
	ID   uint32
	Path dbus.ObjectPath
}

// constantState returns a function that returns the same state for each query.
func constantState(p map[string]any) func(int) map[string]any {
	return func(int) map[string]any { return p }
}

// stateSequence returns a function that returns one state per query. The last state is repeated.
func stateSequence(ps ...map[string]any) func(int) map[string]any {
	return func(n int) map[string]any { return ps[min(n, len(ps)-1)] }
}

// startService starts the server and returns the kubelet's unit on it.
func (f *fakeSystemd) startService(t *testing.T) Service {
	return Service{Manager: f.startServer(t), Name: "kubelet.service", Poll: time.Millisecond}
}
