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

// Log reads the unit's log with journalctl. It selects by time, not by invocation: each
// restart is another invocation, and for a process that exits at once the journal may
// not know the invocation.
func (m Systemd) Log(ctx context.Context, unit string, since time.Time, lines int) ([]string, error) {
	journalctl := cmp.Or(m.Journalctl, "journalctl")
	// The last lines may not have arrived yet. Versions before 228 lack --sync.
	_, _ = output(ctx, journalctl, "--sync")
	// Up to 253, --since with --lines returns the first lines, except with --reverse.
	out, err := output(ctx, journalctl, "--quiet", "--no-pager", "--output=cat", "--all", "--reverse",
		"--lines="+strconv.Itoa(lines), fmt.Sprintf("--since=@%d", since.Unix()), "_SYSTEMD_UNIT="+unit)
	if err != nil {
		return nil, err
	}
	read := trimmed(strings.Split(out, "\n"))
	slices.Reverse(read)
	return read, nil
}
