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

// browse starts a browser with additional flags and returns an empty tab. An error that the browser
// reports fails the test, unless errors are expected.
func browse(t *testing.T, flags ...chromedp.ExecAllocatorOption) *tab {
	t.Helper()
	tests.SkipUnlessAvailable(t)
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
	b := &tab{t: t, ctx: ctx}
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
			b.end()
		}
	})
	b.do()
	must.Do(t, chromedp.Listen(ctx, b.recordEvent))
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `addEventListener("securitypolicyviolation", (e) => console.error("policy:", e.effectiveDirective, e.blockedURI));`,
	})
	return b
}

// tab is a page in a separate browser.
type tab struct {
	t     *testing.T
	ctx   context.Context
	close func()

	mu             sync.Mutex
	browserErrors  []string // errors of the browser about the page
	requests       []string // URLs of requests
	errorsExpected bool     // whether errors are expected
}

// end closes the browser and reports its errors.
func (b *tab) end() {
	b.close()
	b.close = nil
	if !b.errorsExpected {
		for _, c := range b.browserErrors {
			b.t.Errorf("the browser complains: %s", c)
		}
	}
}

// recordEvent records the errors and requests in the browser's events.
func (b *tab) recordEvent(event any) {
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

// call calls a method of the DevTools protocol.
func call[P, R any](b *tab, method cdp.Command[P, R], params P) R {
	b.t.Helper()
	return must.Get(chromedp.Call(b.ctx, method, params))(b.t)
}

// do runs an action in the browser.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	must.Do(b.t, chromedp.Do(b.ctx, actions...))
}

// get returns the value of an expression or of a promise.
func get[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.200s: %v", expression, err)
	}
	return value
}

// waitFor waits until an expression is true, even while the page is loading.
func (b *tab) waitFor(expression string) {
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
			b.t.Fatalf("waiting for %s: %v; it says: %s", expression, err, get[string](b, "document.body.innerText"))
		}
	}
}

// open opens the playground and waits for its first result.
func (b *tab) open(fragment string) {
	b.t.Helper()
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(site.url+fragment))
	b.waitResult()
}

// waitResult waits until the page shows the response to the current input.
func (b *tab) waitResult() {
	b.t.Helper()
	b.waitFor(`document.querySelector("#sample").disabled === false && document.querySelector("#answer").ariaBusy === "false"`)
}

// paste pastes text into a field.
func (b *tab) paste(field, text string) {
	b.t.Helper()
	get[bool](b, fmt.Sprintf(`(() => {
		const field = document.querySelector(%q);
		field.value = %s;
		return field.dispatchEvent(new InputEvent("input", {bubbles: true}));
	})()`, field, quote(text)))
	b.waitResult()
}

// text returns the visible text of an element.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return get[string](b, fmt.Sprintf("document.querySelector(%q).innerText", selector))
}
