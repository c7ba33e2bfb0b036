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

// Package monitoring evaluates the queries of config/components with Prometheus' own parser and engine.
package monitoring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// Prometheus stores what controllers expose, and evaluates queries.
type Prometheus struct {
	engine *promql.Engine
	// series are found by the text of their labels.
	series map[string]*promql.Series
	// exposed are the series of each target as it was last scraped.
	exposed map[string]map[string]bool
}

// NewPrometheus returns one without samples.
func NewPrometheus() *Prometheus {
	return &Prometheus{
		engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute}),
		series: map[string]*promql.Series{}, exposed: map[string]map[string]bool{},
	}
}

// Close ends it.
func (p *Prometheus) Close() error { return p.engine.Close() }

// Scrape stores the metrics of a target as if scraped at a time, which must be later than the previous one. Series that
// are gone become stale. Labels of the target are added if a metric lacks them, as with honorLabels.
func (p *Prometheus) Scrape(metrics string, at time.Time, target map[string]string) error {
	text, err := textparse.New([]byte(metrics), "text/plain; version=0.0.4", labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return err
	}
	exposed := map[string]bool{}
	for {
		entry, err := text.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var own labels.Labels
		text.Labels(&own)
		all := labels.NewBuilder(own)
		for name, value := range target {
			if !own.Has(name) {
				all.Set(name, value)
			}
		}
		_, _, sample := text.Series()
		exposed[p.add(all.Labels(), at, sample)] = true
	}
	name := labels.FromMap(target).String()
	for series := range p.exposed[name] {
		if !exposed[series] {
			p.add(p.series[series].Metric, at, math.Float64frombits(value.StaleNaN))
		}
	}
	p.exposed[name] = exposed
	return nil
}

// add adds a sample to a series, and returns the text of its labels.
func (p *Prometheus) add(metric labels.Labels, at time.Time, sample float64) string {
	name := metric.String()
	if p.series[name] == nil {
		p.series[name] = &promql.Series{Metric: metric}
	}
	p.series[name].Floats = append(p.series[name].Floats, promql.FPoint{T: at.UnixMilli(), F: sample})
	return name
}

// matching returns the series that a selector selects.
func (p *Prometheus) matching(matchers []*labels.Matcher) *seriesSet {
	found := &seriesSet{}
	for _, series := range p.series {
		isOther := func(matcher *labels.Matcher) bool { return !matcher.Matches(series.Metric.Get(matcher.Name)) }
		if !slices.ContainsFunc(matchers, isOther) {
			found.left = append(found.left, *series)
		}
	}
	return found
}

// seriesSet is the engine's input.
type seriesSet struct {
	at   promql.Series
	left []promql.Series
}

func (s *seriesSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.at, s.left = s.left[0], s.left[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return promql.NewStorageSeries(s.at) }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// Query evaluates a query at a time.
func (p *Prometheus) Query(ctx context.Context, query string, at time.Time) (promql.Vector, error) {
	stored := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			return p.matching(matchers)
		},
	}}
	running, err := p.engine.NewInstantQuery(ctx, stored, nil, query, at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	defer running.Close()
	vector, err := running.Exec(ctx).Vector()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	return vector, nil
}

// Selectors returns what a query reads: a metric's name, and the names of the labels that it is selected by.
func Selectors(query string) (map[string][]string, error) {
	parsed, err := parser.ParseExpr(query)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	found := map[string][]string{}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		for _, matcher := range selector.LabelMatchers {
			if matcher.Name != labels.MetricName {
				found[selector.Name] = append(found[selector.Name], matcher.Name)
			}
		}
		if found[selector.Name] == nil {
			found[selector.Name] = []string{}
		}
		return nil
	})
	return found, nil
}
