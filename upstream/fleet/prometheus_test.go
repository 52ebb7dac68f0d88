// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testenv"
	"github.com/regcred/regcred/upstream/node"
)

// prometheusAddress is the address of Prometheus in the network namespace of the tests.
const prometheusAddress = "127.0.0.1:9090"

// testPrometheus checks that a real Prometheus scrapes the agents and shows each node's
// generation and its providers' metrics.
func (r *release) testPrometheus(t *testing.T) {
	if _, err := exec.LookPath("prometheus"); err != nil {
		testenv.SkipUnlessAvailable(t, "fleet", "prometheus is not installed; on Debian: apt-get install prometheus")
	}
	targets := []string{}
	for _, p := range r.listAgentPods(t) {
		targets = append(targets, p.Status.PodIP+":9476")
	}
	startPrometheus(t, targets)
	for query, want := range map[string]string{
		`count(up == 1)`:                     "2",
		`count(regcred_node_generation > 0)`: "2",
		`count(sum by (instance) (regcred_provider_runs_total{provider="` + providerForHost(firstHost) + `"}) > 0)`: "2",
	} {
		node.Eventually(t, time.Minute, func(ctx context.Context) error {
			got, err := queryPrometheus(ctx, query)
			if err == nil && got != want {
				err = fmt.Errorf("%s is %q, want %s", query, got, want)
			}
			return err
		})
	}
	resp := must.Get(http.Get("http://" + targets[0] + "/metrics"))(t)
	defer resp.Body.Close()
	lint := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	lint.Stdin = resp.Body
	if problems, err := lint.CombinedOutput(); err != nil {
		t.Errorf("promtool: %v: %s", err, problems)
	}
}

func startPrometheus(t *testing.T, targets []string) {
	t.Helper()
	dir := t.TempDir()
	list := must.Get(json.Marshal(targets))(t)
	config := filepath.Join(dir, "prometheus.yml")
	text := "global: {scrape_interval: 2s}\nscrape_configs: [{job_name: regcred, static_configs: [{targets: " + string(list) + "}]}]\n"
	must.Do(t, os.WriteFile(config, []byte(text), 0o600))
	cmd := exec.CommandContext(t.Context(), "prometheus", "--config.file="+config, "--storage.tsdb.path="+dir+"/data", "--web.listen-address="+prometheusAddress)
	var said strings.Builder
	cmd.Stderr = &said
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus: %s", said.String())
		}
	})
}

// queryPrometheus queries Prometheus and returns the value of a query that has a single result.
func queryPrometheus(ctx context.Context, query string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+prometheusAddress+"/api/v1/query?query="+url.QueryEscape(query), nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	var answer struct {
		Data struct{ Result []struct{ Value []any } }
	}
	if err := json.Unmarshal(data, &answer); err != nil || len(answer.Data.Result) != 1 || len(answer.Data.Result[0].Value) != 2 {
		return "", fmt.Errorf("prometheus says to %s: %.300s", query, data)
	}
	return fmt.Sprint(answer.Data.Result[0].Value[1]), nil
}
