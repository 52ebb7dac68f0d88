// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// fieldWork is the path of a case's directory on its node.
const fieldWork = "/case"

// needsNamespaces reports whether a case needs its own namespaces, because it contains a node's root
// directory or a server with a host name.
func (c *fieldCase) needsNamespaces(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "root"))
	return err == nil || slices.ContainsFunc(c.servers, func(s string) bool { return fieldHost(s) != "" })
}

// fieldHost returns the host of a server, or "" if the server has none.
func fieldHost(server string) string {
	host, _, _ := net.SplitHostPort(strings.Fields(server)[0])
	return host
}

// isolatedCommand returns a command that runs a case in its own namespaces. The case's root directory is the
// file system. The network has only loopback, no other process is visible, and /etc/hosts lists the
// servers of the case.
func (c *fieldCase) isolatedCommand(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	root, bin := filepath.Join(dir, "root"), filepath.Join(dir, "root/.bin")
	text, err := os.ReadFile(c.path)
	hosts := "127.0.0.1 localhost\n"
	for i, s := range c.servers {
		if host := fieldHost(s); host != "" {
			hosts += fmt.Sprintf("127.0.1.%d %s\n", i+1, host)
		}
	}
	for _, d := range []string{bin, root + fieldWork, root + "/proc", root + "/dev", root + "/etc", root + "/tmp", root + "/root"} {
		err = errors.Join(err, os.MkdirAll(d, 0o755))
	}
	if slices.ContainsFunc(c.servers, func(s string) bool { return strings.HasPrefix(s, "unit ") }) {
		err = errors.Join(err, os.MkdirAll(root+"/run/systemd/system", 0o755)) // sd_booted(3) checks this directory
	}
	for _, name := range []string{"regcred", "kubelet", "fieldserve", "journalctl"} {
		err = errors.Join(err, os.Symlink("test", filepath.Join(bin, name)))
	}
	for name, text := range map[string]string{
		bin + "/test": "", root + "/dev/null": "", dir + "/.case.txtar": string(text),
		root + "/etc/hosts": hosts, root + "/etc/resolv.conf": "nameserver 127.0.0.1\n",
	} {
		err = errors.Join(err, os.WriteFile(name, []byte(text), 0o644))
	}
	binary, pathErr := os.Executable()
	if err = errors.Join(err, pathErr); err != nil {
		t.Fatal(err)
	}
	const script = `set -e
ip link set lo up
mount -t proc proc "$0/proc"
mount --bind /dev/null "$0/dev/null"
mount --bind "$1" "$0/case"
mount --bind "$2" "$0/.bin/test"
for file in /bin/sh $(ldd "$2" /bin/sh 2>/dev/null | grep -o '[[:space:]]/[^ :]*'); do
	mkdir -p "$0${file%/*}"
	touch "$0$file"
	mount --bind "$file" "$0$file"
done
exec chroot "$0" /.bin/fieldserve /case/.case.txtar /case`
	cmd := exec.Command("unshare", append(fieldNamespaces(t), "sh", "-c", script, root, dir, binary)...)
	cmd.Dir, cmd.Env = dir, append(c.commandEnviron(fieldWork), "PATH="+os.Getenv("PATH")+":/.bin", "HOME=/root")
	return cmd
}

// fieldNamespaces returns the flags that make unshare create the namespaces of a separate machine.
func fieldNamespaces(t *testing.T) []string {
	t.Helper()
	flags := []string{"--net", "--mount", "--pid", "--fork", "--kill-child"}
	if os.Geteuid() != 0 {
		flags = append(flags, "--user", "--map-root-user")
	}
	if out, err := exec.Command("unshare", append(flags, "sh", "-c", "ip link set lo up")...).CombinedOutput(); err != nil {
		t.Skipf("a machine of its own needs Linux, namespaces and ip: %v %s", err, out)
	}
	return flags
}

// fieldJournal is the file that contains the log of the kubelet's unit.
const fieldJournal = "/var/log/kubelet.log"

// fieldJournalMain implements the parts of journalctl that the tests use.
func fieldJournalMain() {
	if slices.Contains(os.Args, "--sync") {
		return
	}
	data, _ := os.ReadFile(fieldJournal)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	slices.Reverse(lines)
	fmt.Println(strings.Join(lines, "\n"))
}

// startSystemd serves the part of systemd's API that reports a unit's state.
func (n *fieldNet) startSystemd(state string) error {
	p := map[string]any{
		"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "MainPID": uint32(n.kubelet), "UnitFileState": "enabled",
		"InvocationID": []byte{1}, "NRestarts": uint32(0), "Result": "success", "ExecMainStatus": int32(0), "ExecMainCode": int32(0),
		"ExecMainStartTimestamp": uint64(time.Now().Add(-time.Hour).UnixMicro()), "ConditionResult": true, "ConditionTimestamp": uint64(1),
		"Job": struct {
			ID   uint32
			Path dbus.ObjectPath
		}{0, "/"},
	}
	if state == "failing" {
		p["ActiveState"], p["SubState"], p["NRestarts"], p["Result"] = "activating", "auto-restart", uint32(1091), "exit-code"
		p["ExecMainStatus"], p["ExecMainCode"] = int32(1), int32(1)
		p["ExecMainStartTimestamp"] = uint64(time.Now().Add(-3 * time.Second).UnixMicro())
	}
	properties := map[string]dbus.Variant{}
	for name, value := range p {
		properties[name] = dbus.MakeVariant(value)
	}
	if err := os.MkdirAll("/run/systemd", 0o755); err != nil {
		return err
	}
	listener, err := net.Listen("unix", "/run/systemd/private")
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serveSystemd(conn, properties)
		}
	}()
	return nil
}

// serveSystemd authenticates a client and returns the properties.
func serveSystemd(conn net.Conn, properties map[string]dbus.Variant) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for line := ""; line != "BEGIN"; {
		text, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimLeft(strings.TrimSpace(text), "\x00")
		answer := map[string]string{"AUTH": "REJECTED EXTERNAL", "AUTH EXTERNAL": "OK 0123", "NEGOTIATE_UNIX_FD": "ERROR"}[line]
		if line != "BEGIN" {
			io.WriteString(conn, answer+"\r\n")
		}
	}
	for {
		msg, err := dbus.DecodeMessage(in)
		if err != nil {
			return
		}
		reply := &dbus.Message{Type: dbus.TypeMethodReply, Body: []any{properties}, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldSender:      dbus.MakeVariant("org.freedesktop.systemd1"),
			dbus.FieldReplySerial: dbus.MakeVariant(msg.Serial()),
			dbus.FieldSignature:   dbus.MakeVariant(dbus.SignatureOf(properties)),
		}}
		if reply.EncodeTo(conn, binary.LittleEndian) != nil {
			return
		}
	}
}
