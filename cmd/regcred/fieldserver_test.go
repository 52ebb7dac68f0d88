// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bufio"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/internal/testkube"
	"github.com/regcred/regcred/internal/testregistry"
)

// fieldSetupFailed is the exit code for a case that could not be set up.
const fieldSetupFailed = 97

// fieldServer returns the command that starts the servers of a case and then runs
// regcred.
func fieldServer(t *testing.T, casePath, dir string) (path string, args []string) {
	t.Helper()
	path, err := exec.LookPath("fieldserve")
	if err != nil {
		t.Fatal(err)
	}
	if casePath, err = filepath.Abs(casePath); err != nil {
		t.Fatal(err)
	}
	return path, []string{"fieldserve", casePath, dir}
}

// fieldServeMain implements the command fieldserve CASE DIR.
func fieldServeMain() {
	code, err := fieldServeEnv(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = fieldSetupFailed
	}
	os.Exit(code)
}

func fieldServeEnv(path, dir string) (int, error) {
	c, err := readFieldCase(path)
	if err != nil {
		return 0, err
	}
	n := &fieldNet{dir: dir}
	for _, s := range c.servers {
		if err := n.startServer(c, strings.Fields(c.expandVariables(s, dir))); err != nil {
			return 0, fmt.Errorf("server: %s: %w", s, err)
		}
	}
	run := strings.ReplaceAll(c.expandVariables(c.run, dir), "$KUBELET_PID", strconv.Itoa(n.kubelet))
	cmd := exec.Command("regcred", strings.Fields(run)...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = os.Stdout, os.Stderr, dir
	cmd.Env = append(os.Environ(), n.env...)
	err = cmd.Run()
	if exitErr, ok := errors.AsType[*exec.ExitError](err); ok {
		return exitErr.ExitCode(), nil
	}
	return 0, err
}

// fieldNet runs the servers of a case. They end with the process.
type fieldNet struct {
	dir     string
	kubelet int
	ca      *fieldCA
	names   bool
	env     []string
}

// startServer starts a server:
//
//	kube FILE USER         an API server; a kubeconfig of USER is at kubeconfig
//	kubelet ARGS           a process of that name
//	unit NAME STATE        the state that systemd reports for a unit: running or failing
//	HOST:PORT SETTINGS     a registry, or another server at its address
func (n *fieldNet) startServer(c *fieldCase, words []string) error {
	switch words[0] {
	case "kube":
		return n.startKube(words[1], words[2])
	case "kubelet":
		return n.startKubelet(c, words[1:])
	case "unit":
		return n.startSystemd(words[2])
	}
	if err := n.startDNS(); err != nil {
		return err
	}
	settings := fieldSettings{"tls": "good", "auth": "none"}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		settings[key] = strings.TrimSpace(settings.splitList(key) + " " + value)
	}
	return n.startRegistry(words[0], settings)
}

// fieldSettings holds a server's KEY=VALUE settings:
//
//	auth=none|basic|bearer  user=NAME:PASSWORD  allow=NAME:REPOSITORY
//	push=REPOSITORY:TAG     realm=URL of the token server, without its path
//	tls=good|none|expired|early|unknown|other-name
//	answer=STATUS, with body=html|empty, to everything
//	listen=no|hang
type fieldSettings map[string]string

func (s fieldSettings) splitList(key string) string {
	if key == "user" || key == "allow" || key == "push" {
		return s[key]
	}
	return ""
}

func (n *fieldNet) startRegistry(addr string, s fieldSettings) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || s["listen"] == "no" {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	if s["listen"] == "hang" {
		return nil // the kernel accepts connections, but no process responds
	}
	scheme := "https://"
	if s["tls"] == "none" {
		scheme = "http://"
	}
	handler, err := s.registryHandler(cmp.Or(s["realm"], scheme+strings.TrimSuffix(addr, ":443")))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	if s["tls"] == "none" {
		go server.Serve(listener)
		return nil
	}
	if server.TLSConfig, err = n.newCertificate(host, s["tls"]); err != nil {
		return err
	}
	go server.ServeTLS(listener, "", "")
	return nil
}

