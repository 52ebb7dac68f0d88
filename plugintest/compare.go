// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/plugin"
)

// difference says in what b differs from a, which was given for the same
// image; "" if in nothing. Passwords count if two equal requests get the same.
func (s *suite) difference(a, b *plugin.Response) string {
	if what := shape(a, b); what != "" {
		return what
	}
	for _, key := range slices.Sorted(maps.Keys(a.Auth)) {
		if a.Auth[key].Password == b.Auth[key].Password {
			continue
		}
		if s.rotating() || s.renewed() {
			return ""
		}
		return fmt.Sprintf("the password of %q is another one", shownKey(key))
	}
	return ""
}

// shape is difference without passwords.
func shape(a, b *plugin.Response) string {
	if a.CacheKeyType != b.CacheKeyType {
		return fmt.Sprintf("cacheKeyType is %s and not %s", b.CacheKeyType, a.CacheKeyType)
	}
	before, after := slices.Sorted(maps.Keys(a.Auth)), slices.Sorted(maps.Keys(b.Auth))
	if !slices.Equal(before, after) {
		return fmt.Sprintf("the auth keys are %s and not %s", keys(after), keys(before))
	}
	for _, key := range before {
		if a.Auth[key].Username != b.Auth[key].Username {
			return fmt.Sprintf("the user name of %q is another one", shownKey(key))
		}
	}
	return ""
}

// rotating reports whether two equal requests get different passwords.
func (s *suite) rotating() bool { return s.anotherPassword(s.again(1)) }

// renewed reports whether the base question, asked now, gets another password
// than at first: services renew them by the clock, between two of our runs.
func (s *suite) renewed() bool {
	return s.anotherPassword(s.runWith(s.cmd, s.question(s.version())))
}

// anotherPassword reports whether a run of the base question was answered as
// at first, but for the passwords.
func (s *suite) anotherPassword(r *run) bool {
	base := s.base()
	if !base.answered() || !r.answered() || shape(base.x.Response, r.x.Response) != "" {
		return false
	}
	return !maps.Equal(base.x.Response.Auth, r.x.Response.Auth)
}

// again asks the base question once more.
func (s *suite) again(nth int) *run {
	q := s.question(s.version())
	q.nth = nth
	return s.ask(q)
}

// pick returns the credentials that a kubelet would take from an answer for
// an image, in its order. The keyring is the one that regcred itself uses.
func pick(resp *plugin.Response, image string) []regcred.Credential {
	ring, err := regcred.New(&config.Config{}, regcred.Options{BinDir: ".", Sources: []regcred.AuthSource{answer(resp.Auth)}})
	if err != nil {
		return nil
	}
	defer ring.Close()
	res, err := ring.Lookup(context.Background(), regcred.Request{Image: image})
	if err != nil {
		return nil // the image is none
	}
	return res.Credentials
}

// answer is a [regcred.AuthSource] with one answer.
type answer map[string]plugin.AuthConfig

func (answer) Name() string { return "answer" }

func (a answer) Auths(context.Context, string) ([]regcred.AuthSet, error) {
	return []regcred.AuthSet{{Source: regcred.Source{Kind: regcred.SourceNode}, Auths: a}}, nil
}

// keys lists auth keys for a finding.
func keys(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	shown := make([]string, len(list))
	for i, key := range list {
		shown[i] = shownKey(key)
	}
	return listed(shown)
}

// shownKey is an auth key without what may be a secret: user information,
// query and fragment.
func shownKey(key string) string {
	if i := strings.LastIndexByte(key, '@'); i >= 0 {
		key = "…" + key[i:]
	}
	if i := strings.IndexAny(key, "?#"); i >= 0 {
		key = key[:i+1] + "…"
	}
	return shorten(key)
}

// bareKey is an auth key as it is matched: without a scheme and the path of
// the registry's API. It serves to explain; pick decides.
func bareKey(key string) string {
	rest, ok := strings.CutPrefix(key, "https://")
	if !ok {
		rest = strings.TrimPrefix(key, "http://")
	}
	host, path, _ := strings.Cut(rest, "/")
	for _, api := range []string{"v1/", "v2/"} {
		if p, ok := strings.CutPrefix(path, api); ok {
			path = p
			break
		}
	}
	if path == "" {
		return host
	}
	return host + "/" + path
}

// registry is the host and port of an image.
func registry(image string) string {
	host, _, _ := strings.Cut(image, "/")
	return host
}

// inRegistry is an image of the same path in another registry.
func inRegistry(image, host string) string {
	_, path, _ := strings.Cut(image, "/")
	return host + "/" + path
}
