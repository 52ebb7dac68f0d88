// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/regularfile"
)

// filed is what stands in the file for the probe.
type filed struct {
	Status
	Until time.Time `json:"until"` // when the pod will have written it anew
}

func (f filed) put(work string) error {
	return inroot.FS{}.Put(filepath.Join(work, statusName), bytes.NewReader(compact(f)), inroot.Attr{Mode: 0o600})
}

// Ready says whether the pod that works in a directory is ready, and how its node
// stands, in one line of at most 1 KiB.
func Ready(ctx context.Context, work string, now time.Time) (ready bool, line string) {
	data, err := regularfile.Read(ctx, filepath.Join(work, statusName), maxOwnFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, "starting: nothing has been changed yet"
	}
	var f filed
	if err == nil && (json.Unmarshal(data, &f) != nil || f.SchemaVersion != statusVersion || f.Phase == "") {
		err = fmt.Errorf("%s: the file was not written by regcred agent run", filepath.Join(work, statusName))
	}
	if err != nil {
		return false, short(err.Error(), maxReason)
	}
	text := fmt.Sprintf("node %s: %s", f.Node, f.Phase)
	late := now.Sub(f.Until)
	switch {
	case late > 0:
		text += fmt.Sprintf(", as of %s: the next check by regcred agent run was due by %s", f.Time.Format(time.RFC3339), f.Until.Format(time.RFC3339))
	case f.Reason != "":
		text += ": " + f.Reason
	}
	return f.Phase.Done() && late <= 0, short(text, maxReason)
}
