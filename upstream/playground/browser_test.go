// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package playground

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/regcred/regcred/internal/must"
)

// openBrowser starts a browser with additional flags and returns an empty tab. An error that the browser
// reports fails the test, unless errors are expected.
func openBrowser(t *testing.T, flags ...chromedp.ExecAllocatorOption) *browserTab {
	t.Helper()
	isolatedTests.SkipUnlessAvailable(t)
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.NoSandbox, // the sandbox does not work as root, and there is no network
		chromedp.Env("HOME="+t.TempDir()),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-domain-reliability", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
	ctx, stop := chromedp.NewExecAllocator(ctx, append(options, flags...)...)
	ctx, done := chromedp.NewContext(ctx)
	b := &browserTab{t: t, ctx: ctx}
	b.close = func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Error("closing the browser:", err)
		}
		done()
		stop()
		cancel()
	}
	t.Cleanup(func() {
		if b.close != nil {
			b.closeTab()
		}
	})
	b.runActions()
	must.Do(t, chromedp.Listen(ctx, b.recordEvent))
	callBrowser(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `addEventListener("securitypolicyviolation", (e) => console.error("policy:", e.effectiveDirective, e.blockedURI));`,
	})
	return b
}

// browserTab is a page in a separate browser.
type browserTab struct {
	t     *testing.T
	ctx   context.Context
	close func()

	mu             sync.Mutex
	browserErrors  []string // errors of the browser about the page
	requests       []string // URLs of requests
	errorsExpected bool     // whether errors are expected
}

// closeTab closes the browser and reports its errors.
func (b *browserTab) closeTab() {
	b.close()
	b.close = nil
	if !b.errorsExpected {
		for _, c := range b.browserErrors {
			b.t.Errorf("the browser complains: %s", c)
		}
	}
}

// recordEvent records the errors and requests in the browser's events.
func (b *browserTab) recordEvent(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.browserErrors = append(b.browserErrors, fmt.Sprint(e.Entry.Level, " ", e.Entry.Text, " ", e.Entry.URL))
		}
	case *cdpruntime.EventConsoleAPICalled:
		var words []string
		for _, arg := range e.Args {
			words = append(words, strings.Trim(string(arg.Value), "\""))
		}
		b.browserErrors = append(b.browserErrors, strings.Join(words, " "))
	case *cdpruntime.EventExceptionThrown:
		b.browserErrors = append(b.browserErrors, e.ExceptionDetails.Text)
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	}
}

// callBrowser calls a method of the DevTools protocol.
func callBrowser[P, R any](b *browserTab, method cdp.Command[P, R], params P) R {
	b.t.Helper()
	return must.Get(chromedp.Call(b.ctx, method, params))(b.t)
}

// runActions runs an action in the browser.
func (b *browserTab) runActions(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	must.Do(b.t, chromedp.Do(b.ctx, actions...))
}

// evaluate returns the value of an expression or of a promise.
func evaluate[T any](b *browserTab, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.200s: %v", expression, err)
	}
	return value
}

// waitFor waits until an expression is true, even while the page is loading.
func (b *browserTab) waitFor(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	for {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](fmt.Sprintf(`new Promise((resolve) => {
			const look = (left) => (%s) || left === 0 ? resolve(Boolean(%[1]s)) : setTimeout(look, 10, left - 1);
			look(100);
		})`, expression), chromedp.EvalAwaitPromise))
		switch {
		case is:
			return
		case ctx.Err() != nil:
			b.t.Fatalf("waiting for %s: %v; it says: %s", expression, err, evaluate[string](b, "document.body.innerText"))
		}
	}
}

// openPage opens the playground and waits for its first result.
func (b *browserTab) openPage(fragment string) {
	b.t.Helper()
	b.runActions(chromedp.Navigate("about:blank"), chromedp.Navigate(playground.url+fragment))
	b.waitResult()
}

// waitResult waits until the page shows the response to the current input.
func (b *browserTab) waitResult() {
	b.t.Helper()
	b.waitFor(`document.querySelector("#sample").disabled === false && document.querySelector("#answer").ariaBusy === "false"`)
}

// pasteText pastes text into a field.
func (b *browserTab) pasteText(field, text string) {
	b.t.Helper()
	evaluate[bool](b, fmt.Sprintf(`(() => {
		const field = document.querySelector(%q);
		field.value = %s;
		return field.dispatchEvent(new InputEvent("input", {bubbles: true}));
	})()`, field, quoteJS(text)))
	b.waitResult()
}

// textContent returns the visible text of an element.
func (b *browserTab) textContent(selector string) string {
	b.t.Helper()
	return evaluate[string](b, fmt.Sprintf("document.querySelector(%q).innerText", selector))
}
