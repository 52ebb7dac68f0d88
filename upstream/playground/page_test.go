// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package playground

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestSamples verifies that the page shows the expected result for each sample.
func TestSamples(t *testing.T) {
	b := openBrowser(t)
	b.openPage("")
	names := evaluate[[]string](b, `[...document.querySelector("#sample").options].map((o) => o.value).filter(Boolean)`)
	wants := map[string][]string{
		"eks":              {"Kubelet 1.37 starts", "No provider matches", "nearest", "label 4", "Fix: *.dkr.ecr.eu-central-1.amazonaws.com"},
		"gke":              {"Kubelet 1.37 starts", "Would run 1 provider: auth-provider-gcp", "*.pkg.dev"},
		"aks":              {"Kubelet 1.37 starts", "Would run 1 provider: acr-credential-provider", "*.azurecr.io"},
		"service-accounts": {"Kubelet 1.37 starts", "Would run 1 provider: token-credential-provider"},
		"broken":           {"2 errors", "never matches", "Fix: registry.example.com", "scheme", "line 9, column 5"},
		"refused":          {"Kubelet 1.37 would not start", "rejected", "bin/corp-provider", "line 11, column 16"},
	}
	if len(names) != len(wants) {
		t.Errorf("samples are %q, want %d", names, len(wants))
	}
	for _, name := range names {
		b.chooseSample(name)
		said := b.textContent("#answer")
		for _, want := range wants[name] {
			if !strings.Contains(said, want) {
				t.Errorf("%s: no %q in:\n%s", name, want, said)
			}
		}
	}
	b.chooseSample("broken")
	if link := evaluate[string](b, `document.querySelector("#findings a").href`); !strings.HasSuffix(link, "/docs/lint/README.md#unmatchable-pattern-error") {
		t.Errorf("the rule is said to be explained at %s", link) // GitHub's anchor for the heading "### `unmatchable-pattern` (error)"
	}
	b.chooseSample("service-accounts")
	evaluate[bool](b, `(() => { const s = document.querySelector("#kubelet"); s.value = "1.32"; return s.dispatchEvent(new Event("change")); })()`)
	b.waitResult()
	if said := b.textContent("#answer"); !strings.Contains(said, "Kubelet 1.32 would not start") {
		t.Errorf("kubelet 1.32 and tokenAttributes: %s", said)
	}
}

// TestMarks verifies that findings are marked in their lines, and that a finding's button selects
// the marked text.
func TestMarks(t *testing.T) {
	b := openBrowser(t)
	b.openPage("")
	b.chooseSample("broken")
	b.waitDrawn()
	marked := evaluate[[]string](b, `[...document.querySelectorAll("#gutter .error, #gutter .info")].map((e) => e.className + " " + e.textContent)`)
	if want := []string{"info 6", "error 8", "error 9"}; !slices.Equal(marked, want) {
		t.Errorf("marked are %q, want %q", marked, want)
	}
	under := evaluate[[]string](b, `[...document.querySelectorAll("#marks mark")].map((e) => e.textContent)`)
	if want := []string{"0s", "\"*.example.com/team/*\"", "\"https://registry.example.com\""}; !slices.Equal(under, want) {
		t.Errorf("underlined are %q, want %q", under, want)
	}
	evaluate[any](b, `document.querySelector(".where").click()`)
	if got := evaluate[string](b, `(() => { const c = document.activeElement; return c.value.slice(c.selectionStart, c.selectionEnd); })()`); got != under[1] {
		t.Errorf("the first finding leads to %q", got)
	}
}

// TestMarkAfterWideCharacters verifies marks after wide characters. The columns of findings count
// bytes, but a browser counts UTF-16 code units.
func TestMarkAfterWideCharacters(t *testing.T) {
	b := openBrowser(t)
	b.openPage("")
	b.pasteText("#config", `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- {name: ecr, args: ["ä😀é"], defaultCacheDuration: "0s", matchImages: ["https://registry.example.com"], apiVersion: credentialprovider.kubelet.k8s.io/v1}
`)
	b.waitDrawn()
	under := evaluate[[]string](b, `[...document.querySelectorAll("#marks mark")].map((e) => e.textContent)`)
	if want := []string{`"https://registry.example.com"`, `"0s"`}; !slices.Equal(slices.Sorted(slices.Values(under)), slices.Sorted(slices.Values(want))) {
		t.Errorf("underlined are %q, want %q", under, want)
	}
}

