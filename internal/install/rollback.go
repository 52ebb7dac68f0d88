// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/regcred/regcred/internal/generation"
)

// Rollback activates an earlier generation. If number is 0, it activates the previous
// generation. It only changes the link "current", unless the generations have different host
// files.
func (in *Installer) Rollback(ctx context.Context, number int, o Options) (to *generation.Manifest, err error) {
	unlock, err := in.lockNode(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	numbers, err := in.Store.ListNumbers()
	if err != nil {
		return nil, err
	}
	from, err := in.rollbackFrom(ctx, numbers)
	if err != nil {
		return nil, err
	}
	if to, err = in.rollbackTo(ctx, from, numbers, number); err != nil {
		return nil, err
	}
	why, err := in.restartReasons(ctx, to.Layout, to.Entries)
	if err != nil {
		return nil, err
	}
	if err := checkRestartAllowed(why, o); err != nil {
		return nil, err
	}
	if to, err = in.withCurrentCopies(ctx, from, to); err != nil {
		return nil, err
	}
	for _, h := range to.Host { // as in an install
		if _, err := in.hostFileDiff(ctx, from, to, h); err != nil {
			return nil, err
		}
	}
	c := &generationChange{Installer: in, action: actionRollback, from: from, to: to, restart: len(why) > 0}
	if err := c.checkNextStart(ctx); err != nil {
		return nil, err
	}
	return to, c.run(ctx)
}

// rollbackFrom returns the current generation. It returns nil if that generation is damaged,
// because a rollback repairs the damage.
func (in *Installer) rollbackFrom(ctx context.Context, numbers []int) (*generation.Manifest, error) {
	if len(numbers) == 0 {
		if err := in.checkOrphaned(); err != nil {
			return nil, err
		}
		if in.HasState() {
			return nil, withHint("regcred uninstall, then regcred install CONFIG", "there is no generation on this node, only leftovers of one")
		}
		return nil, withHint("regcred install CONFIG", "there is no generation on this node")
	}
	m, err := in.currentManifest(ctx)
	if isUnreadable(err) {
		return nil, err
	}
	if err != nil {
		in.progressf("%v", err)
	}
	return m, nil
}

// rollbackTo returns the generation to which Rollback changes. It returns an error if the
// generation does not exist or was modified.
func (in *Installer) rollbackTo(ctx context.Context, from *generation.Manifest, numbers []int, number int) (*generation.Manifest, error) {
	if number == 0 && from != nil {
		if number = from.Previous; number == 0 {
			return nil, withHint("regcred uninstall removes regcred from this node", "the current generation (%d) has no previous generation", from.Number)
		}
	}
	if number == 0 {
		return nil, withHint(in.repairHint(ctx), "the previous generation is unknown; %s", generationsText(numbers))
	}
	if !slices.Contains(numbers, number) {
		return nil, withHint(generationsText(numbers), "there is no generation %d to roll back to", number)
	}
	m, err := in.Store.Manifest(ctx, number)
	if isUnreadable(err) {
		return nil, err
	}
	if err != nil {
		return nil, withHint(in.repairHint(ctx), "%w", err)
	}
	if changed := in.Store.ModifiedFiles(ctx, m); len(changed) > 0 {
		return nil, withHint(in.repairHint(ctx), "generation %d was modified after it was created: %s", number, strings.Join(changed, ", "))
	}
	return m, nil
}

// generationsText lists one or more generations in a sentence: "generations 1, 2 and 3 exist".
func generationsText(numbers []int) string {
	var texts []string
	for _, n := range numbers {
		texts = append(texts, strconv.Itoa(n))
	}
	last := len(texts) - 1
	if last == 0 {
		return "generation " + texts[0] + " exists"
	}
	return "generations " + strings.Join(texts[:last], ", ") + " and " + texts[last] + " exist"
}
