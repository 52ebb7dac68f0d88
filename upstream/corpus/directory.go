// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package corpus

import "slices"

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Configs returns the configurations for config.json, in a fixed order.
func Configs() []Config {
	var all []Config
	m := single()
	for _, name := range sortedKeys(m) {
		all = append(all, Config{Name: name, Files: []File{{Name: "config.yaml", Content: Text(m[name])}}})
	}
	for _, name := range []string{"config", "config.json", "config.yml", "config.txt", "config.yaml.bak", ".yaml"} {
		all = append(all, Config{Name: "file called " + name, Files: []File{{Name: name, Content: base}}})
	}
	all = append(all,
		Config{Name: "JSON in a file called yaml", Files: []File{{Name: "c.yaml", Content: baseJSON}}},
		Config{Name: "YAML in a file called json", Files: []File{{Name: "c.json", Content: base}}},
		Config{Name: "symbolic link to a file", Files: []File{{Name: "c.yaml", Symlink: "real"}, {Name: "real", Content: base}}},
	)
	dirs := directories()
	for _, name := range sortedKeys(dirs) {
		all = append(all, Config{Name: "directory: " + name, IsDir: true, Files: dirs[name]})
	}
	return all
}

func file(name, content string) File { return File{Name: name, Content: Text(content)} }

func directories() map[string][]File {
	two := head + named("two")
	three := swap(base, "io/v1\n", "io/v1beta1\n")
	three = swap(three, "name: one", "name: three")
	return map[string][]File{
		"empty":                     nil,
		"no such file":              {file("readme.txt", "x"), file("config", base), file("a.yaml.bak", base), file("b.YAML", base)},
		"one file":                  {file("a.yaml", base)},
		"lexical order":             {file("b.yaml", base), file("a.yml", two), file("c.json", baseJSONOf("three"))},
		"byte order, not numeric":   {file("10.yaml", base), file("9.yaml", two), file("Z.yaml", three)},
		"extension takes part":      {file("a.yml", base), file("a.yaml", two), file("a.json", baseJSONOf("three"))},
		"prefix of another name":    {file("a-b.yaml", base), file("a.yaml", two), file("a_b.yaml", three)},
		"mixed versions":            {file("a.yaml", base), file("b.yaml", three)},
		"duplicate across files":    {file("a.yaml", base), file("b.yaml", base)},
		"duplicate in one file":     {file("a.yaml", base+provider("one"))},
		"empty name in two files":   {file("a.yaml", head+named(`""`)), file("b.yaml", head+named(`""`))},
		"one file broken":           {file("a.yaml", base), file("b.yaml", "x: [")},
		"one file empty":            {file("a.yaml", base), file("b.yaml", "")},
		"one file without provider": {file("a.yaml", base), file("b.yaml", head+"providers: []\n")},
		"all without provider":      {file("a.yaml", head), file("b.yaml", head+"providers: []\n")},
		"one file invalid":          {file("a.yaml", base), file("b.yaml", head+named("a/b"))},
		"hidden file":               {file(".hidden.yaml", base), file("b.yaml", two)},
		"only an extension":         {file(".yaml", base)},
		"editor backup":             {file("a.yaml", base), file("a.yaml~", two), file(".a.yaml.swp", two)},
		"upper-case extension":      {file("a.yaml", base), file("b.YML", two)},
		"other files ignored":       {file("a.yaml", base), file("b.txt", "[["), file("c", "[[")},
		"subdirectory":              {file("a.yaml", base), {Name: "sub", Dir: true}},
		"subdirectory called yaml":  {file("a.yaml", base), {Name: "sub.yaml", Dir: true}},
		"only subdirectories":       {{Name: "sub.yaml", Dir: true}},
		"link to a file":            {file("real", base), {Name: "a.yaml", Symlink: "real"}},
		"link to a listed file":     {file("b.yaml", base), {Name: "a.yaml", Symlink: "b.yaml"}},
		"link to a directory":       {file("a.yaml", base), {Name: "sub", Dir: true}, {Name: "b.yaml", Symlink: "sub"}},
		"dangling link":             {file("a.yaml", base), {Name: "b.yaml", Symlink: "missing"}},
		"link to itself":            {file("a.yaml", base), {Name: "b.yaml", Symlink: "b.yaml"}},
		"dangling link, not listed": {file("a.yaml", base), {Name: "b", Symlink: "missing"}},
		"config map mount":          {{Name: "..2026", Dir: true}, {Name: "..data", Symlink: "..2026"}, file("a.yaml", base)},
		"blank in a name":           {file("a b.yaml", base), file(" a.yaml", two)},
		"BOM in the second":         {file("a.yaml", base), file("b.yaml", "\ufeff"+two)},
	}
}

func baseJSONOf(name string) string {
	return swap(baseJSON, `"name":"one"`, `"name":"`+name+`"`)
}
