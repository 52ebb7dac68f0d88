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
	m := singleFileConfigs()
	for _, name := range sortedKeys(m) {
		all = append(all, Config{Name: name, Files: []File{{Name: "config.yaml", Content: RawString(m[name])}}})
	}
	for _, name := range []string{"config", "config.json", "config.yml", "config.txt", "config.yaml.bak", ".yaml"} {
		all = append(all, Config{Name: "file called " + name, Files: []File{{Name: name, Content: baseConfig}}})
	}
	all = append(all,
		Config{Name: "JSON in a file called yaml", Files: []File{{Name: "c.yaml", Content: baseConfigJSON}}},
		Config{Name: "YAML in a file called json", Files: []File{{Name: "c.json", Content: baseConfig}}},
		Config{Name: "symbolic link to a file", Files: []File{{Name: "c.yaml", Symlink: "real"}, {Name: "real", Content: baseConfig}}},
	)
	dirs := configDirectories()
	for _, name := range sortedKeys(dirs) {
		all = append(all, Config{Name: "directory: " + name, IsDir: true, Files: dirs[name]})
	}
	return all
}

func newFile(name, content string) File { return File{Name: name, Content: RawString(content)} }

func configDirectories() map[string][]File {
	two := configHeader + configWithName("two")
	three := mustReplace(baseConfig, "io/v1\n", "io/v1beta1\n")
	three = mustReplace(three, "name: one", "name: three")
	return map[string][]File{
		"empty":                     nil,
		"no such file":              {newFile("readme.txt", "x"), newFile("config", baseConfig), newFile("a.yaml.bak", baseConfig), newFile("b.YAML", baseConfig)},
		"one file":                  {newFile("a.yaml", baseConfig)},
		"lexical order":             {newFile("b.yaml", baseConfig), newFile("a.yml", two), newFile("c.json", baseJSONWithName("three"))},
		"byte order, not numeric":   {newFile("10.yaml", baseConfig), newFile("9.yaml", two), newFile("Z.yaml", three)},
		"extension takes part":      {newFile("a.yml", baseConfig), newFile("a.yaml", two), newFile("a.json", baseJSONWithName("three"))},
		"prefix of another name":    {newFile("a-b.yaml", baseConfig), newFile("a.yaml", two), newFile("a_b.yaml", three)},
		"mixed versions":            {newFile("a.yaml", baseConfig), newFile("b.yaml", three)},
		"duplicate across files":    {newFile("a.yaml", baseConfig), newFile("b.yaml", baseConfig)},
		"duplicate in one file":     {newFile("a.yaml", baseConfig+providerYAML("one"))},
		"empty name in two files":   {newFile("a.yaml", configHeader+configWithName(`""`)), newFile("b.yaml", configHeader+configWithName(`""`))},
		"one file broken":           {newFile("a.yaml", baseConfig), newFile("b.yaml", "x: [")},
		"one file empty":            {newFile("a.yaml", baseConfig), newFile("b.yaml", "")},
		"one file without provider": {newFile("a.yaml", baseConfig), newFile("b.yaml", configHeader+"providers: []\n")},
		"all without provider":      {newFile("a.yaml", configHeader), newFile("b.yaml", configHeader+"providers: []\n")},
		"one file invalid":          {newFile("a.yaml", baseConfig), newFile("b.yaml", configHeader+configWithName("a/b"))},
		"hidden file":               {newFile(".hidden.yaml", baseConfig), newFile("b.yaml", two)},
		"only an extension":         {newFile(".yaml", baseConfig)},
		"editor backup":             {newFile("a.yaml", baseConfig), newFile("a.yaml~", two), newFile(".a.yaml.swp", two)},
		"upper-case extension":      {newFile("a.yaml", baseConfig), newFile("b.YML", two)},
		"other files ignored":       {newFile("a.yaml", baseConfig), newFile("b.txt", "[["), newFile("c", "[[")},
		"subdirectory":              {newFile("a.yaml", baseConfig), {Name: "sub", Dir: true}},
		"subdirectory called yaml":  {newFile("a.yaml", baseConfig), {Name: "sub.yaml", Dir: true}},
		"only subdirectories":       {{Name: "sub.yaml", Dir: true}},
		"link to a file":            {newFile("real", baseConfig), {Name: "a.yaml", Symlink: "real"}},
		"link to a listed file":     {newFile("b.yaml", baseConfig), {Name: "a.yaml", Symlink: "b.yaml"}},
		"link to a directory":       {newFile("a.yaml", baseConfig), {Name: "sub", Dir: true}, {Name: "b.yaml", Symlink: "sub"}},
		"dangling link":             {newFile("a.yaml", baseConfig), {Name: "b.yaml", Symlink: "missing"}},
		"link to itself":            {newFile("a.yaml", baseConfig), {Name: "b.yaml", Symlink: "b.yaml"}},
		"dangling link, not listed": {newFile("a.yaml", baseConfig), {Name: "b", Symlink: "missing"}},
		"config map mount":          {{Name: "..2026", Dir: true}, {Name: "..data", Symlink: "..2026"}, newFile("a.yaml", baseConfig)},
		"blank in a name":           {newFile("a b.yaml", baseConfig), newFile(" a.yaml", two)},
		"BOM in the second":         {newFile("a.yaml", baseConfig), newFile("b.yaml", "\ufeff"+two)},
	}
}

func baseJSONWithName(name string) string {
	return mustReplace(baseConfigJSON, `"name":"one"`, `"name":"`+name+`"`)
}
