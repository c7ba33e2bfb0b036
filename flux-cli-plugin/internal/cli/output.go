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
	"errors"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// output is the flag --output.
type output string

const wide output = "wide"

var outputs = []cobra.Completion{"json", "name", "wide", "yaml"}

func (o *output) bind(cmd *cobra.Command) {
	cmd.Flags().StringVarP((*string)(o), "output", "o", "", "the format: json, name, wide or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp))
}

// objects returns the printer of objects, or nil if the output is a table.
func (o output) objects() (printers.ResourcePrinter, error) {
	switch o {
	case "", wide:
		return nil, nil
	case "name":
		return &printers.NamePrinter{}, nil
	case "json", "yaml":
		return genericclioptions.NewJSONYamlPrintFlags().ToPrinter(string(o))
	}
	return nil, errors.New("--output must be json, name, wide or yaml")
}

// show prints what was read, as --output says.
type show struct {
	tables *tablePrinter
	// objects is nil if the output is a table.
	objects printers.ResourcePrinter
	scheme  *runtime.Scheme
	log     logger
	warned  []string
}

func (f *clusterFlags) newShow(cmd *cobra.Command, kube client.Client, output output, noHeader bool) (*show, error) {
	objects, err := output.objects()
	return &show{tables: f.printer(cmd).tables(noHeader), objects: objects, scheme: kube.Scheme(), log: loggerFor(cmd)}, err
}

// list prints a table, or its objects as a List. alone prints a single object without a List.
func (s *show) list(found *table, alone bool) error {
	s.warn(found)
	if s.objects == nil {
		return s.tables.print(found)
	}
	objects, err := s.objectsOf(found)
	if err != nil {
		return err
	}
	if _, names := s.objects.(*printers.NamePrinter); names || alone && len(objects) == 1 {
		return s.printEach(objects)
	}
	list := &corev1.List{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("List"))
	for _, object := range objects {
		list.Items = append(list.Items, runtime.RawExtension{Object: object})
	}
	return s.objects.PrintObj(list, s.tables.out)
}

// changes prints lines below those that were printed before, or their objects.
func (s *show) changes(found *table) error {
	s.warn(found)
	if s.objects == nil {
		if len(found.rows) == 0 {
			return nil
		}
		return s.tables.print(found)
	}
	objects, err := s.objectsOf(found)
	if err != nil {
		return err
	}
	return s.printEach(objects)
}

func (s *show) printEach(objects []client.Object) error {
	for _, object := range objects {
		if err := s.objects.PrintObj(object, s.tables.out); err != nil {
			return err
		}
	}
	return nil
}

// objectsOf returns the objects of a table with their kinds, which clients leave out.
func (s *show) objectsOf(found *table) ([]client.Object, error) {
	var objects []client.Object
	for _, line := range found.rows {
		if line.object == nil {
			continue
		}
		kind, err := apiutil.GVKForObject(line.object, s.scheme)
		if err != nil {
			return nil, err
		}
		line.object.GetObjectKind().SetGroupVersionKind(kind)
		objects = append(objects, line.object)
	}
	return objects, nil
}

// warn prints the warnings that were not printed before.
func (s *show) warn(found *table) {
	if !slices.Equal(found.warnings, s.warned) {
		for _, warning := range found.warnings {
			s.log.warningf("%s", warning)
		}
		s.warned = found.warnings
	}
}
