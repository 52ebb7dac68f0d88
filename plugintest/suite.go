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
		r.version = q.version
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

// base is the run that the others are compared with: that in the version of
// the Command or, if it has none, in the first version that is answered.
func (s *suite) base() *run {
	if s.first != nil {
		return s.first
	}
	candidates := versions()
	if s.cmd.APIVersion != "" {
		candidates = []string{s.cmd.APIVersion}
	}
	for _, version := range candidates {
		if r := s.ask(s.question(version)); r.answered() {
			s.first = r
			return r
		}
	}
	s.first = s.ask(s.question(candidates[0]))
	return s.first
}

// version is that of base.
func (s *suite) version() string { return s.base().version }

// outOfTree reports whether the plugin is examined in the predecessor's protocol.
func (s *suite) outOfTree() bool { return s.cmd.APIVersion == plugin.OutOfTree }

// questionFor is the base question for another image.
func (s *suite) questionFor(image string) question {
	q := s.question(s.version())
	q.image = image
	return q
}
