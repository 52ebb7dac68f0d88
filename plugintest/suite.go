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

	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/plugin"
)

// suite runs the checks of one plugin. It makes a run when a check first needs it and
// reuses the run for other checks.
type suite struct {
	ctx      context.Context
	cmd      plugin.Command
	opts     Options
	image    string   // requested image, normalised
	others   []string // other images, normalised
	identity identity

	asked    map[request]*run
	sent     map[string]*run
	runs     []*run // all runs
	first    *run   // result of base
	long     int    // number of runs that hung or took longer than longRun
	skipRest bool   // a run was not made because of long

	slow     time.Duration // duration at which a warning is reported
	tooSlow  time.Duration // duration at which the kubelet kills the plugin
	patience time.Duration // time allowed for exiting after SIGTERM
}

func newSuite(ctx context.Context, cmd plugin.Command, opts Options) *suite {
	s := &suite{
		ctx: ctx, cmd: cmd, opts: opts,
		image:    DefaultImage,
		identity: newIdentity(opts.ServiceAccount, time.Now()),
		asked:    map[request]*run{},
		sent:     map[string]*run{},
		slow:     10 * time.Second,
		tooSlow:  protocol.Timeout,
		patience: 5 * time.Second,
	}
	s.cmd.Grace = 0
	s.cmd.Path = absolute(cmd)
	for i, image := range opts.Images {
		image = normal(image)
		if i == 0 {
			s.image = image
		} else if image != s.image {
			s.others = append(s.others, image)
		}
	}
	return s
}

// absolute returns the absolute path of the executable.
func absolute(cmd plugin.Command) string {
	path := cmd.Path
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	if abs, err := filepath.Abs(filepath.Join(cmd.Dir, path)); err == nil {
		path = abs
	}
	return path
}

// request identifies a request. nth distinguishes equal requests.
type request struct {
	version     string
	image       string
	token       bool
	annotations bool
	nth         int
}

// request returns the request that a kubelet would send in a version.
func (s *suite) request(version string) request {
	openStdin := s.opts.ServiceAccount != nil && version == plugin.V1
	return request{version: version, image: s.image, token: openStdin, annotations: openStdin}
}

// ask sends a request once and reuses the run.
func (s *suite) ask(q request) *run {
	r := s.asked[q]
	if r == nil {
		r = s.runWith(s.cmd, q)
		r.version = q.version
		s.asked[q] = r
	}
	return r
}

// runWith sends a request using cmd, which may have a different environment.
func (s *suite) runWith(cmd plugin.Command, q request) *run {
	cmd.APIVersion = q.version
	did, stdin, err := s.encode(q)
	if err != nil {
		return notRun(did, plugin.StageStart, err)
	}
	return s.converse(cmd, did, stdin)
}

// encode returns a request's description and encoding.
func (s *suite) encode(q request) (did string, stdin []byte, err error) {
	did = fmt.Sprintf("requested %q in %s", q.image, short(q.version))
	req := &plugin.Request{APIVersion: q.version, Image: q.image}
	if q.token {
		req.ServiceAccountToken = s.identity.token
		did += ", with " + s.identity.title
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

// send sends stdin that the kubelet would not send to the plugin, once, and reuses the
// run.
func (s *suite) send(did, version, stdin string) *run {
	r := s.sent[did]
	if r == nil {
		cmd := s.cmd
		cmd.APIVersion = version
		r = s.converse(cmd, did, []byte(stdin))
		s.sent[did] = r
	}
	return r
}

// Limits for plugins that hang.
const (
	maxLong = 3
	longRun = protocol.Timeout / 2
)

// tooManyHung reports whether too many runs hung or took too long.
func (s *suite) tooManyHung() bool {
	s.skipRest = s.skipRest || s.long >= maxLong
	return s.skipRest
}

// converse runs the plugin with stdin and records the run.
func (s *suite) converse(cmd plugin.Command, did string, stdin []byte) *run {
	if s.tooManyHung() {
		return notRun(did, plugin.StageCanceled, context.Canceled)
	}
	r := s.launch(cmd, did, stdin)
	s.note(r)
	return r
}

// launch runs the plugin with stdin. It is safe for concurrent use. Passwords in the
// first response are redacted in later runs.
func (s *suite) launch(cmd plugin.Command, did string, stdin []byte) *run {
	secrets := s.identity.secrets()
	if s.first != nil && s.first.x.Response != nil {
		for _, auth := range s.first.x.Response.Auth {
			secrets = append(secrets, auth.Password)
		}
	}
	x, err := cmd.RunRaw(s.ctx, bytes.NewReader(stdin), secrets...)
	r := &run{did: did, x: x}
	errors.As(err, &r.err)
	return r
}

// note records a run for the checks that apply to every run.
func (s *suite) note(r *run) {
	s.runs = append(s.runs, r)
	if r.hung() || r.x.Duration >= longRun {
		s.long++
	}
}

// base returns the run that other runs are compared with. It sends a request in the
// Command's version or in the newest supported version.
func (s *suite) base() *run {
	if s.first != nil {
		return s.first
	}
	candidates := versions()
	if s.cmd.APIVersion != "" {
		candidates = []string{s.cmd.APIVersion}
	}
	for _, version := range candidates {
		if r := s.ask(s.request(version)); r.answered() {
			s.first = r
			return r
		}
	}
	s.first = s.ask(s.request(candidates[0]))
	return s.first
}

// version returns the version of the base request.
func (s *suite) version() string { return s.base().version }

// outOfTree reports whether the out-of-tree protocol is being checked.
func (s *suite) outOfTree() bool { return s.cmd.APIVersion == plugin.OutOfTree }

// requestFor returns the base request for another image.
func (s *suite) requestFor(image string) request {
	q := s.request(s.version())
	q.image = image
	return q
}
