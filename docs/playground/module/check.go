// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build js && wasm

package main

import (
	"errors"
	"maps"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/shown"
)

const (
	newest = config.NewestKubelet
	// Name for the page's text in messages.
	file = "providers.yaml"
)

// reader caches the last parsed text, because most edits change only the image.
type reader struct {
	text, kubelet string
	cfg           *config.Config
	invalid       error // why the kubelet would not start, for explain
	found         []finding.Finding
	answer        map[string]any
}

// check returns the output of the commands:
//
//	validation:  regcred validate -o json [--kubelet-version KUBELET] providers.yaml
//	explanation: regcred explain --dry-run -o json --config providers.yaml IMAGE
//
// and whether the text contains values that should not be in a link without the user's
// consent. kubelet may be "". For invalid input, for example an invalid image, the
// result contains an error instead of the document.
func (r *reader) check(text, image, kubelet string) map[string]any {
	if r.answer == nil || r.text != text || r.kubelet != kubelet {
		r.read(text, kubelet)
	}
	answer := maps.Clone(r.answer)
	if image != "" {
		x, err := r.explain(image)
		set(answer, "explanation", x, err)
	}
	return answer
}

func (r *reader) read(text, kubelet string) {
	cfg, err := config.Parse(file, []byte(text))
	*r = reader{text: text, kubelet: kubelet, cfg: cfg, invalid: err, answer: map[string]any{"mayBeSecret": err != nil || holdsValues(cfg)}}
	if err == nil {
		r.invalid = cfg.Validate()
	}
	v, failed := report.Validate(file, cfg, err, asked(kubelet), "")
	if failed == nil {
		v.Select(&report.Filter{})
	}
	set(r.answer, "validation", v, failed)
	if failed == nil {
		r.found = v.Findings
	}
}

// set adds a document to an answer, or the error instead.
func set(answer map[string]any, name string, v any, err error) {
	if err == nil {
		var doc []byte
		if doc, err = shown.Result(v); err == nil {
			answer[name] = string(doc)
			return
		}
	}
	answer[name+"Error"] = err.Error()
}

// asked returns the kubelet that the user selected, or else the newest.
func asked(version string) report.Kubelet {
	if version == "" {
		return report.Kubelet{Version: newest}
	}
	return report.Kubelet{Version: version, Named: true}
}

func (r *reader) explain(image string) (*report.Explanation, error) {
	req := regcred.Request{Image: image}
	x := report.NewExplanation(req, report.File{Path: file, From: "flags"})
	x.Environment, x.DryRun = "caller", true
	if r.invalid != nil {
		x.Refuse(r.invalid)
		return x, nil
	}
	ex := regcred.Explain(r.cfg, req)
	if ex.Error != "" {
		return nil, errors.New(ex.Error)
	}
	x.Match(r.cfg, ex, r.found)
	x.SetVerdict()
	return x, nil
}

// holdsValues reports whether the configuration sets arguments or environment
// variables, which often contain secrets.
func holdsValues(cfg *config.Config) bool {
	for _, p := range cfg.Providers {
		if len(p.Args)+len(p.Env) > 0 {
			return true
		}
	}
	return false
}
