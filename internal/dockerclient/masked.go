// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerclient

import (
	"slices"
	"strings"

	"github.com/regcred/regcred/dockerconfig"
)

// Masked returns a file that can be shown: all values except helper names are
// masked. It returns nil if [Read] fails for the file.
func Masked(data []byte) []byte {
	d, err := parse(data)
	if err != nil || d == nil {
		return nil
	}
	list, _ := d.members() // read checked it
	for _, m := range slices.Backward(list) {
		if !isField(m, credHelpers) && !isField(m, credsStore) {
			d.object = d.object.setValue(m, object(`"…"`))
		}
	}
	return d.bytes()
}

// Hidden returns the keys of credentials that clients ignore, because one of
// the hosts (as in [Entries]) has a helper.
func Hidden(data []byte, hosts []string) (keys []string) {
	file, err := dockerconfig.ParseFile(data)
	if err != nil {
		return nil // clients find no credentials in it
	}
	for _, key := range keysOf(file.Auths) {
		host, _, _ := strings.Cut(dockerconfig.Scope(key), "/")
		if slices.ContainsFunc(hosts, func(h string) bool { return dockerconfig.Scope(h) == host }) {
			keys = append(keys, key)
		}
	}
	return keys
}
