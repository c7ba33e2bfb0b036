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

package localcluster

import (
	"context"
	"syscall"
)

// ProgramProcess describes a process of any program.
type ProgramProcess struct {
	// Name is unique among the cluster's processes. Required.
	Name string

	// Path is the path of its program. Required.
	Path string

	// Args are its arguments.
	Args []string

	// Attributes changes how the system starts it. It must not change what ends the process with its parent.
	Attributes func(*syscall.SysProcAttr)

	// Ready returns nil when the process is ready. By default, it is ready at its start.
	Ready func(context.Context) error
}

// StartProgram starts a program and waits until it is ready. Stop of the cluster ends it.
func (c *Cluster) StartProgram(ctx context.Context, program ProgramProcess) (*Process, error) {
	p, err := c.newProcess(program.Name, program.Path, program.Args...)
	if err != nil {
		return nil, err
	}
	p.attributes = program.Attributes
	p.ready = program.Ready
	if p.ready == nil {
		p.ready = func(context.Context) error { return nil }
	}
	if err := c.startProcess(ctx, p); err != nil {
		return nil, err
	}
	return p, nil
}
