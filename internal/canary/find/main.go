// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command find reads standard input and fails if it contains one of the tests' secrets.
// It prints only the line numbers. test.sh passes it the output of all tests.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/regcred/regcred/internal/canary"
)

func main() { os.Exit(run(os.Stdin, os.Stdout)) }

func run(stdin io.Reader, stdout io.Writer) int {
	lines, found := 0, 0
	in := bufio.NewReader(stdin)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			lines++
		}
		if canary.FindMarker(line) != "" {
			found++
			fmt.Fprintf(stdout, "line %d holds a planted secret\n", lines)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			fmt.Fprintln(stdout, "error:", err)
			return 2
		}
	}
	fmt.Fprintf(stdout, "searched %d lines for planted secrets: %d found\n", lines, found)
	if found > 0 || lines == 0 {
		return 1
	}
	return 0
}
