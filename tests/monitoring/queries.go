/*
Copyright 2026 The Sluice Authors

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package monitoring

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"sigs.k8s.io/yaml"
)

// Alerts reads the alert rules of the component in a checkout, by their names.
func Alerts(root string) (map[string]rulefmt.Rule, error) {
	path := filepath.Join(root, "config", "components", "alert-rules", "rules.yaml")
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var manifest struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := yaml.Unmarshal(content, &manifest); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	parsed, problems := rulefmt.Parse(manifest.Spec, false, model.UTF8Validation)
	if len(problems) > 0 {
		return nil, fmt.Errorf("%s: %w", path, errors.Join(problems...))
	}
	alerts := map[string]rulefmt.Rule{}
	for _, group := range parsed.Groups {
		for _, rule := range group.Rules {
			alerts[rule.Alert] = rule
		}
	}
	return alerts, nil
}

// Panels reads the queries of the dashboard in a checkout, by the titles of its panels. Grafana's variables are set to
// all namespaces and a time range.
func Panels(root string, within time.Duration) (map[string][]string, error) {
	content, err := os.ReadFile(filepath.Join(root, "config", "components", "grafana-dashboard", "sluice.json"))
	if err != nil {
		return nil, err
	}
	var dashboard struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(content, &dashboard); err != nil {
		return nil, err
	}
	variables := strings.NewReplacer("$namespace", ".*", "$__rate_interval", model.Duration(within).String(), "$__range", model.Duration(within).String())
	panels := map[string][]string{}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			panels[panel.Title] = append(panels[panel.Title], variables.Replace(target.Expr))
		}
	}
	return panels, nil
}
