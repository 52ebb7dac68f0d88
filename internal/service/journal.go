// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Log asks journalctl for what the unit's processes have written. By time and
// not by the id of one invocation: a unit that ends and is started again has
// one after the other, and of a process that ends at once the journal may not
// have learned its id.
func (m Systemd) Log(ctx context.Context, unit string, since time.Time, lines int) ([]string, error) {
	journalctl := cmp.Or(m.Journalctl, "journalctl")
	// What has been written may not have arrived yet. Versions before 228 lack this.
	_, _ = output(ctx, journalctl, "--sync")
	// Up to 253, --since with --lines gives the first lines and not the last, but backwards.
	out, err := output(ctx, journalctl, "--quiet", "--no-pager", "--output=cat", "--all", "--reverse",
		"--lines="+strconv.Itoa(lines), fmt.Sprintf("--since=@%d", since.Unix()), "_SYSTEMD_UNIT="+unit)
	if err != nil {
		return nil, err
	}
	read := trimmed(strings.Split(out, "\n"))
	slices.Reverse(read)
	return read, nil
}
