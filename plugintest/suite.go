// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// suite is one examination of a plugin. A run is made when a check first
// asks for it, and serves the others.
type suite struct {
	ctx      context.Context
	cmd      plugin.Command
	opts     Options
	image    string   // the one asked for, normalised
	others   []string // the other images, normalised
	identity identity

	asked map[question]*run
	sent  map[string]*run
	runs  []*run // all, for the checks that look at each
	first *run   // what base returns
	long  int    // how many runs hung, or lasted as long as half a hang
	weary bool   // a run was not made for that reason

	slow     time.Duration // from which an answer is worth a warning
	tooSlow  time.Duration // at which a kubelet kills
	patience time.Duration // for which SIGTERM is given time
}

func newSuite(ctx context.Context, cmd plugin.Command, opts Options) *suite {
	s := &suite{
		ctx: ctx, cmd: cmd, opts: opts,
		image:    DefaultImage,
		identity: newIdentity(opts.ServiceAccount, time.Now()),
		asked:    map[question]*run{},
		sent:     map[string]*run{},
		slow:     10 * time.Second,
		tooSlow:  plugin.DefaultTimeout,
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

// absolute is the path of the executable for runs in any directory.
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

// normal is an image as a kubelet names it to a plugin. What is no image is
// left as it is: the plugin decides.
func normal(image string) string {
	if repository, err := match.Repository(image); err == nil {
		return repository
	}
	return image
}

// run makes one check. What was interrupted, or could not be asked any more,
// says nothing about the plugin.
func (s *suite) run(c check) []Finding {
	var findings []Finding
	s.weary = false
	if s.ctx.Err() == nil {
		findings = c.run(s)
	}
	switch {
	case s.ctx.Err() != nil:
		findings = skip("the examination was stopped: %v", context.Cause(s.ctx))
	case s.weary:
		findings = skip("the plugin hung in %d runs, or took half a minute and more: it is not run again", maxLong)
	}
	for i := range findings {
		findings[i].Check = c.ID
	}
	return findings
}

// run is one run of the plugin, and how it ended.
type run struct {
	did string
	x   *plugin.Exchange
	err *plugin.ExecError // nil for an answer that a kubelet accepts
}

// question is what the plugin is asked; nth tells equal ones apart.
type question struct {
	version     string
	image       string
	token       bool
	annotations bool
	nth         int
}

// question is the one that a kubelet would ask in a version.
func (s *suite) question(version string) question {
	held := s.opts.ServiceAccount != nil && version == plugin.V1
	return question{version: version, image: s.image, token: held, annotations: held}
}

// ask asks a question once.
func (s *suite) ask(q question) *run {
	r := s.asked[q]
	if r == nil {
		r = s.runWith(s.cmd, q)
		s.asked[q] = r
	}
	return r
}

// runWith asks a question through cmd, which may be in other surroundings.
func (s *suite) runWith(cmd plugin.Command, q question) *run {
	cmd.APIVersion = q.version
	did, stdin, err := s.encode(q)
	if err != nil {
		return notRun(did, plugin.StageStart, err)
	}
	return s.converse(cmd, did, stdin)
}

// encode says what a question is, and how it is asked.
func (s *suite) encode(q question) (did string, stdin []byte, err error) {
	did = fmt.Sprintf("asked for %q in %s", q.image, short(q.version))
	req := &plugin.Request{APIVersion: q.version, Image: q.image}
	if q.token {
		req.ServiceAccountToken = s.identity.token
		did += ", with " + s.identity.title
	}
	if q.annotations {
		req.ServiceAccountAnnotations = s.identity.annotations
		if !q.token {
			did += ", with annotations and no token"
		}
	}
	stdin, err = plugin.EncodeRequest(req)
	return did, stdin, err
}

// notRun stands for a run that was not made.
func notRun(did string, stage plugin.Stage, err error) *run {
	return &run{did, &plugin.Exchange{ExitCode: -1}, &plugin.ExecError{Stage: stage, ExitCode: -1, Err: err}}
}

// send writes bytes to the plugin that are no request of a kubelet's, once.
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

// A plugin that hangs is not given a minute fifty times.
const (
	maxLong = 3
	longRun = plugin.DefaultTimeout / 2
)

// tired reports whether the plugin has had its chances.
func (s *suite) tired() bool {
	s.weary = s.weary || s.long >= maxLong
	return s.weary
}

// converse runs the plugin with stdin.
func (s *suite) converse(cmd plugin.Command, did string, stdin []byte) *run {
	if s.tired() {
		return notRun(did, plugin.StageCanceled, context.Canceled)
	}
	r := s.launch(cmd, did, stdin)
	s.note(r)
	return r
}

// launch runs the plugin with stdin; unlike all else here it may be called by
// several goroutines. The passwords of the first answer are secrets in every
// later run.
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

// note keeps a run for the checks of all.
func (s *suite) note(r *run) {
	s.runs = append(s.runs, r)
	if r.hung() || r.x.Duration >= longRun {
		s.long++
	}
}

// versions are those of the protocol, the newest first.
func versions() []string { return []string{plugin.V1, plugin.V1Beta1, plugin.V1Alpha1} }

// short names a version in a sentence.
func short(version string) string {
	if version == plugin.OutOfTree {
		return "the predecessor's protocol"
	}
	return strings.TrimPrefix(version, plugin.Group+"/")
}

// base is the run that the others are compared with: that in the version of
// the Command or, if it has none, in the first version that is answered.
func (s *suite) base() *run {
	if s.first != nil {
		return s.first
	}
	if s.cmd.APIVersion != "" {
		s.first = s.ask(s.question(s.cmd.APIVersion))
		return s.first
	}
	for _, version := range versions() {
		if r := s.ask(s.question(version)); r.answered() {
			s.first = r
			return r
		}
	}
	s.first = s.ask(s.question(plugin.V1))
	return s.first
}

// version is that of base.
func (s *suite) version() string {
	base := s.base()
	for q, r := range s.asked {
		if r == base {
			return q.version
		}
	}
	return plugin.V1
}

// answered is a check that needs an answer to work with.
func answered(f func(*suite, *plugin.Response) []Finding) func(*suite) []Finding {
	return func(s *suite) []Finding {
		base := s.base()
		if !base.answered() {
			return skip("there is no answer for %q to judge: see base-answer", s.image)
		}
		return f(s, base.x.Response)
	}
}

// withCredential is a check that needs an answer with a credential.
func withCredential(f func(*suite, *plugin.Response) []Finding) func(*suite) []Finding {
	return answered(func(s *suite, resp *plugin.Response) []Finding {
		if len(resp.Auth) == 0 {
			return skip("the answer for %q has no credential: see answer-empty", s.image)
		}
		return f(s, resp)
	})
}
