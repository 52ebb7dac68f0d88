// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/regcred/regcred/internal/process"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/plugin"
)

// suite runs the checks of one plugin. It runs the plugin with a request when a check first
// needs the result, and reuses the result for other checks.
type suite struct {
	ctx         context.Context
	cmd         plugin.Command
	opts        Options
	image       string         // requested image, normalised
	otherImages []string       // other images, normalised
	account     ServiceAccount // zero if the plugin does not use tokenAttributes
	identity    identity

	requestRuns map[request]*run
	rawRuns     map[string]*run
	runs        []*run // recorded runs, for checks that examine every run
	base        *run   // result of baseRun
	hungRuns    int    // number of runs that hung or took longer than hungRunDuration
	skipRest    bool   // a run was not made because too many runs hung

	slow           time.Duration // duration above which a warning is reported
	kubeletTimeout time.Duration // duration after which the kubelet kills the plugin
	termTimeout    time.Duration // time within which the plugin must exit after SIGTERM
}

func newSuite(ctx context.Context, cmd plugin.Command, opts Options) *suite {
	s := &suite{
		ctx: process.WithGroupKilled(ctx), cmd: cmd, opts: opts,
		image:          DefaultImage,
		identity:       makeIdentity(opts.ServiceAccount, time.Now()),
		requestRuns:    map[request]*run{},
		rawRuns:        map[string]*run{},
		slow:           10 * time.Second,
		kubeletTimeout: protocol.KubeletTimeout,
		termTimeout:    5 * time.Second,
	}
	s.cmd.Grace = 0
	s.cmd.Path = absolutePath(cmd)
	if opts.ServiceAccount != nil {
		s.account = *opts.ServiceAccount
	}
	for i, image := range opts.Images {
		image = normalizeImage(image)
		if i == 0 {
			s.image = image
		} else if image != s.image {
			s.otherImages = append(s.otherImages, image)
		}
	}
	return s
}

func absolutePath(cmd plugin.Command) string {
	if abs, err := filepath.Abs(filepath.Join(cmd.Dir, cmd.Path)); err == nil && cmd.Path != "" && !filepath.IsAbs(cmd.Path) {
		return abs
	}
	return cmd.Path
}

// request identifies a request. nth distinguishes repetitions of a request.
type request struct {
	version     string
	image       string
	token       bool
	annotations bool
	repetition  int
}

// newRequest returns a request as the kubelet would send it in the given version.
func (s *suite) newRequest(version string) request {
	inServiceAccountMode := s.opts.ServiceAccount != nil && version == plugin.V1
	return request{version: version, image: s.image, token: inServiceAccountMode, annotations: inServiceAccountMode}
}

// sendRequest runs the plugin with a request. If the same request was sent before, it returns
// the earlier run.
func (s *suite) sendRequest(q request) *run {
	r := s.requestRuns[q]
	if r == nil {
		r = s.sendRequestWith(s.cmd, q)
		r.version = q.version
		s.requestRuns[q] = r
	}
	return r
}

// sendRequestWith runs cmd with a request. cmd may have a different environment than s.cmd.
func (s *suite) sendRequestWith(cmd plugin.Command, q request) *run {
	cmd.APIVersion = q.version
	did, stdin, err := s.encodeRequest(q)
	if err != nil {
		return newSkippedRun(did, plugin.StageStart, err)
	}
	return s.runAndRecord(cmd, did, stdin)
}

// encodeRequest returns a description of a request, and the JSON to send.
func (s *suite) encodeRequest(q request) (did string, stdin []byte, err error) {
	did = fmt.Sprintf("requested %q in %s", q.image, versionName(q.version))
	req := &plugin.Request{APIVersion: q.version, Image: q.image}
	if q.token {
		req.ServiceAccountToken = s.identity.token
		did += ", with " + s.identity.tokenDescription
	}
	if q.annotations {
		req.ServiceAccountAnnotations = s.identity.annotations
		if !q.token {
			did += ", with annotations but no token"
		}
	}
	stdin, err = plugin.EncodeRequest(req)
	return did, stdin, err
}

// sendRaw runs the plugin with a standard input that the kubelet would not send. If the same
// description did was used before, it returns the earlier run.
func (s *suite) sendRaw(did, version, stdin string) *run {
	r := s.rawRuns[did]
	if r == nil {
		cmd := s.cmd
		cmd.APIVersion = version
		r = s.runAndRecord(cmd, did, []byte(stdin))
		s.rawRuns[did] = r
	}
	return r
}

// Limits for plugins that hang.
const (
	maxHungRuns     = 3
	hungRunDuration = protocol.KubeletTimeout / 2
)

// tooManyHung reports whether too many runs hung or took too long. It sets s.skipRest if so.
func (s *suite) tooManyHung() bool {
	s.skipRest = s.skipRest || s.hungRuns >= maxHungRuns
	return s.skipRest
}

// runAndRecord runs the plugin with stdin and records the run.
func (s *suite) runAndRecord(cmd plugin.Command, did string, stdin []byte) *run {
	if s.tooManyHung() {
		return newSkippedRun(did, plugin.StageCanceled, context.Canceled)
	}
	r := s.runPlugin(cmd, did, stdin)
	s.recordRun(r)
	return r
}

// runPlugin runs the plugin with stdin. It is safe for concurrent use. The passwords of the
// first response are redacted in the standard error of later runs.
func (s *suite) runPlugin(cmd plugin.Command, did string, stdin []byte) *run {
	secrets := s.identity.secretValues()
	if s.base != nil && s.base.exchange.Response != nil {
		for _, auth := range s.base.exchange.Response.Auth {
			secrets = append(secrets, auth.Password)
		}
	}
	x, err := cmd.RunRaw(s.ctx, bytes.NewReader(stdin), secrets...)
	r := &run{action: did, exchange: x}
	errors.As(err, &r.err)
	return r
}

func (s *suite) recordRun(r *run) {
	s.runs = append(s.runs, r)
	if r.isHung() || r.exchange.Duration >= hungRunDuration {
		s.hungRuns++
	}
}

// baseRun returns the run with which other runs are compared. The request has the Command's
// APIVersion or, if that is empty, the newest version that the plugin supports.
func (s *suite) baseRun() *run {
	if s.base != nil {
		return s.base
	}
	candidates := supportedVersions()
	if s.cmd.APIVersion != "" {
		candidates = []string{s.cmd.APIVersion}
	}
	for _, version := range candidates {
		if r := s.sendRequest(s.newRequest(version)); r.hasResponse() {
			s.base = r
			return r
		}
	}
	s.base = s.sendRequest(s.newRequest(candidates[0]))
	return s.base
}

func (s *suite) baseVersion() string { return s.baseRun().version }

// isOutOfTree reports whether the out-of-tree protocol is being checked.
func (s *suite) isOutOfTree() bool { return s.cmd.APIVersion == plugin.OutOfTree }

func (s *suite) newRequestFor(image string) request {
	q := s.newRequest(s.baseVersion())
	q.image = image
	return q
}
