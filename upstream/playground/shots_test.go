// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package playground

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// setAppearance sets the width of the window, and light or dark mode.
func (b *browserTab) setAppearance(width int64, scheme string) {
	b.t.Helper()
	callBrowser(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	})
	b.runActions(chromedp.EmulateViewport(width, 900))
}

// chooseSample selects a sample.
func (b *browserTab) chooseSample(sample string) {
	b.t.Helper()
	evaluate[bool](b, fmt.Sprintf(`(() => {
		const select = document.querySelector("#sample");
		select.value = %q;
		return select.dispatchEvent(new Event("change", {bubbles: true}));
	})()`, sample))
	b.waitResult()
}

// TestLayoutAndScreenshots verifies that nothing is wider than the window, in wide and narrow
// windows and in light and dark mode. It also stores screenshots.
func TestLayoutAndScreenshots(t *testing.T) {
	dir := *screenshotDir
	if dir == "" {
		dir = t.TempDir()
	}
	b := openBrowser(t)
	b.openPage("")
	for _, width := range []int64{1280, 768, 360} {
		for _, scheme := range []string{"light", "dark"} {
			b.setAppearance(width, scheme)
			for _, sample := range []string{"eks", "gke", "broken", "refused"} {
				b.chooseSample(sample)
				b.waitDrawn()
				if over := evaluate[float64](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
					t.Errorf("%s at %d: %g pixels too wide", sample, width, over)
				}
				b.saveScreenshot(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", sample, width, scheme)))
			}
			b.chooseSample("gke")
			evaluate[any](b, `document.querySelector("#share").click()`)
			b.waitDrawn()
			b.saveScreenshot(filepath.Join(dir, fmt.Sprintf("share-%d-%s.png", width, scheme)))
			evaluate[any](b, `document.querySelector("#close").click()`)
		}
	}
}

// waitDrawn waits until the page is rendered.
func (b *browserTab) waitDrawn() {
	b.t.Helper()
	evaluate[bool](b, "new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(true))))")
}

// saveScreenshot takes a screenshot of the whole page.
func (b *browserTab) saveScreenshot(path string) {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(path, picture, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
