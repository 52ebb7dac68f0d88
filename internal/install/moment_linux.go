// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/regularfile"
)

// BootTime returns the time since boot. It uses the same clock and unit as the start times of
// processes in /proc.
func BootTime() (generation.BootTime, error) {
	id, err := regularfile.Read(context.Background(), "/proc/sys/kernel/random/boot_id", 1<<10)
	if err != nil {
		return generation.BootTime{}, err
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return generation.BootTime{}, fmt.Errorf("read the time since boot: %w", err)
	}
	const ticks = 100 // USER_HZ: ticks per second
	return generation.BootTime{Boot: strings.TrimSpace(string(id)), Ticks: uint64(now.Nano()) / (1_000_000_000 / ticks)}, nil
}
