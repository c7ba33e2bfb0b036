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

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// listCommand is the common part of the commands that list something: it selects, prints and watches.
type listCommand struct {
	cluster *clusterFlags
	// noun is the name of an item in messages.
	noun string
	// mayBeEmpty is true if a list without lines is no error, such as that of events.
	mayBeEmpty bool
	// read returns the selected lines.
	read func(ctx context.Context, kube client.Client, selected selection) (*table, error)

	// The flags of 'flux get'.
	all            bool
	noHeader       bool
	watch          bool
	labelSelector  string
	statusSelector string
	output         output
}

// bind adds the flags of every list.
func (c *listCommand) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVarP(&c.all, "all-namespaces", "A", false, "list the objects of all namespaces")
	flags.BoolVar(&c.noHeader, "no-header", false, "print no headings")
	flags.BoolVarP(&c.watch, "watch", "w", false, "after the list, print lines that change, until the command is interrupted")
}

// bindObjects adds the flags of lists with a line for each object.
func (c *listCommand) bindObjects(cmd *cobra.Command) {
	c.bind(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&c.labelSelector, "label-selector", "l", "", "list only objects with these labels, such as team=a,tier!=test")
	flags.StringVar(&c.statusSelector, "status-selector", "", "list only objects with this status of a condition, such as ready=false or ready!=true")
	c.output.bind(cmd)
	_ = cmd.RegisterFlagCompletionFunc("label-selector", cobra.NoFileCompletions)
	_ = cmd.RegisterFlagCompletionFunc("status-selector", cobra.NoFileCompletions)
}

// selection limits a list.
type selection struct {
	// namespace of the objects, unless everywhere is true.
	namespace  string
	everywhere bool
	// name of the objects, or "".
	name string
	// labels are nil without a selector.
	labels labels.Selector
}

// options returns the selection for the API server.
func (s selection) options() []client.ListOption {
	var options []client.ListOption
	if s.name != "" {
		options = append(options, client.MatchingFields{metav1.ObjectNameField: s.name})
	}
	if s.labels != nil {
		options = append(options, client.MatchingLabelsSelector{Selector: s.labels})
	}
	return append(options, within(s.namespace, s.everywhere))
}

func (c *listCommand) run(cmd *cobra.Command, args []string) error {
	selected := selection{everywhere: c.all}
	if len(args) > 0 {
		selected.name = args[0]
	}
	if c.labelSelector != "" {
		var err error
		if selected.labels, err = labels.Parse(c.labelSelector); err != nil {
			return fmt.Errorf("--label-selector: %w", err)
		}
	}
	matches, err := parseStatusSelector(c.statusSelector)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), c.cluster.timeout)
	defer cancel()
	kube, namespace, err := c.cluster.connect(cmd)
	if err != nil {
		return err
	}
	selected.namespace = namespace
	show, err := c.cluster.newShow(cmd, kube, c.output, c.noHeader)
	if err != nil {
		return err
	}
	switch {
	case c.watch && cmd.Flags().Changed("timeout"):
		return c.follow(cmd.Context(), ctx, kube, selected, matches, show)
	case c.watch:
		// A watch ends only by a timeout that was asked for.
		return c.follow(cmd.Context(), cmd.Context(), kube, selected, matches, show)
	}
	found, err := c.read(ctx, kube, selected)
	if err != nil {
		return err
	}
	switch {
	case len(found.rows) > 0:
		return show.list(found.matching(matches), selected.name != "")
	case c.mayBeEmpty:
		show.log.failuref("%s", c.notFound(selected))
		return nil
	}
	show.warn(found)
	return c.notFound(selected)
}

// showOne prints a table with one line, or its object.
func (c *listCommand) showOne(cmd *cobra.Command, kube client.Client, found *table) error {
	show, err := c.cluster.newShow(cmd, kube, c.output, c.noHeader)
	if err != nil {
		return err
	}
	return show.list(found, true)
}

func (c *listCommand) notFound(selected selection) error {
	where := selected.namespace + " namespace"
	if selected.everywhere {
		where = "any namespace"
	}
	if selected.name != "" && !c.mayBeEmpty {
		return fmt.Errorf("%s %s not found in %s", c.noun, selected.name, where)
	}
	return fmt.Errorf("no %s found in %s", plural(c.noun), where)
}

// follow prints the list, and then the lines that change, until a context ends. That one is not used for requests,
// which would fail shortly before its deadline.
func (c *listCommand) follow(ctx, until context.Context, kube client.Client, selected selection, matches func(row) bool, show *show) error {
	shown := map[string]string{}
	err := wait.PollUntilContextCancel(until, c.cluster.watchInterval, true, func(context.Context) (bool, error) {
		found, err := c.read(ctx, kube, selected)
		if err != nil {
			return false, err
		}
		found = found.matching(func(line row) bool { return matches(line) && shown[line.key()] != line.version() })
		for _, line := range found.rows {
			shown[line.key()] = line.version()
		}
		return false, show.changes(found)
	})
	if until.Err() != nil {
		return nil
	}
	return err
}

// parseStatusSelector returns a filter for a selector such as ready=false or ready!=true.
func parseStatusSelector(selector string) (func(row) bool, error) {
	if selector == "" {
		return func(row) bool { return true }, nil
	}
	condition, status, found := strings.Cut(selector, "=")
	condition, negated := strings.CutSuffix(condition, "!")
	isStatus := func(known metav1.ConditionStatus) bool { return strings.EqualFold(string(known), status) }
	if !found || condition == "" || !slices.ContainsFunc([]metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}, isStatus) {
		return nil, errors.New("--status-selector must be a condition and its status, such as ready=false or ready!=true")
	}
	return func(line row) bool {
		return negated != slices.ContainsFunc(line.conditions, func(c metav1.Condition) bool {
			return strings.EqualFold(c.Type, condition) && isStatus(c.Status)
		})
	}, nil
}
