// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Waiter is the program in the test images, including the sandbox image. It waits for
// SIGTERM or SIGINT.
//
//	waiter say TEXT   prints TEXT first
//	waiter from PIPE  copies lines from a named pipe: "1 TEXT" to standard output,
//	                  "2 TEXT" to standard error
//	waiter ask        prints the API server's version, using the pod's in-cluster
//	                  configuration, and exits
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	switch args := os.Args[1:]; {
	case len(args) == 2 && args[0] == "say":
		fmt.Println(args[1])
	case len(args) == 2 && args[0] == "from":
		go copyPipeLines(args[1])
	case len(args) == 1 && args[0] == "ask":
		if err := printServerVersion(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	<-end
}

// copyPipeLines copies lines from a named pipe. Opening it for writing too prevents EOF.
func copyPipeLines(path string) {
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	for lines := bufio.NewReader(pipe); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		out := os.Stdout
		if line[0] == '2' {
			out = os.Stderr
		}
		out.WriteString(line[2:])
	}
}

// printServerVersion prints the API server's version, using the in-cluster configuration.
func printServerVersion() error {
	const dir = "/var/run/secrets/kubernetes.io/serviceaccount/"
	ca, err := os.ReadFile(dir + "ca.crt")
	if err != nil {
		return err
	}
	token, err := os.ReadFile(dir + "token")
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	url := "https://" + net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")) + "/version"
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+string(token))
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(os.Stdout, resp.Body)
	return err
}
