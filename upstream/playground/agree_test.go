// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package playground

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/plugins"
)

// checkerQuery is the page's request to its module. The regcred command runs with the same values.
type checkerQuery struct{ Text, Image, Kubelet string }

// queryResult is the response: documents or an error.
type queryResult struct {
	Validation, ValidationError, Explanation, ExplanationError string
	Gone                                                       string // why the module stopped
}

// TestSameAnswers verifies that the browser and the regcred command return the same results. The
// inputs are the configurations of the kubelet vectors, the configurations of this repository, and
// broken ones.
func TestSameAnswers(t *testing.T) {
	b := openBrowser(t)
	questions := sampleQueries(t)
	if len(questions) < 100 {
		t.Fatalf("%d configurations, want 100 and more", len(questions))
	}
	b.openPage("")
	answers := evaluate[[]queryResult](b, `new Promise((resolve, reject) => {
		const questions = `+quoteJS(questions)+`;
		const answers = [];
		let worker;
		const start = () => {
			worker = new Worker("worker.js");
			worker.onmessage = ({data}) => {
				if (data.ready) next();
				if (data.failed) reject(new Error(data.failed));
				if (data.answer) take(data.answer);
			};
			worker.onerror = (event) => {
				event.preventDefault();
				worker.terminate();
				answers.push({Gone: event.message});
				answers.length < questions.length ? start() : resolve(answers);
			};
		};
		const next = () => {
			const {Text, Image, Kubelet} = questions[answers.length];
			worker.postMessage({id: 1, text: Text, image: Image, kubelet: Kubelet});
		};
		const take = ({validation = "", validationError = "", explanation = "", explanationError = ""}) => {
			answers.push({Validation: validation, ValidationError: validationError, Explanation: explanation, ExplanationError: explanationError});
			answers.length < questions.length ? next() : resolve(answers);
		};
		start();
	})`)
	valid, deep := 0, 0
	for i, q := range questions {
		want := runCommandLine(t, q)
		if strings.Contains(want.Validation, "\n  \"valid\": true,") {
			valid++
		}
		if answers[i].Gone != "" && strings.Count(q.Text, "[")+strings.Count(q.Text, "{") > 1000 {
			deep++ // nested too deeply for a browser, whose stack is smaller
			continue
		}
		if diff := cmp.Diff(want, answers[i]); diff != "" {
			t.Errorf("about %q for kubelet %q and this, -command +browser:\n%.2000s\n%.4000s", q.Image, q.Kubelet, q.Text, diff)
		}
	}
	if valid < 20 || len(questions)-valid < 20 {
		t.Errorf("%d of %d are valid: that is no mixture", valid, len(questions))
	}
	t.Logf("%d configurations, %d of them valid: the same in the browser and in the command; %d nested too deeply for a browser", len(questions)-deep, valid, deep)
}

// sampleQueries returns a query for each configuration, with different images and kubelets in turn.
func sampleQueries(t *testing.T) (list []checkerQuery) {
	t.Helper()
	images := []string{"602401143452.dkr.ecr.eu-west-1.amazonaws.com/app:1.2", "registry.io/app", "Not An Image", "gcr.io/team/app@sha256:" + strings.Repeat("0", 64), "nginx", "team.azurecr.io/app"}
	kubelets := []string{"", "1.36", "", "1.33", "", "1.25", "", "1.99"}
	for _, text := range sampleTexts(t) {
		if utf8.ValidString(text) { // text in a browser is always valid UTF-8
			n := len(list)
			list = append(list, checkerQuery{text, images[n%len(images)], kubelets[n%len(kubelets)]})
		}
	}
	return list
}

func sampleTexts(t *testing.T) (list []string) {
	t.Helper()
	root := must.Get(plugins.RepositoryRoot())(t)
	var recorded struct {
		Cases []struct{ Files []struct{ Content any } } // an object replaces text that is too large or not valid
	}
	data, err := os.ReadFile(filepath.Join(root, "testdata/parity/config.json"))
	if err == nil {
		err = json.Unmarshal(data, &recorded)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range recorded.Cases {
		if len(c.Files) != 1 {
			continue
		}
		if text, ok := c.Files[0].Content.(string); ok {
			list = append(list, text)
		}
	}
	for _, glob := range []string{"config/testdata/*.yaml", "lint/testdata/*.yaml", "lint/testdata/clean/*", "docs/playground/module/samples/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(root, glob))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", glob, len(files), err)
		}
		for _, file := range files {
			data := must.Get(os.ReadFile(file))(t)
			list = append(list, string(data))
			if strings.HasSuffix(file, "/broken.yaml") {
				list = append(list, variantsWithoutLine(string(data))...)
			}
		}
	}
	return list
}

// variantsWithoutLine returns copies of the text, each without one of its lines.
func variantsWithoutLine(text string) (list []string) {
	lines := strings.SplitAfter(text, "\n")
	for i := range lines {
		list = append(list, strings.Join(append(append([]string{}, lines[:i]...), lines[i+1:]...), ""))
	}
	return list
}

// runCommandLine returns the regcred command's results for a query.
func runCommandLine(t *testing.T, q checkerQuery) (a queryResult) {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "providers.yaml"), []byte(q.Text), 0o600))
	validate := []string{"validate", "-o", "json", "providers.yaml"}
	if q.Kubelet != "" {
		validate = append(validate, "--kubelet-version", q.Kubelet)
	}
	a.Validation, a.ValidationError = runRegcred(t, dir, validate...)
	a.Explanation, a.ExplanationError = runRegcred(t, dir, "explain", "--dry-run", "-o", "json", "--config", "providers.yaml", q.Image)
	return a
}

// runRegcred runs the command in dir and returns its document or its error.
func runRegcred(t *testing.T, dir string, args ...string) (document, why string) {
	t.Helper()
	cmd := exec.Command(playground.regcred, args...)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir}
	out, err := cmd.Output()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	var failed struct{ Errors []struct{ Message string } }
	if err := json.Unmarshal(out, &failed); err != nil {
		t.Fatalf("regcred %q: %v:\n%s", args, err, out)
	}
	if len(failed.Errors) > 0 {
		return "", failed.Errors[0].Message
	}
	return string(out), ""
}
