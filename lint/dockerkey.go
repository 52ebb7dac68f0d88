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
		return e.at(e.Start, e.path(), mendedKey(e.Key), "%s does not parse as host and path, so that a kubelet leaves it out", e.shown())
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
		return "a kubelet takes off https:// and http:// alone, in lower case, and takes another scheme for the host"
	case at.Host == "":
		return "it names no host"
	case strings.IndexFunc(key, unicode.IsSpace) >= 0:
		return "it has blanks"
	case at.Host == "index.docker.io" && at.Port == "":
		return "images of Docker Hub are docker.io/…, for which a kubelet looks under index.docker.io alone; it takes /v1/ and /v2/ off, each with its slash at the end"
	case strings.ContainsAny(at.Path, "*[") && !strings.ContainsAny(at.Path, ":@"):
		return "globs do not work in a path; a path matches everything that begins with it"
	case strings.ContainsAny(at.Path, ":@"):
		return "images are compared without tag and digest"
	case strings.ContainsFunc(at.Path, unicode.IsUpper):
		return "the path of an image name is lower case"
	case dotless(at):
		return "without a dot or a port, what an image name begins with is no host, but a part of a name on Docker Hub"
	case !portPossible(at.Port):
		return "that is no port"
	case !pathPossible(at.Path):
		return "no image name has such a path"
	}
	return "no image has such a host"
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
		return say("images of Docker Hub are docker.io/…, which this does not match")
	case strings.Contains(authority, "@"):
		return say("a kubelet drops what stands before the @; it is not the place for a login")
	case strings.ContainsAny(rest, "?#"):
		return say("a kubelet drops the query and the fragment")
	case apiPath(at.Path):
		return say("it serves only repositories named %s: a kubelet takes /v1/ and /v2/ off, each with its slash at the end", strings.Trim(at.Path, "/"))
	case hasCapital(at.Host):
		return say("case counts, and image names have their host in lower case")
	case at.Port == "443":
		without := at
		without.Port = ""
		fix = without.String()
		return say("it serves only images that spell the port out: a kubelet compares ports as text")
	case strings.HasPrefix(path, "v1/") || strings.HasPrefix(path, "v2/"):
		if len(path) > 3 {
			fix = at.String()
			return say("a kubelet takes /%s off, so that it serves images of %s", path[:3], at.String())
		}
	}
	return nil
}