// fiftyProvidersConfig returns a configuration with fifty providers of three patterns each.
func fiftyProvidersConfig() string {
	var s strings.Builder
	s.WriteString("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n")
	for i := range 50 {
		fmt.Fprintf(&s, "- name: provider-%d\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  defaultCacheDuration: 1h\n  matchImages:\n", i)
		for j := range 3 {
			fmt.Fprintf(&s, "  - registry-%d.*.team-%d.example\n", j, i)
		}
	}
	return s.String()
}

// TestTypingNeverBlocks verifies that typing never blocks. During a computation, the page must keep
// only the latest input and evaluate it afterwards.
func TestTypingNeverBlocks(t *testing.T) {
	b := openBrowser(t)
	callBrowser(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		globalThis.asked = 0;
		globalThis.busy = 0;
		globalThis.most = 0;
		const post = Worker.prototype.postMessage;
		Worker.prototype.postMessage = function (...args) { asked++; most = Math.max(most, ++busy); return post.apply(this, args); };
		const there = Object.getOwnPropertyDescriptor(Worker.prototype, "onmessage");
		Object.defineProperty(Worker.prototype, "onmessage", {set(f) {
			there.set.call(this, (event) => { if (event.data.answer) busy--; f(event); });
		}});`})
	b.openPage("")
	b.pasteText("#config", fiftyProvidersConfig())
	b.pasteText("#image", "registry-1.eu.team-1.example/app")
	var took []float64
	before := evaluate[int](b, "asked")
	const keys = "registry-2.us.team-49.example/app"
	b.runActions(chromedp.Focus(chromedp.CSS("#image")))
	evaluate[any](b, `document.querySelector("#image").select()`)
	for _, key := range keys {
		b.runActions(chromedp.KeyEvent(string(key)))
		b.waitResult()
		took = append(took, evaluate[float64](b, `performance.getEntriesByName("answer").at(-1).duration`))
	}
	if n := evaluate[int](b, "asked") - before; n != len(keys) {
		t.Errorf("%d keys, each answered, but %d questions", len(keys), n)
	}
	if said := b.textContent("#verdict"); !strings.Contains(said, "Would run 1 provider: provider-49") {
		t.Errorf("the response is %s", said)
	}
	// Type faster than responses arrive.
	before = evaluate[int](b, "asked")
	evaluate[any](b, `(() => {
		const image = document.querySelector("#image");
		for (let i = 0; i < 200; i++) {
			image.value = "registry-1.eu.team-" + (i % 50) + ".example/app";
			image.dispatchEvent(new InputEvent("input", {bubbles: true}));
		}
	})()`)
	b.waitResult()
	if n := evaluate[int](b, "asked") - before; n != 2 {
		t.Errorf("200 keys at once are %d questions, want the first and the last", n)
	}
	if said := b.textContent("#verdict"); !strings.Contains(said, "Would run 1 provider: provider-49") {
		t.Errorf("the response is not to the last: %s", said)
	}
	if most := evaluate[int](b, "most"); most != 1 {
		t.Errorf("%d questions at a time, want 1", most)
	}
	slices.Sort(took)
	edited := slices.Sorted(slices.Values(b.typeFiftyKeys(t)))
	t.Logf("a key in the configuration: median %.1f ms, longest %.1f ms", edited[len(edited)/2], edited[len(edited)-1])
	t.Logf("a key with 50 providers: median %.1f ms, longest %.1f ms until it is shown", took[len(took)/2], took[len(took)-1])
}

// typeFiftyKeys types a comment at the end of the configuration and returns, for each key, the
// milliseconds until its result was shown.
func (b *browserTab) typeFiftyKeys(t *testing.T) (took []float64) {
	t.Helper()
	b.runActions(chromedp.Focus(chromedp.CSS("#config")))
	evaluate[any](b, `document.querySelector("#config").setSelectionRange(1e6, 1e6)`)
	for range 50 {
		b.runActions(chromedp.KeyEvent("#"))
		b.waitResult()
		took = append(took, evaluate[float64](b, `performance.getEntriesByName("answer").at(-1).duration`))
	}
	return took
}

// TestHostile verifies that the page always shows a configuration's content as text. The page must
// stay responsive if the configuration is large.
func TestHostile(t *testing.T) {
	b := openBrowser(t)
	b.openPage("")
	const markup = "<img src=x onerror=alert(1)><script>alert(2)</script>"
	b.pasteText("#config", "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: '"+markup+"'\n  matchImages: ['"+markup+"', a.example]\n  apiVersion: '"+markup+"'\n")
	b.pasteText("#image", "a.example/"+markup)
	if said := b.textContent("#answer"); !strings.Contains(said, "<img") {
		t.Errorf("it is not shown: %s", said)
	}
	b.pasteText("#config", strings.ReplaceAll(fiftyProvidersConfig(), "provider-1\n", "'<b>bold</b>'\n"))
	b.pasteText("#image", "registry-1.eu.team-1.example/app")
	if said := b.textContent("#answer"); !strings.Contains(said, "<b>bold</b>") {
		t.Errorf("it is not shown: %s", said)
	}
	if n := evaluate[int](b, `document.querySelectorAll("main img, main script, main b, main iframe").length`); n != 0 {
		t.Errorf("%d elements come from the configuration", n)
	}

	for _, tt := range []struct{ name, text, want string }{
		{"100 providers, half of them faulty", strings.ReplaceAll(fiftyProvidersConfig(), "- name: provider-", "- name: again\n- name: provider-"), "would not start"},
		{"1 MiB in a line", strings.Repeat("x", 1<<20), "would not start"},
		{"1 MiB in 20,000 lines", strings.Repeat("- "+strings.Repeat("x", 49)+"\n", 19_999), "would not start"},
		{"more than that", strings.Repeat("x", 1<<20+1), "this page accepts at most 1 MiB"},
		{"more lines than that", strings.Repeat("\n", 20_000), "this page accepts at most 20000"},
	} {
		b.pasteText("#config", tt.text)
		if said := b.textContent("#answer"); !strings.Contains(said, tt.want) {
			t.Errorf("%s: no %q in %.300s", tt.name, tt.want, said)
		}
		b.waitDrawn()
		if n := evaluate[int](b, `document.querySelectorAll("*").length`); n > 3000 {
			t.Errorf("%s: %d elements on the page", tt.name, n)
		}
		t.Logf("%s: answered within %.0f ms", tt.name, evaluate[float64](b, `performance.getEntriesByName("answer").at(-1)?.duration ?? 0`))
	}
	b.chooseSample("gke")
	before := b.textContent("#verdict")
	if !evaluate[bool](b, `(() => {
		const data = new DataTransfer();
		data.setData("text/plain", "x\n".repeat(500000));
		return !document.querySelector("#config").dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, cancelable: true, bubbles: true}));
	})()`) {
		t.Error("half a million lines are pasted")
	}
	if said := b.textContent("#answer"); !strings.Contains(said, "500001 lines") || !strings.Contains(said, strings.TrimSpace(before)) {
		t.Errorf("what is too large to paste: %s", said)
	}
	b.errorsExpected = true // the module below throws an exception
	b.pasteText("#config", "providers: "+strings.Repeat("[", 9000))
	b.waitFor(`document.querySelector("#answer").innerText.includes("nested too deeply") || document.querySelector("#answer").innerText.includes("would not start")`)
	b.chooseSample("gke")
	if said := b.textContent("#verdict"); !strings.Contains(said, "Would run 1 provider") {
		t.Errorf("after that: %s", said)
	}
}

// TestShareLink verifies that a link is created only on request. If the link may contain a secret,
// the page must warn first. The link restores the page's content.
func TestShareLink(t *testing.T) {
	b := openBrowser(t)
	b.openPage("")
	visible := func(id string) bool {
		return evaluate[bool](b, fmt.Sprintf("document.querySelector(%q).checkVisibility()", "#"+id))
	}
	press := func(id string) { evaluate[any](b, fmt.Sprintf("document.querySelector(%q).click()", "#"+id)) }
	b.chooseSample("gke") // this sample has args
	press("share")
	if !visible("warning") || visible("link") || evaluate[string](b, "location.hash") != "" {
		t.Errorf("a link to arguments, without a warning")
	}
	press("close")
	if got := evaluate[string](b, "location.hash"); got != "" {
		t.Errorf("refused, but the address has %q", got)
	}
	b.pasteText("#config", "password: canary")
	press("share")
	if !visible("warning") {
		t.Errorf("a link to something unknown, without a warning")
	}
	press("close")

	for _, sample := range []string{"eks", "gke"} {
		b.chooseSample(sample)
		evaluate[bool](b, `(() => { const s = document.querySelector("#kubelet"); s.value = "1.34"; return s.dispatchEvent(new Event("change")); })()`)
		b.waitResult()
		text, image := evaluate[string](b, `document.querySelector("#config").value`), evaluate[string](b, `document.querySelector("#image").value`)
		said := b.textContent("#answer")
		press("share")
		if visible("make") {
			press("make")
		} else if sample != "eks" {
			t.Errorf("%s: no warning", sample)
		}
		b.waitFor(`document.querySelector("#link").checkVisibility()`)
		link := evaluate[string](b, `document.querySelector("#link").value`)
		if link != evaluate[string](b, "location.href") || !strings.HasPrefix(link, playground.url+"#z=") {
			t.Fatalf("%s: the link is %q", sample, link)
		}
		b.openPage(strings.TrimPrefix(link, playground.url))
		b.waitFor(fmt.Sprintf(`document.querySelector("#image").value === %s`, quoteJS(image)))
		b.waitResult()
		if got := evaluate[string](b, `document.querySelector("#config").value`); got != text || b.textContent("#answer") != said || evaluate[string](b, `document.querySelector("#kubelet").value`) != "1.34" {
			t.Errorf("%s: the link brings %q, and %s", sample, got, b.textContent("#answer"))
		}
		b.pasteText("#image", "other.example/app")
		if got := evaluate[string](b, "location.href"); got != playground.url {
			t.Errorf("changed, but the address is %q", got)
		}
	}
	for _, fragment := range []string{"#z=", "#z=AAAA", "#p=bnVsbA", "#p=e30", "#z=" + strings.Repeat("A", 40<<10), "#p=%%%"} {
		b.runActions(chromedp.Navigate("about:blank"), chromedp.Navigate(playground.url+fragment))
		b.waitFor(`document.querySelector("#state").innerText.includes("Cannot read the link")`)
	}
}

// TestKeyboard verifies that everything can be reached and used by keyboard in the order of the page, and that the
// configuration field does not trap the focus.
func TestKeyboard(t *testing.T) {
	b := openBrowser(t)
	b.openPage("")
	b.chooseSample("broken")
	focus := func() string {
		return evaluate[string](b, `(() => { const e = document.activeElement; return e.id || e.className || e.tagName; })()`)
	}
	evaluate[any](b, "document.activeElement.blur()")
	var order []string
	for range 12 {
		b.runActions(chromedp.KeyEvent(kb.Tab))
		order = append(order, focus())
	}
	if want := []string{"skip", "sample", "kubelet", "image", "share", "config", "where"}; !slices.Equal(order[:len(want)], want) {
		t.Errorf("Tab leads to %q, want %q", order, want)
	}
	b.runActions(chromedp.Focus(chromedp.CSS("#share")), chromedp.KeyEvent(kb.Enter))
	b.waitFor(`document.querySelector("#dialog").open`)
	evaluate[any](b, `document.querySelector("#dialog").addEventListener("close", () => { window.dialogClosed = true; }, {once: true})`)
	b.runActions(chromedp.KeyEvent(kb.Escape))
	b.waitFor("window.dialogClosed")
	if got := focus(); got != "share" {
		t.Errorf("after Escape the focus is on %q", got)
	}
	b.runActions(chromedp.Focus(chromedp.CSS(".where")), chromedp.KeyEvent(kb.Enter))
	if got := focus(); got != "config" {
		t.Errorf("a finding's place leads to %q", got)
	}
	b.runActions(chromedp.KeyEvent("typed"))
	b.waitResult()
	b.waitFor(`document.querySelector("#spoken").textContent.includes("Kubelet 1.37")`)
	unnamed := evaluate[[]string](b, `[...document.querySelectorAll("input, select, textarea, button")].filter((e) => !(e.labels?.length || e.textContent.trim())).map((e) => e.id)`)
	if len(unnamed) > 0 {
		t.Errorf("without a label: %q", unnamed)
	}
}
