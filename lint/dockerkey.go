// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"strings"
	"unicode"

	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/match"
)

// hubEntry is the key of Docker Hub that docker and kubelets read alike.
const hubEntry = "https://index.docker.io/v1/"

// bare is a key without the scheme, and whether a kubelet takes it off.
func bare(key string) (rest, scheme string) {
	scheme, rest, ok := strings.Cut(key, "://")
	if !ok || strings.ContainsAny(scheme, "/?#@") {
		return key, ""
	}
	return rest, scheme + "://"
}

// mendedKey is the key to write instead, "" if none is better.
func mendedKey(key string) string {
	rest, _ := bare(strings.TrimSpace(key))
	at, err := match.ParseLocation(rest)
	if err != nil {
		return ""
	}
	at = mend(at)
	mended := at.String()
	switch {
	case at.Host == "docker.io" && at.Port == "" && at.Path == "":
		mended = hubEntry
	case !matchable(at):
		return ""
	}
	if mended == key || dockerconfig.ShowKey(mended)[0] != '"' {
		return ""
	}
	return mended
}

// ruleKeyNoImage: no image can match the key, exactly.
func ruleKeyNoImage(e *dockerEntry) []remark {
	if !e.parses {
		return e.at(e.Start, e.path(), mendedKey(e.Key), "%s is not a valid host and path, so the kubelet ignores it", e.shown())
	}
	at := e.key.Location()
	if e.key.String() == match.HubKey || matchable(at) {
		return nil
	}
	return e.at(e.Start, e.path(), mendedKey(e.Key), "no image matches %s: %s", e.shown(), whyNoImage(e.Key, at))
}

// whyNoImage says why a key that parses matches no image.
func whyNoImage(key string, at match.Location) string {
	_, scheme := bare(key)
	switch {
	case scheme != "" && scheme != "https://" && scheme != "http://":
		return "the kubelet strips only lowercase https:// and http://, and treats any other scheme as the host"
	case at.Host == "":
		return "it has no host"
	case strings.IndexFunc(key, unicode.IsSpace) >= 0:
		return "it contains white space"
	case at.Host == "index.docker.io" && at.Port == "":
		return "the kubelet looks up Docker Hub images under index.docker.io, and strips /v1/ and /v2/ but not /v1 or /v2 without a trailing slash"
	case strings.ContainsAny(at.Path, "*[") && !strings.ContainsAny(at.Path, ":@"):
		return "globs do not work in paths, which are matched as prefixes"
	case strings.ContainsAny(at.Path, ":@"):
		return "matching ignores tags and digests"
	case strings.ContainsFunc(at.Path, unicode.IsUpper):
		return "image paths must be lowercase"
	case dotless(at):
		return "a host without a dot or a port is part of a Docker Hub image name"
	case !portPossible(at.Port):
		return "its port is invalid"
	case !pathPossible(at.Path):
		return "an image name cannot contain this path"
	}
	return "an image name cannot contain this host"
}

// ruleKeyOtherImage: images match the key, but others than it reads.
func ruleKeyOtherImage(e *dockerEntry) []remark {
	at := e.key.Location()
	if !e.parses || e.key.String() == match.HubKey || !matchable(at) {
		return nil
	}
	rest, _ := bare(e.Key)
	authority, path, _ := strings.Cut(rest, "/")
	fix := mendedKey(e.Key)
	say := func(format string, args ...any) []remark {
		return e.at(e.Start, e.path(), fix, "%s: "+format, append([]any{e.shown()}, args...)...)
	}
	switch {
	case at.Port == "" && at.Host != "docker.io" && dockerAlias(at.Host):
		return say("Docker Hub images are matched as docker.io/…, so this key does not match them")
	case strings.Contains(authority, "@"):
		return say("the kubelet ignores the text before the @, including any credential")
	case strings.ContainsAny(rest, "?#"):
		return say("the kubelet ignores the query and the fragment")
	case apiPath(at.Path):
		return say("this key matches only repositories named %s, because the kubelet strips /v1/ and /v2/ but not /v1 or /v2 without a trailing slash", strings.Trim(at.Path, "/"))
	case hasCapital(at.Host):
		return say("matching is case-sensitive, and hosts in image names are lowercase")
	case at.Port == "443":
		without := at
		without.Port = ""
		fix = without.String()
		return say("this key matches only images with an explicit port, because the kubelet compares ports as text")
	case strings.HasPrefix(path, "v1/") || strings.HasPrefix(path, "v2/"):
		if len(path) > 3 {
			fix = at.String()
			return say("the kubelet removes /%s, so the key matches images under %s", path[:3], at.String())
		}
	}
	return nil
}
