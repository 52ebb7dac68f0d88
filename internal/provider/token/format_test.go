// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/provider/token"
)

// TestExchangeIsOpaque verifies that neither formatting verbs nor encoders print the contents of an
// exchange.
func TestExchangeIsOpaque(t *testing.T) {
	auth := token.BasicAuth{Username: "u", Password: canary.PasswordSecret}
	e := token.Exchange{
		URL: "https://a.example", Headers: map[string]string{"Authorization": canary.PasswordSecret},
		Form: map[string]string{"secret": canary.PasswordSecret}, JSON: canary.PasswordSecret, BasicAuth: &auth,
	}
	for _, v := range []any{e, &e, auth, &auth, struct{ E *token.Exchange }{&e}, []token.BasicAuth{auth}, token.Options{Exchange: &e}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			canary.AssertAbsent(t, verb, fmt.Sprintf(verb, v))
		}
		data, err := json.Marshal(v)
		if err == nil {
			canary.AssertAbsent(t, "JSON", string(data))
		}
		var b bytes.Buffer
		_ = gob.NewEncoder(&b).Encode(v)
		canary.AssertAbsent(t, "gob", b.String())
	}
}
