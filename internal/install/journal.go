// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/textfmt"
)

// changeAction identifies a kind of change.
type changeAction string

const (
	actionInstall   changeAction = "install"
	actionRollback  changeAction = "rollback"
	actionUninstall changeAction = "uninstall"
)

// journal describes a change in progress. It is written before the first modification of the
// node and removed after the last.
type journal struct {
	Action  changeAction `json:"action"`
	From    int          `json:"from"` // number of the old generation; 0 if none
	To      int          `json:"to"`   // number of the new generation; 0 if none
	Started time.Time    `json:"started"`
}

func (j journal) String() string {
	return fmt.Sprintf("%s of generation %d, started at %s,", j.Action, cmp.Or(j.To, j.From), j.Started.Format("2006-01-02 15:04:05 MST"))
}

const journalFile = "journal.json"

func (in *Installer) readJournal(ctx context.Context) (j journal, err error) {
	err = in.readJSON(ctx, journalFile, &j)
	if damaged, ok := errors.AsType[*damagedFileError](err); ok {
		err = withHint("regcred uninstall removes regcred without the journal; or check regcred status, and run rm -rf "+textfmt.QuoteShellWord(damaged.name)+" and regcred install CONFIG",
			"a change was interrupted, and its journal is unreadable: %w", damaged)
	}
	return j, err
}

func (in *Installer) removeJournal() error { return in.fs().RemoveAll(in.Store.Path(journalFile)) }

// writeJSON encodes v into a file in the state directory. It replaces a directory with that name.
func (in *Installer) writeJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if info, err := in.fs().Lstat(in.Store.Path(name)); err == nil && info.IsDir() {
		if err := in.fs().RemoveAll(in.Store.Path(name)); err != nil {
			return err
		}
	}
	return in.fs().WriteFile(in.Store.Path(name), bytes.NewReader(append(data, '\n')), inroot.FileAttr{Mode: 0o600})
}
