// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command oracle contains one release of the kubelet. upstream/skew builds it with that release's
// libraries and Go settings. It reads queries, one JSON document per line, and writes a response to
// each.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/regcred/regcred/upstream/kubelet"
	"github.com/regcred/regcred/upstream/skew/protocol"
	"github.com/regcred/regcred/upstream/vector"
)

func main() {
	kubelet.DisableLog()
	if err := serveQueries(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

func serveQueries(in io.Reader, out io.Writer) error {
	dir, err := os.MkdirTemp("", "oracle")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// The gate is enabled by default from 1.34. In 1.33, service accounts need it.
	if err := enableTokenGate(); err != nil {
		return err
	}
	asker := vector.New(dir)
	questions, answers := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	answers.SetEscapeHTML(false)
	for {
		var q protocol.Query
		switch err := questions.Decode(&q); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := answers.Encode(respondToQuery(asker, q)); err != nil {
			return err
		}
	}
}

func respondToQuery(asker *vector.VectorRunner, q protocol.Query) protocol.Response {
	v, err := queryVector(asker, q)
	if err == nil {
		var data []byte
		if data, err = json.Marshal(v); err == nil {
			return protocol.Response{Vector: data}
		}
	}
	return protocol.Response{Error: err.Error()}
}

func queryVector(asker *vector.VectorRunner, q protocol.Query) (any, error) {
	asker.TokensOff = q.TokensOff
	switch q.Kind {
	case protocol.GatesQuery:
		return listGates(), nil
	case protocol.BuildQuery:
		return buildInfo(), nil
	}
	for _, k := range vector.Kinds {
		if k.Name == q.Kind {
			return k.RunJSON(asker, q.Case)
		}
	}
	return nil, fmt.Errorf("no kind of cases: %q", q.Kind)
}
