// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command oracle contains one release of the kubelet. upstream/skew builds it with that
// release's libraries and Go settings. It reads questions, one JSON document per line,
// and writes an answer to each.
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
	kubelet.Silence()
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	dir, err := os.MkdirTemp("", "oracle")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// Enabled by default from 1.34. In 1.33 service accounts need it.
	if err := tokensOn(); err != nil {
		return err
	}
	asker := vector.New(dir)
	questions, answers := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	answers.SetEscapeHTML(false)
	for {
		var q protocol.Question
		switch err := questions.Decode(&q); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := answers.Encode(answer(asker, q)); err != nil {
			return err
		}
	}
}

func answer(asker *vector.Asker, q protocol.Question) protocol.Answer {
	v, err := ask(asker, q)
	if err == nil {
		var data []byte
		if data, err = json.Marshal(v); err == nil {
			return protocol.Answer{Vector: data}
		}
	}
	return protocol.Answer{Error: err.Error()}
}

func ask(asker *vector.Asker, q protocol.Question) (any, error) {
	asker.TokensOff = q.TokensOff
	switch q.Kind {
	case protocol.Gates:
		return gates(), nil
	case protocol.About:
		return about(), nil
	}
	for _, k := range vector.Kinds {
		if k.Name == q.Kind {
			return k.Ask(asker, q.Case)
		}
	}
	return nil, fmt.Errorf("no kind of cases: %q", q.Kind)
}
