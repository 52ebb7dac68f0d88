// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/scrub"
)

// scrubbed redacts the node's secrets in lines: configured environment variables and
// arguments, and values with names such as password.
func (k *Kubelet) scrubbed(ctx context.Context, lines []string) (clean []string) {
	var secrets []scrub.Secret
	for _, v := range append(k.configured(ctx), k.Node.Secrets(ctx)...) {
		secrets = append(secrets, scrub.Secret{Text: v})
	}
	for _, line := range lines {
		text, cut := strings.CutSuffix(line, "…")
		if text = scrub.Part(text, secrets, false, cut); cut {
			text += "…"
		}
		clean = append(clean, text)
	}
	return clean
}

// configured returns env and args values of the kubelet's and the checked
// configuration, including invalid ones, about which kubelets log most.
func (k *Kubelet) configured(ctx context.Context) (values []string) {
	paths := []string{k.Node.Host(k.Setup.Config.Path)}
	if k.Origin != nil {
		paths = append(paths, k.Origin.Config)
	}
	if k.Config != nil {
		values = append(values, valuesOf(k.Config)...)
	}
	for _, path := range paths {
		if cfg, err := config.Load(path); err == nil {
			values = append(values, valuesOf(cfg)...)
		} else if data, err := regularfile.Read(ctx, path, maxDockerConfig); err == nil {
			var raw any
			if yaml.Unmarshal(data, &raw) == nil {
				values = append(values, valuesIn(raw, false)...)
			}
		}
	}
	return values
}

func valuesOf(cfg *config.Config) (values []string) {
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		for _, e := range p.Env {
			values = append(values, e.Value.Reveal())
		}
		for _, arg := range p.Args {
			values = append(values, arg.Reveal())
		}
	}
	return values
}

// valuesIn returns the scalars below the keys value and args.
func valuesIn(raw any, below bool) (values []string) {
	switch v := raw.(type) {
	case map[string]any:
		for key, v := range v {
			values = append(values, valuesIn(v, below || strings.EqualFold(key, "value") || strings.EqualFold(key, "args"))...)
		}
	case []any:
		for _, v := range v {
			values = append(values, valuesIn(v, below)...)
		}
	case string, float64, int64:
		if below {
			values = append(values, fmt.Sprint(v))
		}
	}
	return values
}
