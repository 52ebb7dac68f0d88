// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import "strings"

// flagError is an error for options from flags. It names the flags instead of the fields of a
// configuration file.
type flagError struct{ error }

func (e flagError) Unwrap() error { return e.error }

func (e flagError) Error() string {
	return strings.NewReplacer(
		"; check exchange.url and exchange.method", "; check --exchange-url",
		"must not contain a user name; use basicAuth", "must not contain a user name; use --exchange-client-id",
		"(insecureHTTP: true allows http)", "(--exchange-insecure-http allows http)",
		"set username, or exchange.response.username if the response contains the user name", "set --username",
		"tokenFile and optional", "--token-file and --optional",
		"exchange.url", "--exchange-url",
		"exchange.caFile", "--exchange-ca-file",
		"exchange.form.audience", "--exchange-audience", "exchange.form.scope", "--exchange-scope", "exchange.form.resource", "--exchange-resource",
		" form.audience:", " --exchange-audience:", " form.scope:", " --exchange-scope:", " form.resource:", " --exchange-resource:",
		"exchange.basicAuth.username", "--exchange-client-id", "exchange.basicAuth.password", "--exchange-client-secret-file",
		" basicAuth.username:", " --exchange-client-id:", " basicAuth.password:", " --exchange-client-secret-file:",
		" url: ", " --exchange-url: ",
	).Replace(e.error.Error())
}

// nameFlags returns err with the names of flags if the options came from flags.
func (o *Options) nameFlags(err error) error {
	if err == nil || !o.FromFlags {
		return err
	}
	return flagError{err}
}

// fieldName returns the name of a field of Options in a configuration file, or of its flag.
func (o *Options) fieldName(field string) string {
	flags := map[string]string{"cacheDuration": "--cache-duration", "tokenFile": "--token-file", "username": "--username"}
	if o.FromFlags {
		return flags[field]
	}
	return field
}
