// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kubelet

import (
	"reflect"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestFieldOf checks that the error for a missing field names the field and its type.
func TestFieldOf(t *testing.T) {
	type inner struct{ plugin string }
	v := reflect.ValueOf(&struct{ impl any }{&inner{"p"}})
	impl := must.Get(fieldByName(v, "impl"))(t)
	if got, err := fieldByName(impl, "plugin"); err != nil || got.String() != "p" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := fieldByName(impl, "moved"); err == nil || !strings.Contains(err.Error(), "kubelet.inner has no field moved") {
		t.Errorf("a field that is not there: %v", err)
	}
	if _, err := fieldByName(reflect.ValueOf((*inner)(nil)), "plugin"); err == nil || !strings.Contains(err.Error(), "a nil pointer has no field plugin") {
		t.Errorf("a nil pointer: %v", err)
	}
}
