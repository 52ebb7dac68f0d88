// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cloud_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/keychain/cloud"
	"github.com/regcred/regcred/provider/acr"
	"github.com/regcred/regcred/provider/ecr"
	"github.com/regcred/regcred/provider/gcr"
)

// envImagePattern is an environment variable. If it is set, the test binary runs as a program in a pod and
// looks up images with this pattern.
const envImagePattern = "CLOUD_TEST_IMAGE"

func TestMain(m *testing.M) {
	if image := os.Getenv(envImagePattern); image != "" {
		os.Exit(runProgram(image))
	}
	os.Exit(m.Run())
}

// lookupsPerRound is the number of registries that the program looks up in each of its two rounds.
const lookupsPerRound = 40

// runProgram looks up images of many registries in two rounds, and waits for a line on standard input
// after each. It prints the number of failures, and whether goroutines and files have leaked. It is
// configured only by its environment.
func runProgram(image string) (status int) {
	k, err := cloud.New(regcred.Options{},
		requireProvider(ecr.InPod(ecr.Options{})), requireProvider(gcr.InPod(gcr.Options{})), requireProvider(acr.InPod(acr.Options{})))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer k.Close()
	goroutines, files, stdin := 0, 0, bufio.NewReader(os.Stdin)
	for half := range 2 {
		failed := 0
		for i := range lookupsPerRound {
			if _, err := k.Lookup(context.Background(), regcred.Request{Image: fmt.Sprintf(image, 100+half*lookupsPerRound+i)}); err != nil {
				failed++
			}
			if half == 0 && i == 0 { // after the first lookup has created the values that exist once per process
				goroutines, files = countOpenResources()
			}
		}
		fmt.Println("failed:", failed)
		stdin.ReadString('\n')
	}
	g, f := countOpenResources()
	for deadline := time.Now().Add(8 * time.Second); (g > goroutines+8 || f > files+8) && time.Now().Before(deadline); g, f = countOpenResources() {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("more goroutines:", g > goroutines+8, "more files:", f > files+8)
	return 0
}

// countOpenResources returns the number of goroutines and of open file descriptors. Descriptors can
// be counted only on Linux.
func countOpenResources() (goroutines, files int) {
	entries, _ := os.ReadDir("/proc/self/fd")
	return runtime.NumGoroutine(), len(entries)
}

// TestNoGoroutinesOrConnectionsStay verifies that finished lookups, successful or not, leave no
// connections and goroutines in a long-running program, and that the library writes nothing to
// standard error. It uses a separate process with the providers' own transports.
func TestNoGoroutinesOrConnectionsStay(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("Go takes the authority from SSL_CERT_FILE on Linux and the BSDs, and descriptors are counted in Linux' /proc")
	}
	for name, tt := range map[string]struct {
		newCloud func(t *testing.T) (*testcloud.Server, []string)
		image    string
	}{
		"Amazon": {startAWSProcess, "111122223%d.dkr.ecr.eu-west-1.amazonaws.com/app"},
		"Google": {startGoogleProcess, "r%d-docker.pkg.dev/project/app"},
		"Azure":  {startAzureProcess, "team%d.azurecr.io/app"},
	} {
		t.Run(name, func(t *testing.T) {
			server, environ := tt.newCloud(t)
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(environ, envImagePattern+"="+tt.image, "GOCOVERDIR="+t.TempDir())
			var stderr strings.Builder
			cmd.Stderr = &stderr
			stdin := must.Get(cmd.StdinPipe())(t)
			stdout := must.Get(cmd.StdoutPipe())(t)
			must.Do(t, cmd.Start())
			defer cmd.Process.Kill()
			lines := bufio.NewReader(stdout)
			said, _ := lines.ReadString('\n')
			asked := len(server.Requests())
			server.Inject(testcloud.Fault{Times: -1, Status: http.StatusForbidden})
			io.WriteString(stdin, "\n\n")
			rest, _ := io.ReadAll(lines)
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			want := fmt.Sprintf("failed: 0\nfailed: %d\nmore goroutines: false more files: false\n", lookupsPerRound)
			if got := said + string(rest); got != want || stderr.Len() != 0 {
				t.Errorf("got\n%s\nwant\n%s\nstandard error\n%s", got, want, stderr.String())
			}
			if refused := len(server.Requests()) - asked; asked < lookupsPerRound || refused < lookupsPerRound {
				t.Errorf("the cloud was called %d times, and then %d", asked, refused)
			}
		})
	}
}

func startAWSProcess(t *testing.T) (*testcloud.Server, []string) {
	aws := must.Get(testcloud.NewAWS())(t)
	t.Cleanup(aws.Close)
	return aws.Server, append(aws.Environ(), "AWS_CONFIG_FILE=", "AWS_SHARED_CREDENTIALS_FILE=")
}

func startGoogleProcess(t *testing.T) (*testcloud.Server, []string) {
	google := must.Get(testcloud.NewGoogle(newFakeNetwork(t)))(t)
	t.Cleanup(google.Close)
	return google.Server, google.Environ()
}

func startAzureProcess(t *testing.T) (*testcloud.Server, []string) {
	net, azure := newFakeNetwork(t), testcloud.NewAzure()
	t.Cleanup(azure.Close)
	azure.AddHosts(net)
	return azure.Server, append(net.Environ(), azure.Environ()...)
}

// newFakeNetwork creates a fake network. The test fails if a program connects to an unknown host.
func newFakeNetwork(t *testing.T) *testcloud.FakeNetwork {
	t.Helper()
	net := must.Get(testcloud.NewFakeNetwork())(t)
	t.Cleanup(func() {
		net.Close()
		if strays := net.UnknownHosts(); len(strays) > 0 {
			t.Errorf("other hosts were called: %q", strays)
		}
	})
	return net
}
