// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerclient

import (
	"slices"
	"strings"

	"github.com/regcred/regcred/dockerconfig"
)

// Masked returns a file in which every value but the names of helpers is a
// mark, so that it can be shown. Of one that [Read] refuses it is nil.
func Masked(data []byte) []byte {
	d, err := parse(data)
	if err != nil || d == nil {
		return nil
	}
	list, _ := d.members() // read has read them
	for _, m := range slices.Backward(list) {
		if !isField(m, credHelpers) && !isField(m, credsStore) {
			d.object = d.object.setValue(m, object(`"…"`))
		}
	}
	return d.bytes()
}

// Hidden returns the keys of logins in a file that its readers do not look at
// because a helper is named for the same host: those of hosts (as in
// [Entries]).
func Hidden(data []byte, hosts []string) (keys []string) {
	file, err := dockerconfig.ParseFile(data)
	if err != nil {
		return nil // no reader of it finds a login there
	}
	for _, key := range keysOf(file.Auths) {
		host, _, _ := strings.Cut(dockerconfig.Scope(key), "/")
		if slices.ContainsFunc(hosts, func(h string) bool { return dockerconfig.Scope(h) == host }) {
			keys = append(keys, key)
		}
	}
	return keys
}
