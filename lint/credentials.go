// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
)

// CredentialKind is what a file or object with credentials is.
type CredentialKind string

// The kinds of files with credentials.
const (
	DockerConfigFile CredentialKind = "docker config.json"
	DockercfgFile    CredentialKind = ".dockercfg"
	SecretFile       CredentialKind = "Secret manifest"
)

// Credentials is what a kubelet makes of a file or object with credentials,
// and what is wrong with it. Nothing in it holds a user name, a password or a
// token: of those that end it says when.
type Credentials struct {
	Kind     CredentialKind
	Secrets  int  // how many Secrets a manifest holds
	Logins   int  // keys for which a kubelet hands a user name to the runtime
	Refused  bool // a kubelet reads nothing of it, or of one of the Secrets
	Findings []finding.Finding
}

// DockerConfig checks a config.json as kubelets read it. The name is that of
// the file in findings; now tells which passwords have ended.
func DockerConfig(name string, data []byte, now time.Time) *Credentials {
	return checkDocker(&docker{data: data, now: now, place: inFileNamed(name)}, DockerConfigFile)
}

// Dockercfg checks a .dockercfg, which is the auths alone.
func Dockercfg(name string, data []byte, now time.Time) *Credentials {
	return checkDocker(&docker{data: data, now: now, legacy: true, place: inFileNamed(name)}, DockercfgFile)
}

// CredentialFile checks what a file is by its look: a Secret manifest, a
// config.json or a .dockercfg. It returns nil for anything else.
func CredentialFile(name string, data []byte, now time.Time) *Credentials {
	switch detect(name, data) {
	case SecretFile:
		if c := SecretManifest(name, data, now); c.Secrets > 0 || c.Refused {
			return c
		}
	case DockerConfigFile:
		return DockerConfig(name, data, now)
	case DockercfgFile:
		return Dockercfg(name, data, now)
	}
	return nil
}

func checkDocker(d *docker, kind CredentialKind) *Credentials {
	l := linter{config: &config.Config{}}
	d.check(&l)
	return &Credentials{Kind: kind, Logins: d.logins(), Refused: len(d.problems) > 0, Findings: l.sorted()}
}

// check applies the rules for a docker config.
func (d *docker) check(l *linter) {
	d.read()
	apply(l, dockerRules(), d, nowhere)
	if len(ruleDockerForm(d)) > 0 {
		return // these are no logins
	}
	rules := entryRules()
	for i := range d.entries {
		if e := &d.entries[i]; e.counts() && !e.apart {
			apply(l, rules, e, nowhere)
		}
	}
}

// entryRules are the rules for one login of a docker config.
func entryRules() []rule[*dockerEntry] {
	return []rule[*dockerEntry]{
		{"docker-no-login", finding.SeverityWarning, ruleNoLogin},
		{"docker-token-alone", finding.SeverityError, ruleTokenAlone},
		{"docker-no-user", finding.SeverityError, ruleNoUser},
		{"docker-no-password", finding.SeverityWarning, ruleNoPassword},
		{"docker-control-character", finding.SeverityError, ruleControlCharacter},
		{"docker-blank", finding.SeverityWarning, ruleLoginBlank},
		{"docker-placeholder", finding.SeverityWarning, ruleDockerPlaceholder},
		{"docker-auth-wrapped", finding.SeverityInfo, ruleAuthWrapped},
		{"docker-auth-wins", finding.SeverityWarning, ruleAuthWins},
		{"docker-password-encoded", finding.SeverityWarning, rulePasswordEncoded},
		{"docker-password-ended", finding.SeverityError, rulePasswordEnded},
		{"docker-password-ends", finding.SeverityWarning, rulePasswordEnds},
		{"docker-json-key", finding.SeverityError, ruleJSONKey},
		{"docker-key-no-image", finding.SeverityError, ruleKeyNoImage},
		{"docker-key-other-image", finding.SeverityWarning, ruleKeyOtherImage},
	}
}
