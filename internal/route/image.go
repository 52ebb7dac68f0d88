// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package route

import (
	"strings"

	"github.com/regcred/regcred/match"
)

// Image is a parsed image reference.
type Image struct {
	Repository string // normalized as in the kubelet: docker.io/library/nginx
	Host, Path string // parts of Repository; the host includes the port
	Tag        string // "" if the image has a digest
	Digest     string // "" if the image has no digest
	HasNoHost  bool   // the reference has no host
}

// Parse parses an image reference. If it has neither tag nor digest, the tag is latest.
func Parse(image string) (Image, error) {
	repository, err := match.Repository(image)
	if err != nil {
		return Image{}, err
	}
	i := Image{Repository: repository}
	i.Host, i.Path, _ = strings.Cut(repository, "/")
	name, digest, _ := strings.Cut(image, "@")
	first, rest, _ := strings.Cut(name, "/")
	i.HasNoHost = rest == "" || !strings.ContainsAny(first, ".:") && first != "localhost" && first == strings.ToLower(first)
	if i.Digest = digest; digest != "" {
		return i, nil
	}
	i.Tag = "latest"
	if at := strings.LastIndexByte(name, ':'); at > strings.LastIndexByte(name, '/') {
		i.Tag = name[at+1:]
	}
	return i, nil
}

// String returns the complete reference.
func (i Image) String() string {
	if i.Digest != "" {
		return i.Repository + "@" + i.Digest
	}
	return i.Repository + ":" + i.Tag
}
