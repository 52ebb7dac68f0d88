// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testcloud_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/regcred/regcred/internal/testcloud"
)

func TestNet(t *testing.T) {
	server := testcloud.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "here "+r.Host) }))
	defer server.Close()
	net, err := testcloud.NewNet()
	if err != nil {
		t.Fatal(err)
	}
	defer net.Close()
	net.Handle("sts.googleapis.com", server)
	net.Handle("*.azurecr.io", server)
	client := &http.Client{Transport: net.Transport()}
	for _, url := range []string{"https://sts.googleapis.com/v1/token", "http://sts.googleapis.com/v1/token", "https://a.b.azurecr.io/v2/"} {
		resp, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if got, want := string(body), "here "+resp.Request.URL.Host; got != want {
			t.Errorf("%s: got %q, want %q", url, got, want)
		}
	}
	if _, err := client.Get("https://elsewhere.example/"); err == nil {
		t.Error("https://elsewhere.example/: answered")
	}
	if got := net.Strays(); len(got) != 1 || got[0] != "elsewhere.example:443" {
		t.Errorf("strays: %q", got)
	}
	if got := len(server.Requests()); got != 3 {
		t.Errorf("recorded %d requests, want 3", got)
	}
}
