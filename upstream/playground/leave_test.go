// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package playground

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/regcred/regcred/internal/must"
)

// TestBrowserSendsNothing verifies that the browser requests only the page's files, and only from
// the page's server, whatever the user does. The page must store nothing in the browser. Chromium's
// log contains all requests, including those from workers.
func TestBrowserSendsNothing(t *testing.T) {
	netlog := filepath.Join(t.TempDir(), "netlog.json")
	b := openBrowser(t, chromedp.Flag("log-net-log", netlog))
	b.openPage("")
	for _, sample := range []string{"gke", "broken", "refused"} {
		b.chooseSample(sample)
	}
	b.pasteText("#image", "registry.example/x")
	evaluate[any](b, `document.querySelector("#share").click()`)
	evaluate[any](b, `document.querySelector("#make").click()`)
	b.waitFor(`document.querySelector("#link").checkVisibility()`)
	stored := evaluate[string](b, `(async () => JSON.stringify([localStorage.length, sessionStorage.length, document.cookie,
		(await indexedDB.databases()).length, (await caches.keys()).length, (await navigator.serviceWorker.getRegistrations()).length]))()`)
	if stored != `[0,0,"",0,0,0]` {
		t.Errorf("stored is %s", stored)
	}
	b.closeTab()
	data := must.Get(os.ReadFile(netlog))(t)
	var log struct {
		Events []struct {
			Params struct{ URL, Initiator string }
		}
	}
	must.Do(t, json.Unmarshal(data, &log))
	own := regexp.MustCompile("^" + regexp.QuoteMeta(playground.url) + `((index|page|asker|editor|share|view|worker|wasm_exec)\.(html|js)|style\.css|regcred\.wasm\.z)?$`)
	asked := map[string]int{}
	for _, e := range log.Events {
		// Requests without an initiator are sent by Chromium itself, for example for updates.
		if origin := strings.TrimSuffix(playground.url, "/"); e.Params.URL != "" && e.Params.Initiator == origin {
			asked[e.Params.URL]++
		} else if strings.Contains(e.Params.Initiator, "://") && e.Params.Initiator != origin {
			t.Errorf("%s is requested for %s", e.Params.URL, e.Params.Initiator)
		}
	}
	for url := range asked {
		if !own.MatchString(url) {
			t.Errorf("requested is %s", url)
		}
	}
	for _, name := range []string{"page.js", "worker.js", "regcred.wasm.z"} {
		if asked[playground.url+name] == 0 {
			t.Errorf("the log has no request for %s: it is not the page's log: %v", name, asked)
		}
	}
	for _, url := range b.requests {
		if !own.MatchString(strings.Split(url, "#")[0]) && url != "about:blank" {
			t.Errorf("the page requests %s", url)
		}
	}
	t.Logf("%d files are requested, all of them the page's own", len(asked))
}

// TestPolicy verifies that the page's Content Security Policy blocks forbidden actions, and that
// the browser reports them.
func TestPolicy(t *testing.T) {
	b := openBrowser(t)
	b.openPage("")
	b.errorsExpected = true
	for name, code := range map[string]string{
		"fetch":  `fetch("http://127.0.0.1:1/").then(() => true, () => false)`,
		"image":  `new Promise((r) => { const i = new Image(); i.onload = () => r(true); i.onerror = () => r(false); i.src = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA="; })`,
		"script": `new Promise((r) => { const s = document.createElement("script"); s.textContent = "globalThis.ran = true"; document.body.append(s); r(globalThis.ran === true); })`,
		"style":  `(() => { const s = document.createElement("style"); s.textContent = "h1 { position: fixed }"; document.body.append(s); return getComputedStyle(document.querySelector("h1")).position === "fixed"; })()`,
	} {
		if evaluate[bool](b, code) {
			t.Errorf("%s: it works", name)
		}
	}
	if n := strings.Count(strings.Join(b.policyViolations(), "\n"), "policy: "); n < 4 {
		t.Errorf("%d violations are reported, want 4: %q", n, b.policyViolations())
	}
}

func (b *browserTab) policyViolations() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.browserErrors
}

// TestWithoutModule verifies that a page that cannot load its module shows an error with a fix.
func TestWithoutModule(t *testing.T) {
	b := openBrowser(t)
	b.errorsExpected = true
	dir := filepath.Join(t.TempDir(), "site")
	if out, err := exec.Command(filepath.Join(playground.dir, "playground"), "-o", dir).CombinedOutput(); err != nil {
		t.Fatalf("-o: %v\n%s", err, out)
	}
	files := http.FileServer(http.Dir(dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store") // the test changes the files, which a browser would otherwise cache
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	b.runActions(chromedp.Navigate(server.URL)) // any server of static files can host the page
	b.waitResult()
	if said := b.textContent("#verdict"); !strings.Contains(said, "Kubelet 1.37 starts") {
		t.Errorf("on another server: %s", said)
	}
	b.runActions(chromedp.Navigate("file://" + dir + "/index.html"))
	if said := b.textContent("#state"); !strings.Contains(said, "go run ./docs/playground") {
		t.Errorf("as a file: %s", said)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "regcred.wasm.z"), []byte("no module"), 0o600))
	b.runActions(chromedp.Navigate(server.URL + "/?broken"))
	b.waitFor(`document.querySelector("#state").innerText.includes("The check failed")`)
	must.Do(t, os.Remove(filepath.Join(dir, "regcred.wasm.z")))
	b.runActions(chromedp.Navigate(server.URL + "/?missing"))
	b.waitFor(`document.querySelector("#state").innerText.includes("The check failed: regcred.wasm.z: 404")`)
	if !evaluate[bool](b, `(() => { const c = document.querySelector("#config"); c.value = "x"; return c.dispatchEvent(new InputEvent("input")); })()`) {
		t.Error("the field does not take text")
	}
}

// quoteJS encodes a value for JavaScript.
func quoteJS(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot happen for a string or a struct of strings
	}
	return string(data)
}