func (s fieldSettings) registryHandler(url string) (http.Handler, error) {
	if s["answer"] != "" {
		status, err := strconv.Atoi(s["answer"])
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if s["challenge"] != "" {
				w.Header().Set("WWW-Authenticate", strings.ReplaceAll(s["challenge"], "_", " "))
			}
			w.WriteHeader(status)
			if s["body"] == "html" {
				io.WriteString(w, "<!DOCTYPE html><html><body>Sign in</body></html>")
			}
		}), err
	}
	opts := testregistry.Options{TokenServerURL: url, Users: map[string]string{}}
	opts.Auth = map[string]testregistry.Auth{"none": testregistry.AuthNone, "basic": testregistry.AuthBasic, "bearer": testregistry.AuthBearer}[s["auth"]]
	for _, u := range strings.Fields(s["user"]) {
		name, password, _ := strings.Cut(u, ":")
		opts.Users[name] = password
	}
	for _, a := range strings.Fields(s["allow"]) {
		name, repo, _ := strings.Cut(a, ":")
		opts.Rules = append(opts.Rules, testregistry.Rule{User: name, Prefix: repo, Pull: true})
	}
	registry, err := testregistry.New(opts)
	if err != nil {
		return nil, err
	}
	for _, p := range strings.Fields(s["push"]) {
		repo, tag, _ := strings.Cut(p, ":")
		if _, err := registry.Push(repo, tag, testregistry.Image{}); err != nil {
			return nil, err
		}
	}
	return registry, nil
}

// startDNS starts a DNS server that does not resolve any name. The names of the servers are in
// /etc/hosts.
func (n *fieldNet) startDNS() error {
	if n.names {
		return nil
	}
	n.names = true
	conn, err := net.ListenPacket("udp", "127.0.0.1:53")
	if err != nil {
		return err
	}
	go func() {
		buf := make([]byte, 512)
		for {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			answer := slices.Clone(buf[:size])
			answer[2] |= 0x80             // a response
			answer[3] = 0x80 | 3          // recursion available, no such name (RFC 1035, 4.1.1)
			answer[10], answer[11] = 0, 0 // no additional records
			conn.WriteTo(splitQuestion(answer), from)
		}
	}()
	return nil
}

// splitQuestion returns the header and the only question of a DNS message.
func splitQuestion(m []byte) []byte {
	i := 12
	for i < len(m) && m[i] != 0 {
		i += int(m[i]) + 1
	}
	return m[:min(i+5, len(m))]
}

// fieldCA is a CA that issues the certificates of a case's servers.
type fieldCA struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newFieldCA(name string) (*fieldCA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-24 * 365 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &fieldCA{key, cert}, err
}

// newCertificate returns a server's certificate of the given kind.
func (n *fieldNet) newCertificate(host, kind string) (*tls.Config, error) {
	if n.ca == nil {
		if err := n.createCA(); err != nil {
			return nil, err
		}
	}
	ca, from, until := n.ca, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	switch kind {
	case "good":
	case "expired":
		from, until = time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour)
	case "early":
		from, until = time.Now().Add(24*time.Hour), time.Now().Add(48*time.Hour)
	case "other-name":
		host = "ingress.local"
	case "unknown":
		var err error
		if ca, err = newFieldCA("Example Internal CA"); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("tls=%s: what is that?", kind)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, NotBefore: from, NotAfter: until,
		DNSNames: []string{host}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &ca.key.PublicKey, ca.key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: ca.key}}}, nil
}

// createCA creates the CA that the case's machine trusts.
func (n *fieldNet) createCA() (err error) {
	if n.ca, err = newFieldCA("Example Root"); err != nil {
		return err
	}
	file := filepath.Join(n.dir, ".ca.pem")
	n.env = append(n.env, "SSL_CERT_FILE="+file, "SSL_CERT_DIR="+filepath.Join(n.dir, ".none"))
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: n.ca.cert.Raw}), 0o644)
}

func (n *fieldNet) startKube(file, user string) error {
	data, err := os.ReadFile(filepath.Join(n.dir, file))
	if err != nil {
		return err
	}
	var c testCluster
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return err
	}
	server, err := testkube.New(testkube.Options{})
	if err != nil {
		return err
	}
	c.addObjects(server)
	return server.Kubeconfig(filepath.Join(n.dir, "kubeconfig"), user)
}

// startKubelet runs a process named kubelet in the case's directory.
func (n *fieldNet) startKubelet(c *fieldCase, args []string) error {
	for i := range args {
		args[i] = c.expandVariables(args[i], n.dir)
	}
	cmd := exec.Command("kubelet", args...)
	cmd.Dir, cmd.Env = n.dir, []string{"GORACE=" + noRaceSleep, "PATH=" + os.Getenv("PATH")}
	if _, err := cmd.StdinPipe(); err != nil { // the command exits when its stdin is closed
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	n.kubelet = cmd.Process.Pid
	_, err = bufio.NewReader(stdout).ReadString('\n')
	return err
}
