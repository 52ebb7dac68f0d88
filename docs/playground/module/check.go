// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build js && wasm

package main

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/textfmt"
)

const (
	newestKubelet = config.NewestKubelet
	// messageFileName is the file name that messages show for the text on the page.
	messageFileName = "providers.yaml"
)

// checker caches the last parsed text, because most edits change only the image.
type checker struct {
	text, kubelet string
	cfg           *config.Config
	invalid       error // why the kubelet would not start, for explain
	unchecked     error // the text exceeds a limit of this program
	lastResponse  map[string]any
}

// checkText returns the output of the commands:
//
//	validation:  regcred validate -o json [--kubelet-version KUBELET] providers.yaml
//	explanation: regcred explain --dry-run -o json --config providers.yaml IMAGE
//
// and whether the text contains values that should not be in a link without the user's
// consent. kubelet may be "". For invalid input, for example an invalid image, the
// result contains an error instead of the document.
func (r *checker) checkText(text, image, kubelet string) map[string]any {
	if r.lastResponse == nil || r.text != text || r.kubelet != kubelet {
		r.parseText(text, kubelet)
	}
	answer := maps.Clone(r.lastResponse)
	if image != "" {
		x, err := r.explainImage(image)
		setResult(answer, "explanation", x, err)
	}
	return answer
}

func (r *checker) parseText(text, kubelet string) {
	cfg, err := config.Parse(messageFileName, []byte(text))
	*r = checker{text: text, kubelet: kubelet, cfg: cfg, invalid: err, lastResponse: map[string]any{"mayBeSecret": err != nil || hasArgsOrEnv(cfg)}}
	if err == nil {
		r.invalid = cfg.Validate()
	}
	if errors.Is(err, regularfile.ErrLimit) { // the kubelet may accept the text
		r.unchecked = err
		setResult(r.lastResponse, "validation", nil, err)
		return
	}
	selected := report.Kubelet{Version: cmp.Or(kubelet, newestKubelet), Explicit: kubelet != ""}
	v, failed := report.Validate(messageFileName, cfg, err, selected, "")
	if failed == nil {
		v.ApplyFilter(&report.Filter{})
	}
	setResult(r.lastResponse, "validation", v, failed)
}

// setResult adds v to answer as a JSON document or, if there is an error, adds the
// error.
func setResult(answer map[string]any, name string, v any, err error) {
	if err == nil {
		var doc []byte
		if doc, err = textfmt.EncodeResult(v); err == nil {
			answer[name] = string(doc)
			return
		}
	}
	answer[name+"Error"] = err.Error()
}

func (r *checker) explainImage(image string) (*report.Explanation, error) {
	if r.unchecked != nil {
		return nil, r.unchecked
	}
	req := regcred.Request{Image: image}
	x := report.NewExplanation(req, report.ConfigFile{Path: messageFileName, From: "flags"})
	x.Environment, x.DryRun = "caller", true
	if r.invalid != nil {
		x.SetInvalid(r.invalid)
		return x, nil
	}
	ex := regcred.Explain(r.cfg, req)
	if ex.Error != "" {
		return nil, errors.New(ex.Error)
	}
	x.AddProviders(r.cfg, ex, report.LintFindings(r.cfg, ""))
	x.SetVerdict()
	return x, nil
}

// hasArgsOrEnv reports whether the configuration sets arguments or environment
// variables, which often contain secrets.
func hasArgsOrEnv(cfg *config.Config) bool {
	return slices.ContainsFunc(cfg.Providers, func(p config.Provider) bool { return len(p.Args)+len(p.Env) > 0 })
}
